"""Plays with the search, and keeps the newest positions of finished episodes with what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core import (
    Batch,
    Collector,
    EpisodeSeeds,
    NetworkAgent,
    Purpose,
    Tree,
    generator,
    subtree,
    take_rows,
    to_tensors,
)
from maze_core.base.seeding import load_random_state, random_state
from maze_core.collect.stepper import Stepper
from maze_core.envs.spaces import LeafSpec, allocate, space_specs
from maze_search.episode_window import EpisodeWindow

if TYPE_CHECKING:
    from maze_core import Run
    from maze_core.collect.agents.agent import Choice
    from maze_core.envs.vector import StepResult
    from maze_search.config import AlphaZeroConfig


class SelfPlay(Collector):
    """A sink of episodes, and the window of positions that are learnt from.

    Args:
        run: has environments, network and search.
        config: of the algorithm.

    Raises:
        ConfigError: the environments cannot be copied, or the window does not fit into memory.
    """

    def __init__(self, run: Run, config: AlphaZeroConfig) -> None:
        self._run, self._config = run, config
        env = run.training_env(config.num_envs)
        seen = space_specs(env.observation_space, "observation")
        actions: Any = env.action_space
        columns = {f"obs/{key}": spec for key, spec in seen.items()}
        columns["visits"] = LeafSpec((int(actions.n),), np.dtype(np.float32))
        columns["outcome"] = LeafSpec((), np.dtype(np.float32))
        where = "algorithm.replay_buffer_size"
        self._window = EpisodeWindow(columns, config.replay_buffer_size, env.num_envs, where, "positions")
        # While a position waits, its `outcome` is the reward until the agent's next one.
        self._now, self._spare = allocate(seen, (env.num_envs,)), allocate(seen, (env.num_envs,))
        seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES)
        # Never None, and the planner is a `Search`: no other plugin may look ahead beside the algorithm.
        self._agent: Any = run.planning_agent(NetworkAgent(run.policy, None), env, seeds)
        self._stepper, self._order = Stepper(env, seeds), generator(run.seed, Purpose.REPLAY)

    def warm_up(self) -> bool:
        """Play until the window has enough positions to learn from; return False if the run was interrupted before."""
        while len(self._window) < min(self._config.initial_buffer_size, self._config.replay_buffer_size):
            if self._run.interrupted or self._run.steps_done:
                return False
            self.play(1)
            self._run.keep_state()
        return True

    def play(self, steps: int) -> None:
        """Let every environment take some steps."""
        if not self._stepper.started:
            self._stepper.reset(self._now)
        self._stepper.step(self._agent, self, steps)

    def sample(self, count: int) -> Batch:
        """Return positions of the window, all equally likely."""
        rows = to_tensors(self._window.sample(count, self._order), self._run.device)
        return Batch(subtree(rows, "obs/"), {}, {name: rows[name] for name in ("visits", "outcome")})

    # The sink

    def next_buffer(self, obs: Tree) -> Tree:
        """Return the arrays that the current observations are not in."""
        return self._spare

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one step of every environment; episodes that end go into the window."""
        self._now, self._spare = following, obs
        acted = np.flatnonzero(result.valid) if result.has_filler else np.arange(len(result.reward))
        for row in acted.tolist():
            seen = {f"obs/{key}": leaf[row].copy() for key, leaf in obs.items()}
            found = {"visits": self._agent.planner.shares[row], "outcome": np.zeros((), np.float32)}
            self._window.waiting[row].append(seen | found)
        for row in np.flatnonzero(result.reward).tolist():
            if waiting := self._window.waiting[row]:
                waiting[-1]["outcome"] += result.reward[row]
        last = self._expected(result)
        for row in np.flatnonzero(result.terminated | result.truncated).tolist():
            self._finish(row, last.get(row, 0.0))
        if (normalizer := self._run.policy.normalizer) is not None:
            valid = torch.from_numpy(result.valid).to(self._run.device) if result.has_filler else None
            normalizer.update(to_tensors(obs, self._run.device), valid)
        self._run.count_env_steps(result.steps)
        self._run.statistics.add(result.episodes)

    def _expected(self, result: StepResult) -> dict[int, float]:
        """Return what the network expects of episodes that a time limit has cut, by row."""
        cut = result.truncated[result.final_indices]
        if result.final_obs is None or not cut.any():
            return {}
        with torch.no_grad():
            values = self._run.policy.value(to_tensors(take_rows(result.final_obs, cut), self._run.device))
        return dict(zip(result.final_indices[cut].tolist(), values.tolist(), strict=True))

    def _finish(self, row: int, outcome: float) -> None:
        """Move the positions of a row into the window; `outcome` is what follows the last one."""
        for position in reversed(self._window.finish(row)):
            outcome = float(position["outcome"]) + self._config.gamma * outcome
            position["outcome"] = np.array(outcome, np.float32)
            self._window.put(position)

    # Saving

    @property
    def disk_bytes(self) -> int:
        """The most bytes on disk: those of the window, in two checkpoints and the best one."""
        return 3 * self._window.nbytes

    def state(self) -> dict[str, Any]:
        """Return the window, unfinished episodes, where the environments stand, and the random states."""
        order = {"order": random_state(self._order)}
        return {**self._stepper.state(), **self._agent.state(), **order, **self._window.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; unfinished episodes are replayed."""
        self._agent.load_state(state)
        load_random_state(self._order, state["order"])
        self._window.load_state(state)
        self._stepper.restore(state, self._now)
        self._window.forget(self._stepper.begun)
