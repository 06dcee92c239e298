"""The sink that fills a rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core import Rollout, map_tree, take_rows
from maze_core.collect.agents.forward import TorchForward
from maze_core.collect.agents.network import memory_of
from maze_core.envs.masks import MaskCheck
from maze_core.envs.spaces import allocate, space_specs

if TYPE_CHECKING:
    from maze_core import NetworkAgent, Tree, VectorEnv
    from maze_core.collect.agents.agent import Choice
    from maze_core.envs.vector import StepResult


class RolloutSink:
    """Writes the transitions of environments with one agent each into one rollout, which the next one overwrites.

    The environments write their observations right into it, so that none is copied.

    Args:
        env: the environments.
        samples: the arrays for what is sampled, leaves [T, N, …], as `allocate_samples` returns them.
        on_step: called after each step of the environments.
        complete: also keep `env_actions` and `terminations`, which replay and the log of unfinished episodes need.
    """

    def __init__(
        self,
        env: VectorEnv,
        samples: Tree,
        on_step: Callable[[], None] = lambda: None,
        *,
        complete: bool = False,
    ) -> None:
        self._on_step, self._complete = on_step, complete
        self._masks = MaskCheck(env.observation_space, env.action_space)
        self.rollout = empty_rollout(env, samples, valid=True)
        self.steps = 0
        """Steps taken of this rollout."""
        self._rows = [take_rows(self.rollout.obs, t) for t in range(len(self.rollout.rewards) + 1)]

    @property
    def current(self) -> Tree:
        """The arrays of the observations that the next rollout begins with, leaves [N, …]."""
        return self._rows[-1]

    def carry(self) -> Tree:
        """Begin the next rollout with the current observations; return their new arrays."""
        rollout = self.rollout
        for leaf in rollout.obs.values():
            leaf[0] = leaf[-1]
        self.steps = 0
        rollout.clear()
        rollout.terminated.fill(False)
        rollout.truncated.fill(False)
        rollout.valid.fill(True)
        return self._rows[0]

    def next_buffer(self, obs: Tree) -> Tree:
        """Return the row after the current one."""
        return self._rows[self.steps + 1]

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one transition of every environment; the observations are where they belong."""
        rollout, t = self.rollout, self.steps
        for key, sample in choice.samples.items():
            rollout.actions[key][t] = sample
        if self._complete:
            self._keep_actions(choice)
        rollout.rewards[t] = result.reward
        for name, values in result.info.items():
            if t == 0:
                rollout.extra[name] = np.zeros_like(rollout.rewards)
            rollout.extra[name][t] = values
        if result.has_filler:
            rollout.valid[t] = result.valid
        if len(result.final_indices):
            rollout.terminated[t] = result.terminated
            rollout.truncated[t] = result.truncated
            self._add_cut(result)
            rollout.episodes += result.episodes
        self.steps = t + 1
        self._on_step()

    def tell(self, steps: int) -> None:
        """Say of so many steps, which were taken at once, that they are taken."""
        self.steps = steps
        for _ in range(steps):
            self._on_step()

    def check_masks(self, steps: int) -> None:
        """Refuse masks that left no choice in the first steps, filler rows left out."""
        valid = self.rollout.valid[:steps]
        self._masks.check({key: self.rollout.obs[key][:steps][valid] for key in self._masks.leaves})

    def _add_cut(self, result: StepResult) -> None:
        cut, final_obs = result.truncated[result.final_indices], result.final_obs
        if final_obs is None:
            return
        for ends, which in ((self.rollout.truncations, cut), (self.rollout.terminations, ~cut)):
            if which.any() and (self._complete or which is cut):
                ends.append((self.steps, result.final_indices[which], take_rows(final_obs, which)))

    def _keep_actions(self, choice: Choice) -> None:
        """Keep actions in environment units: in arrays of their own only where they are not the samples."""
        rollout, t = self.rollout, self.steps
        for key, action in choice.actions.items():
            samples, kept = rollout.actions.get(key), rollout.env_actions.get(key)
            if samples is not None and action is choice.samples[key] and (kept is None or kept is samples):
                rollout.env_actions[key] = samples
                continue
            if kept is None or kept is samples:
                steps = len(rollout.rewards)
                own = rollout.env_actions[key] = np.zeros((steps, *action.shape), action.dtype)
                if kept is not None:
                    own[:t] = kept[:t]
            rollout.env_actions[key][t] = action


def empty_rollout(env: VectorEnv, samples: Tree, *, valid: bool) -> Rollout:
    """Return an empty rollout of some environments.

    `samples`: its arrays for what is sampled, leaves [T, N, …]. `valid`: whether all its rows are, or none is.
    """
    steps = len(next(iter(samples.values())))
    specs = space_specs(env.observation_space, "observation")
    return Rollout.over(allocate(specs, (steps + 1, env.num_envs)), samples, valid=valid)


def allocate_samples(network: NetworkAgent, env: VectorEnv, n_steps: int) -> Tree:
    """Return arrays [T, N, …] for what a network samples in these environments, of T steps."""
    if network.exploration is not None:  # it changes actions in environment units, and these are kept
        return allocate(space_specs(env.action_space, "action"), (n_steps, env.num_envs))
    # Only a sample knows its shape: that of a squashed Gaussian, say, is the one before tanh.
    policy, obs = network.policy, allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    forward = TorchForward(policy, memory=memory_of(policy))
    (noise,) = forward.by_step(policy.draw_noise((1, env.num_envs), torch.Generator()))
    with torch.inference_mode():
        samples = forward.act(obs, noise).samples
    return map_tree(lambda leaf: np.zeros((n_steps, *leaf.shape), leaf.dtype), samples)
