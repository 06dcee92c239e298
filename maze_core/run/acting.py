"""Acting with the policy of a run outside of it, in an environment that the caller steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError

if TYPE_CHECKING:
    from maze_core.collect.agents.planning import PlanningBeside
    from maze_core.run.run import Run


def beside(run: Run, env: Any, *, call: str) -> PlanningBeside | None:
    """Return what looks ahead in an environment that is played; None where the run has no planner.

    `call`: the method of the context that was called.

    Raises:
        ConfigError: there is no environment to copy.
    """
    planning = run.planning("acting")
    if planning is None:
        return None
    if env is None:
        raise ConfigError(
            "this run acts with a planner, which looks ahead in copies of the environment that is played",
            "env",
            f"Next: env = context.make_env(), {call} = context.{call}(env=env); "
            f"or context.{call}(look_ahead=False), where the network acts alone.",
        )
    return run.planning_beside(planning, env)


def check_single(several_agents: bool) -> None:
    """Raise ConfigError where several agents act in the environment."""
    if several_agents:
        raise ConfigError(
            "several agents act in this environment, so an observation alone does not say whose it is",
            "env",
            "Next: agents = context.agents(), agents.act(name, observation)",
        )
