"""Stepping environments into a replay buffer, for algorithms that learn from replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.spaces import Box

from maze_core.config.load import part_config
from maze_core.data.replay import ReplayBuffer
from maze_core.data.replay_log import ReplayLog
from maze_core.envs.spaces import allocate, flatten_space, space_specs
from maze_core.errors import ConfigError
from maze_core.models.actors import make_actor
from maze_core.models.inputs import MASK_SUFFIX
from maze_core.models.masks import check_masks, mask_keys
from maze_core.policies.base import build_policy_plugin
from maze_core.training.manifest import states
from maze_core.training.run_dir import REPLAY
from maze_core.training.schedules import check_schedule
from maze_core.training.seeding import EpisodeSeeds, Purpose, integer_seed, sequence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from maze_core.config.run import RunConfig
    from maze_core.data.batch import TensorTree
    from maze_core.data.trajectories import Trajectories
    from maze_core.envs.vector import Tree, VectorEnv
    from maze_core.models.policy import Policy
    from maze_core.training.run import Run

_GUIDE = 1
# Distinguishes the guide's random numbers from the policy's noise.


def check_off_policy(config: RunConfig) -> None:
    """Raise ConfigError for a model with a state critic, sizes that do not fit, or a schedule without an end."""
    check_schedule(config)
    algorithm: Any = config.algorithm
    name = algorithm.name
    if getattr(config.model, "critic", "none") != "none":
        raise ConfigError(
            f"{name} has critics of its own; that of the model would never learn",
            "model.critic",
            "Next: --set model.critic=none",
        )
    # Demonstrations take the place of the first steps.
    first_steps = 0 if getattr(algorithm, "initial_demonstrations", None) else algorithm.initial_buffer_size
    if first_steps > algorithm.replay_buffer_size:
        raise ConfigError(
            f"the first {first_steps:,} steps do not fit into a buffer of {algorithm.replay_buffer_size:,}",
            "algorithm.initial_buffer_size",
            "Lower it, or raise algorithm.replay_buffer_size.",
        )
    if config.steps is not None and config.steps <= first_steps:
        raise ConfigError(
            f"the first {first_steps:,} steps are taken before learning begins, and the run has {config.steps:,}",
            "algorithm.initial_buffer_size",
            "Lower it, or raise steps.",
        )
    fewest = 8 * algorithm.num_actors
    if algorithm.replay_buffer_size < fewest:
        raise ConfigError(
            f"must be {fewest} at least for {algorithm.num_actors} environments", "algorithm.replay_buffer_size"
        )


class Guide:
    """A policy plugin that acts for N environments before there is anything to learn from.

    `part`: its name, or a mapping with its name and parameters.
    """

    def __init__(self, run: Run, part: str | dict[str, Any], env: VectorEnv) -> None:
        load = run.env_builder("training").load
        config = part_config("policy", {"name": part} if isinstance(part, str) else part, load=load)
        self._policy = build_policy_plugin(config, env.observation_space, env.action_space, load)
        self._rngs = [
            np.random.Generator(np.random.PCG64(sequence(run.seed, Purpose.POLICY_NOISE, _GUIDE, row)))
            for row in range(env.num_envs)
        ]
        leaves = flatten_space(env.action_space, "action")
        self._bounds = {key: (box.low, box.high) for key, box in leaves.items() if isinstance(box, Box)}

    def begin(self, rows: Sequence[int]) -> None:
        """Tell the policy that new episodes begin in these rows."""
        for row in rows:
            self._policy.begin(row)

    def act(self, obs: Tree) -> Tree:
        """Actions in environment units, inside the bounds: what the environments execute is what is stored."""
        actions = self._policy.act(obs, self._rngs)
        return {k: np.clip(v, *self._bounds[k]) if k in self._bounds else v for k, v in actions.items()}

    def state(self) -> dict[str, Any]:
        """What it remembers, and where its random numbers stand."""
        return {"policy": self._policy.state(), "rngs": [rng.bit_generator.state for rng in self._rngs]}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._policy.load_state(state["policy"])
        for rng, saved in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = saved


class ReplayCollector:
    """Steps N training environments into a replay buffer, and keeps the buffer on disk from checkpoint to checkpoint.

    A step is one policy forward for all environments, one vector step and writes into the buffer's arrays.

    Args:
        run: gives environments, policy and counters.
        n_steps: steps of each environment in one `collect`.
        num_envs: N.
        capacity: rows of the buffer.

    Raises:
        ConfigError: the buffer does not fit into memory.
    """

    def __init__(self, run: Run, n_steps: int, num_envs: int, capacity: int) -> None:
        self._run, self._n_steps = run, n_steps
        self._policy: Policy = run.policy
        self._env = env = run.training_env(num_envs)
        self._actor = make_actor(run.policy, num_envs)
        self.replay = ReplayBuffer(
            env.observation_space, env.action_space, capacity, where="algorithm.replay_buffer_size"
        )
        self._log: ReplayLog | None = None
        self._noise = torch.Generator().manual_seed(integer_seed(run.seed, Purpose.POLICY_NOISE))
        self._seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES)
        specs = space_specs(env.observation_space, "observation")
        # Two in turn: the one that the last actions were chosen from, and the one that the next are chosen from.
        self._obs, self._spare = allocate(specs, (num_envs,)), allocate(specs, (num_envs,))
        self._masked = bool(mask_keys(env.observation_space, env.action_space))
        self._started = False
        self._begun: list[int] = []
        """The environments whose first episode began since the run was built, of which no guide has been told."""

    @property
    def env(self) -> VectorEnv:
        """The training environments."""
        return self._env

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk at most: the rows `last` and `previous` need, those `best` needs, and what is yet to go."""
        return 2 * self.replay.nbytes + self.replay.nbytes // 4

    # Collecting

    def check(self, demonstrations: Trajectories, where: str) -> None:
        """Make sure that recorded episodes can be put into the buffer.

        Raises:
            ConfigError: there are more than it holds; `where` names the setting they come from.
            TrajectoryError: they were recorded in other spaces.
        """
        demonstrations.check_fits(self._env.observation_space, self._env.action_space, where)
        rows = demonstrations.steps + len(demonstrations)
        if rows > self.replay.capacity - 2 * self._env.num_envs:
            raise ConfigError(
                f"the {len(demonstrations):,} recorded episodes take {rows:,} rows, and the replay buffer has "
                f"{self.replay.capacity:,}",
                where,
                f"Set algorithm.replay_buffer_size to {rows + 2 * self._env.num_envs:,} at least.",
            )

    def add(self, demonstrations: Trajectories, where: str) -> None:
        """Put recorded episodes into the buffer, before the first step. Errors as for `check`."""
        self.check(demonstrations, where)
        for episode in demonstrations:
            self.replay.add_episode(episode)

    def fill(self, steps: int, guide: Guide) -> bool:
        """Let `guide` act until the buffer has had `steps` steps; False where the run was interrupted before.

        It may end up to N - 1 steps later, as the environments step together.
        """
        self._begin()
        guide.begin(self._begun)
        self._begun = []
        while self.replay.steps < steps:
            if self._run.interrupted or self._run.steps_done:
                return False
            # At once: what the guide remembers is saved, not what it is still to be told.
            guide.begin(self._step(guide.act(self._obs)))
        return True

    def collect(self) -> None:
        """Step every environment `n_steps` times with the current policy."""
        self._begin()
        noise = self._policy.draw_noise((self._n_steps, self._env.num_envs), self._noise)
        for step in self._actor.by_step(noise):
            self._step(self._act(step))

    @torch.inference_mode()
    def _act(self, noise: dict[str, Any]) -> Tree:
        _, actions = self._actor.act(self._obs, noise)
        return actions

    def _begin(self) -> None:
        if not self._started:
            self._env.reset(self._seeds, self._obs)
            self._begun = list(range(self._env.num_envs))
            self._open()

    def _open(self) -> None:
        """Take up the current observations."""
        self._started = True
        self._check_masks()
        self.replay.begin(self._obs)

    def _step(self, actions: Tree) -> list[int]:
        """Step once. Returns the environments in which an episode begins."""
        before, self._obs, self._spare = self._obs, self._spare, self._obs
        result = self._env.step(actions, self._obs)
        if self._policy.normalizer is not None:
            valid = None if result.valid.all() else torch.from_numpy(result.valid).to(self._run.device)
            self._policy.normalizer.update(self._to_device(before), valid)
        self.replay.step(actions, result, self._obs)
        self._run.count_env_steps(int(result.valid.sum()))
        self._run.statistics.add(result.episodes)
        self._check_masks()
        return result.begun

    def _check_masks(self) -> None:
        if self._masked:
            masks = {key: torch.from_numpy(leaf) for key, leaf in self._obs.items() if key.endswith(MASK_SUFFIX)}
            check_masks(self._env.observation_space, self._env.action_space, masks)

    def _to_device(self, obs: Tree) -> TensorTree:
        tensors = {key: torch.from_numpy(leaf) for key, leaf in obs.items()}
        if self._run.device.type == "cpu":
            return tensors
        return {key: leaf.to(self._run.device, non_blocking=True) for key, leaf in tensors.items()}

    # Saving

    def state(self) -> dict[str, Any]:
        """Where noise and environments stand, and which rows on disk belong to this state; writes the new ones."""
        return {
            "noise": self._noise.get_state(),
            "env": self._env.state() if self._started else None,
            "replay": self._opened_log().commit(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken, with the same rows; unfinished episodes are replayed.

        Raises:
            CheckpointError: rows on disk are missing or damaged.
        """
        self._noise.set_state(state["noise"])
        self._opened_log().load(state["replay"])
        if state["env"] is not None:
            self._env.restore(self._seeds, state["env"], self._obs)
            self._begun = _begun_anew(state["env"], self._env.state())
            self._open()

    def prune(self) -> None:
        """Delete rows on disk that no checkpoint refers to any more. Call it when a checkpoint is whole."""
        self._opened_log().prune(states(self._run_dir()))

    def _opened_log(self) -> ReplayLog:
        if self._log is None:
            self._log = ReplayLog(self._run_dir() / REPLAY, self.replay)
        return self._log

    def _run_dir(self) -> Path:
        if self._run.run_dir is None:
            raise RuntimeError("this run has no run directory")
        return self._run.run_dir


def _begun_anew(saved: dict[str, Any], restored: dict[str, Any]) -> list[int]:
    """The environments that could not go on with their saved episode and have begun another one."""
    before, after = (np.asarray(state.get("episode", state.get("native_episode"))) for state in (saved, restored))
    if before.shape != after.shape:
        return list(range(len(after)))
    begun: list[int] = np.flatnonzero(before != after).tolist()
    return begun
