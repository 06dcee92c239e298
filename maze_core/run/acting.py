"""Acting with the policy of a run outside of it, in an environment that the caller steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError

if TYPE_CHECKING:
    from maze_core.collect.agents.looking_ahead import PlanningBeside
    from maze_core.run.run import Run


def beside(run: Run, env: Any, *, call: str) -> PlanningBeside | None:
    """Return what looks ahead in an environment that is played; None where the run has no planner.

    `call`: the method of the context that was called. Errors are those of `RunPlanning.beside`.
    """
    return None if run.planners is None else run.planners.beside(env, call)


def check_single(several_agents: bool) -> None:
    """Raise ConfigError where several agents act in the environment."""
    if several_agents:
        raise ConfigError(
            "several agents act in this environment, so an observation alone does not say whose it is",
            "env",
            "Next: agents = context.agents(), agents.act(name, observation)",
        )
