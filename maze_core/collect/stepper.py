"""The one way to step environments: an agent acts, the environments step, a sink takes the transitions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from maze_core.base.foreign_settings import settings_kept
from maze_core.base.saved_state import Count, Each, OrNone, varies
from maze_core.base.tree import put_rows
from maze_core.collect.agents.agent import Choice
from maze_core.envs.native import episode_key
from maze_core.envs.recorded_state import Recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.base.tree import Tree
    from maze_core.collect.agents.agent import Agent
    from maze_core.data.rollout import Rollout
    from maze_core.envs.vector import StepResult, VectorEnv


class Sink(Protocol):
    """Takes the transitions of N environments: into a rollout, a replay buffer, a recording, or statistics."""

    def room(self, obs: Tree) -> Tree:
        """Return the arrays for the next observations, leaves [N, …].

        They may be those of `obs`, the current ones, where `add` does not need these any more.
        """

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one transition of every environment.

        Args:
            obs: what the actions were chosen from.
            choice: samples and actions.
            result: rewards, flags, last observations of episodes that ended.
            following: what the next actions are chosen from, the arrays that `room` returned.
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
        """The environments whose episode has just begun, of which no agent has been told."""

    @property
    def started(self) -> bool:
        """True once there are current observations."""
        return self._obs is not None

    @property
    def begun(self) -> list[int]:
        """The environments whose episode has just begun."""
        return list(self._begun)

    def begin(self, obs: Tree) -> None:
        """Begin the first episodes; their first observations are written to `obs`, leaves [N, …]."""
        with settings_kept():
            self.env.reset(self._seeds, obs)
        self._obs, self._begun = obs, list(range(self.env.num_envs))

    def move(self, obs: Tree) -> None:
        """Go on from other arrays, which hold the current observations."""
        self._obs = obs

    def stand(self, obs: Tree, begun: Sequence[int] = ()) -> None:
        """Go on from the current observations of environments that were stepped elsewhere.

        `begun`: the environments whose episode has just begun, of which no agent has been told.
        """
        self._obs, self._begun = obs, list(begun)

    def step(self, agent: Agent, sink: Sink, steps: int = 1) -> None:
        """Step every environment `steps` times. `begin` or `restore` comes first."""
        obs, env = self._obs, self.env
        if obs is None:
            raise RuntimeError("the environments have not been reset")
        dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
        for _ in range(steps):
            self.announce(agent)
            choice = agent.act(obs)
            following = sink.room(obs)
            result = env.step(choice.actions, following)
            if torch.get_default_dtype() is not dtype or torch.is_grad_enabled() is not grad:
                torch.set_default_dtype(dtype)  # the environment has changed them
                torch.set_grad_enabled(grad)
            self._obs = following
            self._begun = result.begun
            if agent.hears:
                agent.hear(choice.actions, result.reward)
            if result.acting is not None and result.has_filler:
                agent.wait(np.flatnonzero(~result.valid))
            sink.add(obs, choice, result, following)
            obs = following

    def advance(self, agent: Agent, sink: Sink, steps: int, seconds: float | None = None) -> None:
        """Step every environment `steps` times, or as often as so many seconds allow, at least once."""
        began, taken, at_once = time.monotonic(), 0, steps if seconds is None else 1
        while taken < steps:
            count = min(at_once, steps - taken)
            self.step(agent, sink, count)
            taken += count
            if seconds is None:
                continue
            spent = time.monotonic() - began
            if spent >= seconds:
                break
            # Looking at the clock costs as much as a step of a quick environment.
            at_once = 2 * at_once if spent < seconds / 10 else 1

    def follow(self, agent: Agent, sink: Sink, rollout: Rollout) -> None:
        """Let agent and sink see steps that were taken elsewhere, as if they were taken here."""
        obs = self._obs
        if obs is None:
            raise RuntimeError("the environments have not been reset")
        for actions, result, after in rollout.steps():
            self.announce(agent)
            following = sink.room(obs)
            put_rows(following, slice(None), after)
            self._obs, self._begun = following, result.begun
            sink.add(obs, Choice(actions, actions), result, following)
            obs = following

    def announce(self, agent: Agent) -> None:
        """Tell the agent of the episodes that have just begun."""
        if self._begun:
            agent.begin(self._begun)
            self._begun = []

    def state(self) -> dict[str, Any]:
        """Return where the environments stand."""
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
