"""The one way to step environments: an agent acts, the environments step, a sink takes the transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from maze_core.base.foreign_settings import settings_kept
from maze_core.base.saved_state import Count, Each, OrNone, varies
from maze_core.envs.recorded_state import Recorded, episode_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.base.tree import Tree
    from maze_core.collect.agents.agent import Agent, Choice
    from maze_core.envs.vector import StepResult, VectorEnv


class Sink(Protocol):
    """Takes the transitions of N environments: into a rollout, a replay buffer, a recording, or statistics."""

    def next_buffer(self, obs: Tree) -> Tree:
        """Return the arrays that the environments write the next observations into, leaves [N, …].

        They may be those of `obs`, the current ones, where `add` does not need these any more.
        """

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one transition of every environment.

        Args:
            obs: what the actions were chosen from.
            choice: samples and actions.
            result: rewards, flags, last observations of episodes that ended.
            following: what the next actions are chosen from, the arrays that `next_buffer` returned.
        """


class Stepper:
    """Steps N environments, with any agent and into any sink.

    Args:
        env: the environments.
        seeds: the seeds of their episodes.
    """

    def __init__(self, env: VectorEnv, seeds: EpisodeSeeds) -> None:
        self.env = env
        self._seeds = seeds
        self._obs: Tree | None = None
        self._begun: list[int] = []
        """The environments whose episode has just begun, for which no agent's `begin` was called."""

    @property
    def started(self) -> bool:
        """True once there are current observations."""
        return self._obs is not None

    @property
    def begun(self) -> list[int]:
        """The environments whose episode has just begun."""
        return list(self._begun)

    def reset(self, obs: Tree) -> None:
        """Begin the first episodes; their first observations are written to `obs`, leaves [N, …]."""
        with settings_kept():
            self.env.reset(self._seeds, obs)
        self._obs, self._begun = obs, list(range(self.env.num_envs))

    def continue_from(self, obs: Tree, begun: Sequence[int] | None = None) -> None:
        """Go on from these arrays, which hold the current observations.

        `begun`: the environments whose episode has just begun, where others have stepped them; None: as they were.
        """
        self._obs = obs
        if begun is not None:
            self._begun = list(begun)

    def step(self, agent: Agent, sink: Sink, steps: int = 1) -> None:
        """Step every environment `steps` times. `reset` or `restore` comes first."""
        obs, env = self._obs, self.env
        if obs is None:
            raise RuntimeError("the environments have not been reset")
        read_dtype, read_grad = torch.get_default_dtype, torch.is_grad_enabled
        dtype, grad = read_dtype(), read_grad()
        for _ in range(steps):
            if self._begun:
                self.begin_episodes(agent)
            choice = agent.act(obs)
            following = sink.next_buffer(obs)
            result = env.step(choice.actions, following)
            if read_dtype() is not dtype or read_grad() is not grad:
                torch.set_default_dtype(dtype)  # the environment has changed them
                torch.set_grad_enabled(grad)
            # Before the sink has the step: if it raises, the state is that of the environments, which have stepped.
            self._obs, self._begun = following, result.begun
            if agent.hears:
                agent.hear(choice.actions, result.reward)
            if result.acting is not None and result.has_filler:
                agent.wait(np.flatnonzero(~result.valid))
            sink.add(obs, choice, result, following)
            obs = following

    def begin_episodes(self, agent: Agent) -> None:
        """Let the agent begin the episodes that have just begun. `step` does so first of all."""
        if self._begun:
            agent.begin(self._begun)
            self._begun = []

    def state(self) -> dict[str, Any]:
        """Return the state of the environments: their unfinished episodes, and which of these have just begun."""
        env = varies(self.env.state() if self.started else None, OrNone(Recorded(self.env)))
        return {"env": env, "begun": varies(self._begun, Each(Count(below=self.env.num_envs)))}

    def restore(self, state: dict[str, Any], obs: Tree) -> None:
        """Restore the result of `state()` by replaying unfinished episodes; observations are written to `obs`."""
        if state["env"] is None:
            return
        self.env.restore(self._seeds, state["env"], obs)
        anew = _begun_anew(state["env"], self.env.state(), self.env.num_envs)
        self._obs, self._begun = obs, sorted({*state["begun"], *anew})


def _begun_anew(saved: dict[str, Any], restored: dict[str, Any], rows: int) -> list[int]:
    """The rows of environments that could not go on with their saved episode and have begun another one."""
    before, after = (np.asarray(state[episode_key(state)]) for state in (saved, restored))
    if before.shape != after.shape:
        return list(range(rows))
    begun: list[int] = np.flatnonzero(np.repeat(before != after, rows // len(after))).tolist()
    return begun
