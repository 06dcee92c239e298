"""Rollouts: T steps of N environments in preallocated arrays, and what fills them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core.data.replay_memory import check_memory
from maze_core.envs.spaces import allocate, allocated_bytes, space_specs
from maze_core.errors import RunError
from maze_core.models.actors import TorchActor, make_actor
from maze_core.models.inputs import MASK_SUFFIX
from maze_core.models.masks import check_masks
from maze_core.training.seeding import EpisodeSeeds, Purpose, integer_seed

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode, Tree, VectorEnv
    from maze_core.models.actors import Actor
    from maze_core.models.policy import Policy
    from maze_core.training.run import Run


@dataclass(slots=True)
class Rollout:
    """What T steps of N environments gave. The arrays are reused by the next rollout."""

    obs: Tree
    """Leaves [T + 1, N, …]; row t is what action t was chosen from, row T what the next rollout starts from."""
    actions: Tree
    """Leaves [T, N, …], as the distribution sampled them."""
    rewards: np.ndarray
    """[T, N] float32"""
    terminated: np.ndarray
    """[T, N] bool"""
    truncated: np.ndarray
    """[T, N] bool"""
    valid: np.ndarray
    """[T, N] bool; False where the environment produced a filler row"""
    truncations: list[tuple[int, np.ndarray, Tree]] = field(default_factory=list)
    """(t, env indices [K], final observations with leaves [K, …]) of the episodes cut by a time limit"""
    episodes: list[Episode] = field(default_factory=list)
    """The episodes that ended, in order"""


class Sampler:
    """Steps environments with a policy, a rollout at a time; needs no run.

    A step is one policy forward for all environments, one vector step and writes into the rollout; sampling noise is
    drawn once per rollout, values and log-probabilities are left to one batched pass afterwards.

    Args:
        policy: acts, on the device where its parameters are.
        env: the environments; reset at the first rollout.
        n_steps: T, steps in one rollout.
        seeds: the seeds of the episodes.
        noise: the sampling noise is drawn from it.
        on_step: called after each step of the environments.
    """

    def __init__(
        self,
        policy: Policy,
        env: VectorEnv,
        n_steps: int,
        seeds: EpisodeSeeds,
        noise: torch.Generator,
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        self.noise = noise
        self._policy, self._env, self._seeds = policy, env, seeds
        self._on_step = on_step
        self._n_steps = n_steps
        specs = space_specs(self._env.observation_space, "observation")
        obs = allocate(specs, (n_steps + 1, self._env.num_envs))
        self._obs_rows = [{k: v[t] for k, v in obs.items()} for t in range(n_steps + 1)]
        self.rollout = self._allocate(obs, n_steps)
        self._started = False

    def _allocate(self, obs: Tree, n_steps: int) -> Rollout:
        shape = (n_steps, self._env.num_envs)
        return Rollout(
            obs=obs,
            actions=self._allocate_samples(shape),
            rewards=np.zeros(shape, np.float32),
            terminated=np.zeros(shape, bool),
            truncated=np.zeros(shape, bool),
            valid=np.ones(shape, bool),
        )

    def _allocate_samples(self, shape: tuple[int, int]) -> Tree:
        """Arrays for what the action distribution samples, whose shapes only a sample tells."""
        actor = TorchActor(self._policy)
        (noise,) = actor.by_step(self._policy.draw_noise((1, shape[1]), torch.Generator()))
        with torch.inference_mode():
            samples, _ = actor.act({k: np.zeros_like(v) for k, v in self._obs_rows[0].items()}, noise)
        return {k: np.zeros((*shape, *v.shape[1:]), v.dtype) for k, v in samples.items()}

    def collect(self) -> Rollout:
        """Step every environment `n_steps` times; the returned arrays are overwritten by the next call."""
        rollout = self.rollout
        if self._started:
            for leaf in rollout.obs.values():
                leaf[0] = leaf[-1]
        else:
            self._env.reset(self._seeds, self._obs_rows[0])
            self._started = True
        rollout.truncations.clear()
        rollout.episodes.clear()
        rollout.terminated.fill(False)
        rollout.truncated.fill(False)
        actor = make_actor(self._policy, self._env.num_envs)
        t = 0
        try:
            with torch.inference_mode():
                noise = self._policy.draw_noise((self._n_steps, self._env.num_envs), self.noise)
                for t, noise_row in enumerate(actor.by_step(noise)):
                    self._step(t, actor, noise_row)
        except RunError:
            self._check_masks(t + 1)  # an environment that refuses an action may have left no choice
            raise
        self._check_masks(self._n_steps)
        return rollout

    def _check_masks(self, steps: int) -> None:
        """Refuse masks that left no choice in the first steps of the rollout."""
        rollout, valid = self.rollout, self.rollout.valid[:steps]
        masks = {k: torch.from_numpy(v[:steps][valid]) for k, v in rollout.obs.items() if k.endswith(MASK_SUFFIX)}
        check_masks(self._env.observation_space, self._env.action_space, masks)

    def _step(self, t: int, actor: Actor, noise: dict[str, Any]) -> None:
        rollout = self.rollout
        samples, actions = actor.act(self._obs_rows[t], noise)
        for key, sample in samples.items():
            rollout.actions[key][t] = sample
        result = self._env.step(actions, self._obs_rows[t + 1])
        rollout.rewards[t] = result.reward
        rollout.valid[t] = result.valid
        if len(result.final_indices):
            rollout.terminated[t] = result.terminated
            rollout.truncated[t] = result.truncated
            self._record_ends(t, result.truncated, result.final_indices, result.final_obs)
            rollout.episodes += result.episodes
        self._on_step()

    def _record_ends(self, t: int, truncated: np.ndarray, indices: np.ndarray, final_obs: Tree | None) -> None:
        cut = truncated[indices]
        if final_obs is not None and cut.any():
            self.rollout.truncations.append((t, indices[cut], {k: v[cut] for k, v in final_obs.items()}))

    def state(self) -> dict[str, Any]:
        """Everything that decides the next rollout but the policy."""
        return {
            "noise": self.noise.get_state(),
            "env": self._env.state() if self._started else None,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken; unfinished episodes are replayed."""
        self.noise.set_state(state["noise"])
        if state["env"] is not None:
            self._env.restore(self._seeds, state["env"], self._obs_rows[-1])
            self._started = True


def _check_rollout(env: VectorEnv, n_steps: int) -> None:
    """Raise ConfigError where a rollout, and the shuffled copy that is learnt from, do not fit into memory."""
    specs = space_specs(env.observation_space, "observation")
    needed = 2 * allocated_bytes(specs, (n_steps + 1, env.num_envs))
    check_memory(needed, n_steps, "algorithm.n_rollout_steps", what="steps of a rollout")


class RolloutCollector:
    """Steps the training environments of a run with its policy and keeps the run's counters."""

    def __init__(self, run: Run, n_steps: int) -> None:
        self._run = run
        self._env = run.training_env()
        _check_rollout(self._env, n_steps)
        noise = torch.Generator().manual_seed(integer_seed(run.seed, Purpose.POLICY_NOISE))
        seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES)
        self._sampler = Sampler(run.policy, self._env, n_steps, seeds, noise, self._show_progress)

    @property
    def rollout(self) -> Rollout:
        """The last rollout."""
        return self._sampler.rollout

    def collect(self) -> Rollout:
        """Step every environment `n_steps` times; the returned arrays are overwritten by the next call."""
        rollout = self._sampler.collect()
        self._run.count_env_steps(int(rollout.valid.sum()))
        self._run.statistics.add(rollout.episodes)
        return rollout

    def _show_progress(self) -> None:
        self._run.progress.env_steps += self._env.num_envs

    def update_normalizer(self) -> None:
        """Let the policy's observation normaliser, if it has one, learn from this rollout.

        Called after the last optimizer step on the rollout: acting, old and new log-probabilities all saw the same
        statistics.
        """
        normalizer, rollout, device = self._run.policy.normalizer, self.rollout, self._run.device
        if normalizer is not None:
            valid = torch.from_numpy(rollout.valid.reshape(-1)).to(device)
            obs = {k: torch.from_numpy(v[:-1].reshape(-1, *v.shape[2:])).to(device) for k, v in rollout.obs.items()}
            normalizer.update(obs, valid)

    def state(self) -> dict[str, Any]:
        """Everything that decides the next rollout but the policy."""
        return self._sampler.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken; unfinished episodes are replayed."""
        self._sampler.load_state(state)
