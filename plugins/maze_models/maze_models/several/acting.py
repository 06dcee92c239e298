"""A policy of several agents outside training: an agent's name and observation in, its action out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from maze_actors.agent_rows import AgentRowCodec
from maze_actors.agents import MultiAgentEnv

from maze_core.base.errors import ConfigError
from maze_core.collect.agents.network import NetworkAgent, SharedNoise
from maze_core.collect.agents.single import refused, value_problem
from maze_core.envs.checks import MisfitError, UnlikeSpaceError
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.masks import MaskCheck
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.closing import releasing

if TYPE_CHECKING:
    from maze_core.base.tree import Tree
    from maze_core.collect.agents.looking_ahead import PlanningBeside
    from maze_core.envs.builder import EnvBuilder
    from maze_core.models.policy import Policy


class SeveralAgents:
    """A trained policy that acts for the agents of an environment; each has its own memory, if the policy has one.

        agents = context.agents()
        agents.reset()
        action = agents.act("player_0", observation)

    Args:
        policy: the policy.
        builder: builds the environment that the policy was trained in, whose agents it acts for.
        deterministic: most likely actions instead of samples.
        generator: decides sampled actions; None: torch's global one.
        check: refuse what training refuses, see `SingleAgent`.
        planning: looks ahead in the environment whose observations these are; None: the network acts alone.
        env: returns the observations; one that the builder has not built, as PettingZoo's, has those that are adapted.

    Raises:
        ConfigError: one agent acts in the environment.
    """

    def __init__(
        self,
        policy: Policy,
        builder: EnvBuilder,
        *,
        deterministic: bool = True,
        generator: torch.Generator | None = None,
        check: bool = True,
        planning: PlanningBeside | None = None,
        env: Any = None,
    ) -> None:
        self._planning, self._converts = planning, not isinstance(env, MultiAgentEnv)
        if not builder.several_agents:
            raise ConfigError("one agent acts in this environment", "env", "Next: agent = context.agent()")
        with releasing(builder.agents_env(0)) as own:
            self._rows, self._env = AgentRowCodec(own, agent_ids=builder.agent_ids), own
        noise = None if deterministic else SharedNoise(1, generator or torch.default_generator)
        self._agents = {name: NetworkAgent(policy, noise) for name in own.agents}
        specs = space_specs(policy.observation_space, "observation")
        self._seen = {name: allocate(specs, (1,)) for name in own.agents}
        for name, tree in self._seen.items():
            self._rows.clear(tree, 0, name)
        self._actions = ActionCodec(policy.action_space)
        self._masks = MaskCheck(policy.observation_space, policy.action_space) if check else None

    @property
    def names(self) -> list[str]:
        """The names of the agents."""
        return list(self._agents)

    def reset(self) -> None:
        """Forget the last episode. Call it where an episode begins."""
        for agent in self._agents.values():
            agent.begin([0])
        if self._planning is not None:
            self._planning.begin()

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Where the block raises, remember nothing of what was seen in it. Planners are left as they are."""
        before = {name: agent.state() for name, agent in self._agents.items()}
        try:
            yield
        except BaseException:
            for name, agent in self._agents.items():
                agent.load_state(before[name])
            raise

    def act(self, name: str, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        """Return an agent's action for the next observation at which it acts, both in its own spaces.

        Args:
            name: the agent.
            observation: as the environment has it: of PettingZoo, the one that `last()` or `step` returns.
            info: the agent's info, where it holds the action mask.

        Raises:
            ConfigError: there is no such agent, or the observation is refused.
        """
        if name not in self._agents:
            raise ConfigError(f"there is no agent {name!r:.80}", "env", f"Agents: {', '.join(self._agents)}")
        self._read(name, observation, info or {})
        actions = self._agents[name].act(self._seen[name]).actions
        if self._planning is not None:
            actions = self._planning.choose(observation, actions, name)
        return self._rows.own(name, self._actions.rows(actions)[0])

    def _read(self, name: str, observation: Any, info: Mapping[str, Any]) -> None:
        """Write an agent's observation into its row, unless it is refused."""
        rows, row, checks = self._rows, self._seen[name], self._masks is not None
        try:
            seen = self._env.observed(name, observation, info) if self._converts else observation
        except UnlikeSpaceError as error:
            raise refused(error.key, error.problem, name, checks=checks) from error
        except MisfitError as error:  # what it says next is for who writes environments
            raise refused("info", f"it comes with {str(error).partition('. ')[0]}", name, checks=checks) from error
        except Exception as error:
            reason = f"it cannot be read ({type(error).__name__}: {error})"
            raise refused("observation", reason, name, checks=checks) from error
        problem = None if self._masks is None else rows.problem(name, seen)
        if problem is None:
            problem = self._write(row, name, seen)
        if problem is not None:
            raise refused(*problem, name, checks=checks)

    def _write(self, row: Tree, name: str, seen: Any) -> tuple[str, str] | None:
        """Write an agent's observation into its row; return what is wrong with it, by leaf."""
        rows = self._rows
        try:
            with np.errstate(over="ignore"):  # a number beyond float32's range is refused as infinite
                rows.write(row, 0, name, seen)
        except UnlikeSpaceError as error:
            return rows.own_key(name, error.key), error.problem
        problem = None if self._masks is None else value_problem(row, rows.float_keys(name), self._masks)
        return problem and (rows.own_key(name, problem[0]), problem[1])
