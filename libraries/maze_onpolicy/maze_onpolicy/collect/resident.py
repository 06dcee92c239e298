"""Rollouts that stay on the device: environments with tensors, stepped by a policy on the same device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from maze_core import Rollout, RunError, map_tree, remembers, take_rows, to_tensors, varies
from maze_core.base.saved_state import OrNone
from maze_core.base.tree import to_arrays
from maze_core.collect.agents.forward import TorchForward
from maze_core.collect.agents.network import SharedNoise
from maze_core.data.batch import concat_tensors
from maze_core.envs.checks import MisfitError, check_info, naming
from maze_core.envs.recorded_state import Recorded
from maze_core.envs.spaces import allocate, space_specs
from maze_onpolicy.data.tensor_codecs import TensorActions, TensorObservations

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import EpisodeSeeds, Policy, TensorTree, Tree
    from maze_core.data.rollout import Ends


class ResidentSampler:
    """Collects rollouts whose observations and actions are tensors on the device; the rest are arrays.

    No step waits for the device: rewards and flags are read once per rollout, and errors are found there.

    Args:
        policy: acts, on the device of the environment.
        env: the natively vectorised environment, which counts episodes.
        layer: its layer with tensors below.
        n_steps: T, steps in one rollout.
        seeds: the seeds of the episodes.
        noise: the sampling noise is drawn from it.
        on_step: called after each step of the environments.
    """

    rollout: Rollout
    """The last rollout: from the first `collect` on."""

    def __init__(
        self,
        policy: Policy,
        env: Any,
        layer: Any,
        n_steps: int,
        seeds: EpisodeSeeds,
        noise: torch.Generator,
        on_step: Callable[[], None],
    ) -> None:
        self._policy, self._env, self._stepped = policy, env, layer.env
        self._steps, self._seeds, self._on_step = n_steps, seeds, on_step
        self._noise = SharedNoise(env.num_envs, noise)
        self._observations = TensorObservations(env.observation_space, layer.tensors_on)
        self._actions = TensorActions(env.action_space, layer.tensors_on)
        self._obs = self._observations.allocate((n_steps + 1, env.num_envs))
        self._samples: TensorTree = {}
        self._finals: TensorTree = {}
        self._ends_given: set[int] = set()
        """The steps with last observations of episodes, in the mode SAME_STEP."""
        self._columns: dict[str, Tensor] = {}
        """Rewards and flags, [T, N]."""
        self._started = False

    @classmethod
    def of(cls, policy: Policy, env: Any, *rest: Any) -> Self | None:
        """Return the sampler of an environment, or None where its steps have to be seen on the host.

        Args:
            policy: acts.
            env: the environment.
            rest: the further arguments of the constructor.
        """
        layer = env.tensors() if hasattr(env, "tensors") else None
        if layer is None or remembers(policy) or not _is_on(policy, layer.tensors_on):
            return None
        return cls(policy, env, layer, *rest)

    def collect(self) -> Rollout:
        """Step every environment `n_steps` times; the returned arrays are overwritten by the next call.

        Raises:
            RunError: the environment failed, or returned what cannot be used.
        """
        if not self._started:
            self._begin(lambda out: self._env.reset(self._seeds, out))
        for leaf in self._obs.values():
            leaf[0] = leaf[-1]
        self._ends_given.clear()
        forward = TorchForward(self._policy)
        with torch.no_grad():
            drawn = self._noise.draw(self._policy, self._steps)
            for t, noise in enumerate(forward.by_step(drawn) if drawn else [{}] * self._steps):
                self.step(t, self.act(forward, t, noise))
                self._on_step()
            self._check_observations()
        self.rollout = self._counted()
        return self.rollout

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next rollout except the policy."""
        env = varies(self._env.state() if self._started else None, OrNone(Recorded(self._env)))
        return {**self._noise.state(), "env": env, "begun": []}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; new episodes begin."""
        self._noise.load_state(state)
        if state["env"] is not None:
            self._begin(lambda out: self._env.restore(self._seeds, state["env"], out))

    def _begin(self, write: Callable[[Tree], None]) -> None:
        """Go on from the current observations, which `write` puts into an array after it has begun episodes."""
        out = allocate(space_specs(self._env.observation_space, "observation"), (self._env.num_envs,))
        write(out)
        for key, leaf in to_tensors(out).items():
            self._obs[key][-1].copy_(leaf)
        self._started = True

    def act(self, forward: TorchForward, t: int, noise: dict[str, Any]) -> Any:
        """Choose the actions of step t, and keep their samples; return them as the environment takes them."""
        samples, actions = forward.choose(take_rows(self._obs, t), noise)
        self._samples = self._kept(self._samples, samples, t)
        return self._actions.batch(actions)

    def step(self, t: int, actions: Any) -> None:
        """Take step t; keep what it returns."""
        with naming("the vectorised environment"):
            observation, reward, terminated, truncated, info = self._stepped.step(actions)
        try:
            if type(info) is not dict:
                check_info(info)
            self._observations.write(take_rows(self._obs, t + 1), observation)
            # The first step decides the types of all: rewards may be whole numbers there.
            flags = {"terminated": terminated, "truncated": truncated}
            rows = {name: _column(name, value, self._env.num_envs).bool() for name, value in flags.items()}
            rows["reward"] = _column("reward", reward, self._env.num_envs).double()
            if self._env.mode is AutoresetMode.SAME_STEP and "final_obs" in info:
                self._finals = self._finals or self._observations.allocate((self._steps, self._env.num_envs))
                self._observations.write(take_rows(self._finals, t), info["final_obs"])
                self._ends_given.add(t)
        except MisfitError as exc:
            raise RunError(f"the vectorised environment returned {exc}") from exc
        self._columns = self._kept(self._columns, rows, t)

    def _kept(self, kept: TensorTree, values: TensorTree, t: int) -> TensorTree:
        """Write the values of step t, leaves [N, …], into tensors [T, N, …], which the first ones allocate."""
        kept = kept or map_tree(lambda leaf: leaf.new_zeros((self._steps, *leaf.shape)), values)
        for key, value in values.items():
            kept[key][t] = value
        return kept

    def _check_observations(self) -> None:
        following = map_tree(lambda leaf: leaf[1:], self._obs)
        if bool(self._observations.usable(following)):
            return
        try:
            self._observations.check(following)
        except MisfitError as exc:
            raise RunError(f"environment {exc.row} returned {exc}") from exc

    def _counted(self) -> Rollout:
        """Return the rollout: rewards and flags as arrays, ends and episodes counted."""
        columns = to_arrays(self._columns)
        terminated, truncated = columns["terminated"], columns["truncated"]
        valid, episodes = self._env.count(columns["reward"], terminated, truncated)
        rewards = np.where(valid, columns["reward"], 0).astype(np.float32)
        obs, samples = cast("Tree", self._obs), cast("Tree", self._samples)
        return Rollout(obs, samples, rewards, terminated, truncated, valid, self._cut(truncated), episodes)

    def _cut(self, truncated: np.ndarray) -> Ends:
        """Return the last observations of the episodes that a time limit cut."""
        same_step = self._env.mode is AutoresetMode.SAME_STEP
        ends: list[tuple[int, np.ndarray, TensorTree]] = []
        for t in np.flatnonzero(truncated.any(1)).tolist():
            if same_step and t not in self._ends_given:
                raise RunError("the vectorised environment resets in the same step but its info has no 'final_obs'")
            rows = np.flatnonzero(truncated[t])
            last = take_rows(self._finals, t) if same_step else take_rows(self._obs, t + 1)
            ends.append((t, rows, take_rows(last, torch.from_numpy(rows))))
        # In the other mode they are among the observations that are checked already.
        if same_step and ends and not bool(self._observations.usable(concat_tensors([last for _, _, last in ends]))):
            raise RunError("a last observation of the vectorised environment is not finite, or not in its space")
        return cast("Ends", ends)


def _is_on(policy: Policy, device: torch.device) -> bool:
    """Return True where the policy's parameters are on a device."""
    own = next(policy.parameters()).device
    return own.type == device.type and device.index in (None, own.index)


def _column(name: str, value: Any, rows: int) -> Tensor:
    """Return rewards or flags as a tensor [N]; raise MisfitError if they are none."""
    if not isinstance(value, torch.Tensor) or value.shape not in ((rows,), ()) or value.is_complex():
        given = f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise MisfitError(f"`{name}` with {given} instead of a tensor of {rows} numbers")
    return value.expand(rows)
