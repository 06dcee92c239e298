"""Copies of a simulator as a vectorised environment of gymnasium, whose state can be saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from maze_core import RunError
from maze_core.base.saved_state import Array, check_state
from maze_jax.acting import executes
from maze_jax.stepping import Running, Stepping, Steps

if TYPE_CHECKING:
    from maze_onpolicy.collect.plain_network import PlainNetwork

Seeds = Callable[[int, int], int]
"""From the number of an environment and that of an episode to the episode's seed."""
_AHEAD = 64
"""Seeds of so many episodes of each environment are on the device. In half as many steps no more episodes end."""
AT_ONCE = 256
"""Steps of a rollout that one call takes at most: it needs twice as many seeds."""


class Pool(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """N copies of a simulator, stepped by one compiled call, which begins the next episode where one has ended.

    Arrays of NumPy come and go: on the CPU they share the memory of JAX's. With `tensors` they are torch's, on JAX's
    device, shared by DLPack.

    Args:
        stepping: the compiled functions of N copies of a simulator.
        seed: decides the episodes where `begin` does not.
        tensors: take and return tensors of torch.
    """

    def __init__(self, stepping: Stepping, seed: int, tensors: bool) -> None:
        self.num_envs = num_envs = stepping.num_envs
        simulator, self._stepping = stepping.simulator, stepping
        self.metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.single_action_space = simulator.observation_space, simulator.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._seeds = _drawn(seed, num_envs)
        self._next: np.ndarray | None = np.zeros(num_envs, np.int32)
        """The episodes that the next reset begins; None: those after the current ones."""
        self._running: Running | None = None
        self._ahead = _AHEAD
        self._arrays = _Tensors() if tensors else _Arrays()
        if tensors:
            self.device = _Tensors.device()

    def begin(self, seeds: Seeds, episodes: Sequence[int] | np.ndarray) -> None:
        """Let the next reset begin these episodes [N], and give each episode from then on the seed of its number."""
        self._seeds, self._next = seeds, np.asarray(episodes, np.int32)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere. A seed is an integer, or one for each environment."""
        if seed is not None:
            self.begin(_drawn(seed, self.num_envs), np.zeros(self.num_envs, np.int32))
        episodes = np.asarray(self._current.episode) + 1 if self._next is None else self._next
        self._lay_out(episodes)
        self._running, self._next = self._stepping.begin(self._table[:, 0], episodes), None
        return self._arrays.given(self._running.observation), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step everywhere; where an episode ends, begin the next one, and keep the last observation in the info."""
        taken = self._arrays.taken(actions)
        self._running, outcome = self._stepping.step(self._current, taken, self._table, self._first)
        reward, terminated, truncated = (self._arrays.given(each) for each in outcome[:3])
        self._steps += 1
        if not self._steps % (self._ahead // 2):
            self._look_ahead()
        info = {"final_obs": self._arrays.given(outcome.last)} if self._arrays.any(terminated, truncated) else {}
        return self._arrays.given(self._running.observation), reward, terminated, truncated, info

    @property
    def rolls(self) -> bool:
        """True where `roll` takes whole rollouts: with arrays of NumPy, and actions that it can make."""
        return isinstance(self._arrays, _Arrays) and executes(self.single_action_space)

    def roll(self, network: PlainNetwork, noise: Mapping[str, np.ndarray]) -> Iterator[Steps]:
        """Step everywhere with the actions of a policy, T steps in few compiled calls, and yield what these return.

        Args:
            network: the policy.
            noise: what its samples are drawn with, by action leaf, [T, N, …].
        """
        import jax

        roll, steps = self._stepping.rolled(network.form), len(next(iter(noise.values())))
        most = -(-steps // -(-steps // AT_ONCE))  # parts as equal as can be: each length is a program of its own
        if most > self._ahead // 2:
            self._ahead = 2 * most
            self._lay_out(np.asarray(self._current.episode))
        for start in range(0, steps, most):
            part = {key: leaf[start : start + most] for key, leaf in noise.items()}
            self._running, taken = roll(network.arrays, self._current, part, self._table, self._first)
            self._look_ahead()
            yield jax.tree.map(np.asarray, taken)

    def saved(self) -> dict[str, np.ndarray]:
        """Return the state of all environments: arrays by number, which `load` takes."""
        import jax

        return {f"{i:04}": _plain(jax, leaf) for i, leaf in enumerate(jax.tree.leaves(self._current))}

    def load(self, saved: Mapping[str, np.ndarray], seeds: Seeds, place: str) -> Any:
        """Go on from the result of `saved()`, and return the current observations.

        Raises:
            StateError: the arrays are those of other environments.
        """
        import jax

        form, tree = jax.tree.flatten(self._stepping.form)
        shapes = {f"{i:04}": _form(jax, leaf) for i, leaf in enumerate(form)}
        check_state(saved, shapes, place)
        leaves = [_back(jax, saved[f"{i:04}"], leaf) for i, leaf in enumerate(form)]
        self._running = jax.tree.unflatten(tree, leaves)
        self._seeds, self._next = seeds, None
        self._lay_out(np.asarray(self._current.episode))
        return self._arrays.given(self._current.observation)

    def close_extras(self, **kwargs: Any) -> None:
        """Drop the arrays."""
        self._running = None

    @property
    def _current(self) -> Running:
        if self._running is None:
            raise RunError("reset the environments before the first step")
        return self._running

    def _lay_out(self, first: np.ndarray) -> None:
        """Put the seeds of the episodes from the numbers `first` [N] on on the device."""
        import jax

        count = self._ahead
        self._host = np.array([self._seeds_from(i, k, count) for i, k in enumerate(first.tolist())], np.uint32)
        self._numbers = first.astype(np.int32)
        self._table, self._first, self._steps = jax.device_put(self._host), jax.device_put(self._numbers), 0

    def _look_ahead(self) -> None:
        """Put further seeds on the device where episodes have come far."""
        import jax

        now = np.asarray(self._current.episode)
        rows = np.flatnonzero(now - self._numbers >= self._ahead // 4)
        if not len(rows):
            return
        host, numbers = self._host.copy(), self._numbers.copy()  # JAX may read the old ones still
        first, numbers[rows] = numbers.tolist(), now[rows]
        for i in rows.tolist():
            begun = int(now[i]) - first[i]
            host[i, : self._ahead - begun] = host[i, begun:]
            host[i, self._ahead - begun :] = self._seeds_from(i, first[i] + self._ahead, begun)
        self._host, self._numbers = host, numbers
        self._table, self._first = jax.device_put(host), jax.device_put(numbers)

    def _seeds_from(self, i: int, first: int, count: int) -> list[int]:
        """Return the seeds of so many episodes of environment i from the number `first` on."""
        return [self._seeds(i, first + k) for k in range(count)]


class _Arrays:
    """What comes and goes as arrays of NumPy."""

    def taken(self, actions: Any) -> Any:
        """Return actions as JAX takes them."""
        if isinstance(actions, np.ndarray):
            return actions.astype(np.int32) if actions.dtype == np.int64 else actions
        return _inside(self.taken, actions)

    def given(self, tree: Any) -> Any:
        """Return arrays of JAX as NumPy's, which share their memory on the CPU."""
        return np.asarray(tree) if hasattr(tree, "dtype") else _inside(self.given, tree)

    def any(self, terminated: np.ndarray, truncated: np.ndarray) -> bool:
        """Return True where an episode has ended."""
        return bool(terminated.any() or truncated.any())


class _Tensors:
    """What comes and goes as tensors of torch, on the device of JAX."""

    @staticmethod
    def device() -> Any:
        """Return torch's name for JAX's first device."""
        import jax
        import torch

        own = jax.devices()[0]
        return torch.device("cpu") if own.platform == "cpu" else torch.device("cuda", own.local_hardware_id or 0)

    def taken(self, actions: Any) -> Any:
        """Return actions as JAX takes them."""
        import jax
        import torch

        if isinstance(actions, torch.Tensor):
            narrow = actions.int() if actions.dtype is torch.int64 else actions
            return jax.dlpack.from_dlpack(narrow.detach().contiguous())
        return _inside(self.taken, actions)

    def given(self, tree: Any) -> Any:
        """Return arrays of JAX as tensors, which share their memory."""
        import torch.utils.dlpack

        return torch.utils.dlpack.from_dlpack(tree) if hasattr(tree, "dtype") else _inside(self.given, tree)

    def any(self, terminated: Any, truncated: Any) -> bool:
        """Return True: nobody waits for the device to see whether an episode has ended."""
        return True


def _inside(function: Any, tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: function(each) for key, each in tree.items()}
    return tuple(function(each) for each in tree)


def _drawn(seed: Any, num_envs: int) -> Seeds:
    """Return seeds below 2**31 of all episodes; a single environment's first one is what it is given, if so small."""

    def seeds(i: int, k: int) -> int:
        own = int(seed if np.ndim(seed) == 0 else seed[i])
        if k == 0 and own < 2**31 and (num_envs == 1 or np.ndim(seed)):
            return own
        return int(np.random.SeedSequence(own, spawn_key=(i, k)).generate_state(1)[0] >> 1)

    return seeds


def _plain(jax: Any, leaf: Any) -> np.ndarray:
    """Return an array as NumPy's, of a type that files have: keys as their numbers, short floats as whole numbers."""
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.array(leaf)
    return array if array.dtype.kind in "biuf" else array.view(f"u{array.dtype.itemsize}")


def _form(jax: Any, leaf: Any) -> Array:
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.eval_shape(jax.random.key_data, leaf)
    kind = np.dtype(leaf.dtype)
    return Array(kind if kind.kind in "biuf" else np.dtype(f"u{kind.itemsize}"), leaf.shape, finite=False)


def _back(jax: Any, array: np.ndarray, leaf: Any) -> Any:
    """Return what `_plain` was given, which had the type of `leaf`."""
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=jax.random.key_impl(leaf))
    kind = np.dtype(leaf.dtype)
    return jax.device_put(array if kind.kind in "biuf" else array.view(kind))
