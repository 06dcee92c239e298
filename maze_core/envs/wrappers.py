"""The wrappers around an environment: its own reward below them, and their memory across episodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from sys import stdlib_module_names
from typing import TYPE_CHECKING, Any, Protocol, cast

import gymnasium
import numpy as np

from maze_core.base.bundled import packages
from maze_core.base.errors import CheckpointError, RunError
from maze_core.base.saved_state import check_state, form_of
from maze_core.envs.checks import check_info, not_a_number
from maze_core.envs.interfaces import on_host
from maze_core.plugins.closing import releasing
from maze_core.plugins.extensions import installed
from maze_core.plugins.hookspecs import hookimpl
from maze_core.plugins.other_interfaces import check_spaces

if TYPE_CHECKING:
    from maze_core.plugins.config.base import PluginConfig

OTHERS = "maze.other_wrappers"
"""The group of what another distribution, maze-wrappers, does about wrappers of others: `state` returns the layer of
one; `remembering`, `forgotten` and `advice` find out which of them remember, and what to do about it."""
METRICS = "episode_metrics"
"""Key in the `info` of an episode's last step: numbers by name, reported as means over episodes."""


Memory = list[dict[str, Any]]
"""The states that one environment's wrappers keep across episodes, from the outside in."""


class Lasting(Protocol):
    """A wrapper that keeps a state across episodes, such as running statistics.

    A checkpoint holds its state from the beginning of the unfinished episode. A resumed run restores it and replays
    that episode, so the wrapper must depend on this state, the episode's seed and the actions only.
    """

    def state(self) -> dict[str, Any]:
        """Return its state: nested dicts of str/int/float/list/np.ndarray only."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""


class SaidState:
    """Saves and restores what a wrapper says with `state` and `load_state`.

    Args:
        layer: the wrapper, which is new: its state now is the form of what it is given back.
    """

    def __init__(self, layer: Lasting) -> None:
        self.layer, self._form = layer, copy.deepcopy(form_of(layer.state))

    def state(self) -> dict[str, Any]:
        """Return a copy of its state."""
        return copy.deepcopy(self.layer.state())

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`.

        Raises:
            StateError: the wrapper does not take it.
        """
        check_state(state, self._form, f"memory of {type(self.layer).__name__}")
        self.layer.load_state(copy.deepcopy(state))


class LastingLayer(Protocol):
    """The state of a wrapper that keeps one across episodes."""

    layer: Any

    def state(self) -> dict[str, Any]:
        """Return it; that of a wrapper of others has the key `attributes`."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""


class UnsavedState:
    """Stands for the state of a wrapper of others where nothing is installed that saves it.

    Args:
        layer: the wrapper.
    """

    def __init__(self, layer: Any) -> None:
        self.layer, self._name = layer, f"{type(layer).__module__}:{type(layer).__qualname__}"

    def state(self) -> dict[str, Any]:
        """Return a state without attributes."""
        return {"layer": self._name, "attributes": {}, "others": []}

    def load_state(self, state: dict[str, Any]) -> None:
        """Raise CheckpointError for a state that was saved with the attributes of the wrapper."""
        if state.get("attributes"):
            raise CheckpointError(self.note())

    def note(self) -> str:
        """Return what is not installed."""
        from maze_core.plugins.how_to_install import how_to_install

        return (
            f"what the wrapper {name_of(self)} remembers of earlier episodes is not saved: that needs maze-wrappers, "
            f"which is not installed. Next: {how_to_install('maze-wrappers')}"
        )


def layers(env: Any) -> Iterator[Any]:
    """Yield the wrappers of an environment from the outside in, then the environment itself."""
    while isinstance(env, gymnasium.Wrapper | gymnasium.vector.VectorWrapper):
        yield env
        env = env.env
    yield env


def lasting_layers(env: Any) -> list[LastingLayer]:
    """Return the wrappers that keep a state across episodes, or may do so, from the outside in.

    Those that say it have `state` and `load_state`. What else a wrapper of others remembers is found in its attributes.
    `env` may be a natively vectorised environment.
    """
    chain = list(layers(env))
    found: list[LastingLayer] = []
    for depth, layer in enumerate(chain[:-1]):
        if all(callable(getattr(layer, name, None)) for name in ("state", "load_state")):
            found.append(SaidState(layer))
        elif _is_unknown(layer):
            save = installed(OTHERS, "state")
            found.append(UnsavedState(layer) if save is None else save(layer, chain[depth + 1 :]))
    return found


def _is_unknown(layer: Any) -> bool:
    """Return True for a wrapper with code of others that may remember earlier episodes, and saves no state itself."""
    kind = type(layer)
    top = kind.__module__.partition(".")[0]
    if top in packages():
        return False
    if top != "gymnasium":
        return True
    # Of gymnasium's own wrappers these remember; some call a function of the user's.
    function = getattr(layer, "func", None)
    while isinstance(function, partial):
        function = function.func
    its = str(getattr(function, "__module__", None) or "numpy").partition(".")[0]  # that of a ufunc has no name
    return hasattr(layer, "update_running_mean") or its not in {"gymnasium", "numpy", *packages(), *stdlib_module_names}


def says_so(layer: LastingLayer) -> bool:
    """Return True for a wrapper that says that it remembers earlier episodes."""
    return isinstance(layer, SaidState) or hasattr(layer.layer, "update_running_mean")


def name_of(layer: LastingLayer) -> str:
    """Return the name of a wrapper's class."""
    return type(layer.layer).__name__


def remembering(env: gymnasium.Env[Any, Any]) -> str | None:
    """Return the name of the first wrapper in which an episode depends on earlier ones; None: there is none.

    Wrappers of others, which do not say it, are tried out where something is installed that does that.
    """
    lasting = lasting_layers(env)
    for layer in filter(says_so, lasting):
        return name_of(layer)
    find = installed(OTHERS, "remembering") if lasting else None
    return None if find is None else find(lasting)


def forgotten(build: Callable[[], gymnasium.Env[Any, Any]]) -> str | None:
    """Return a note about the first wrapper that cannot be put back where it was; None: all can.

    Args:
        build: returns a new environment at each call, always the same.
    """
    if (find := installed(OTHERS, "forgotten")) is not None:
        note: str | None = find(build)
        return note
    with releasing(build()) as env:
        lost = next((each for each in lasting_layers(env) if isinstance(each, UnsavedState)), None)
    return None if lost is None else lost.note()


def remembered(lasting: Sequence[LastingLayer]) -> Memory:
    """Return copies of the wrappers' states."""
    return [layer.state() for layer in lasting]


def recall(lasting: Sequence[LastingLayer], memory: Memory) -> None:
    """Restore the result of `remembered()`.

    Raises:
        ValueError: the memory belongs to other wrappers.
        StateError: a wrapper does not take its state.
    """
    for layer, state in zip(lasting, memory, strict=True):
        layer.load_state(state)


def cycled(memory: Sequence[Memory], numbers: range) -> list[Memory]:
    """Return a memory for the environment of each number: the given ones in turn."""
    return [memory[number % len(memory)] for number in numbers] if memory else []


def fits(memory: Sequence[Memory], current: Sequence[Memory]) -> bool:
    """Return True where every memory has the states of the same wrappers as the current ones."""
    shapes = [
        [[(sorted(state), state.get("layer")) for state in each] for each in group] for group in (memory, current)
    ]
    return all(shape == shapes[1][0] for shape in shapes[0])


def frozen(memory: Sequence[Memory]) -> list[Memory]:
    """Return a memory whose running statistics stay as they are, where the wrappers can do that, as gymnasium's can."""
    return [[_frozen(state) for state in each] for each in memory]


def _frozen(state: dict[str, Any]) -> dict[str, Any]:
    attributes = state.get("attributes")
    if not isinstance(attributes, dict):
        return state
    switches = {name: False for name in ("_update_running_mean", "update_running_mean") if attributes.get(name) is True}
    return {**state, "attributes": {**attributes, **switches}}


def training_memory(state: Any) -> list[Memory]:
    """Return what the wrappers of the training environments remember, from an algorithm's state; empty: none."""
    if isinstance(state, dict) and isinstance(state.get("memory"), list) and "episode" in state:
        return list(state["memory"])
    members = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    return next(filter(None, map(training_memory, members)), [])


class RewardSum:
    """Adds up rewards until they are taken."""

    def __init__(self) -> None:
        self.value = 0.0

    def take(self) -> float:
        """Return the sum, and begin a new one."""
        value, self.value = self.value, 0.0
        return value


class Meter:
    """Counts the rewards of an environment below all configured wrappers."""

    def __init__(self) -> None:
        self.total = 0.0
        """Sum since the episode began; the caller resets it to 0."""
        self.sums: list[RewardSum] = []
        """Further sums, each for a reader of its own."""

    def add(self, reward: float) -> None:
        """Count the reward of a step."""
        self.total += reward
        for each in self.sums:
            each.value += reward

    def reader(self) -> RewardSum:
        """Return a new sum, which takes part from now on."""
        self.sums.append(RewardSum())
        return self.sums[-1]


class RewardMeter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts the rewards below all configured wrappers, so that reported returns and recorded rewards are raw."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.meter = Meter()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and add the reward."""
        result = self.env.step(action)
        try:
            self.meter.add(float(result[1]))
        except (TypeError, ValueError):
            raise not_a_number(result[1]) from None
        return cast("tuple[Any, Any, bool, bool, dict[str, Any]]", result)


class VectorRewardMeter(gymnasium.vector.VectorWrapper):
    """Keeps the rewards of the last step below all configured wrappers."""

    last: Any = None
    """[N]"""

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, and keep the rewards."""
        result = self.env.step(actions)
        self.last = result[1]
        return result


class Metered:
    """The core's innermost wrapper, around environments that have other wrappers."""

    @hookimpl(wrapper=True)
    def make_env(self, config: PluginConfig, seed: int, index: int) -> Any:
        """Wrap the source's environment in the meter."""
        env = yield
        if isinstance(env, gymnasium.Env):
            check_spaces(env)  # before a wrapper asks for them
        return env if env is None else RewardMeter(env)

    @hookimpl(wrapper=True)
    def make_vector_env(self, config: PluginConfig, num_envs: int, seed: int) -> Any:
        """Wrap the source's natively vectorised environment in the meter."""
        env = yield
        return None if env is None else VectorRewardMeter(on_host(env))


def reward_meter(env: gymnasium.Env[Any, Any]) -> Meter | None:
    """Return the innermost meter of an environment; None where it has no wrappers."""
    found = [vars(layer).get("meter") for layer in layers(env)]
    return next((meter for meter in reversed(found) if isinstance(meter, Meter)), None)


def episode_metrics(info: Mapping[str, Any], place: str) -> dict[str, float]:
    """Return the metrics in the `info` of an episode's last step, and `success` where it says `is_success`.

    Raises:
        MisfitError: the info is no dict.
        RunError: the metrics are not a mapping of names to numbers.
    """
    check_info(info)
    if not info:
        return {}
    success = info.get("is_success")  # as environments with goals report it
    found = {"success": float(success)} if isinstance(success, Real | np.bool_) else {}
    given = info.get(METRICS)
    if not given:
        return found
    if not isinstance(given, Mapping) or not all(isinstance(value, Real) for value in given.values()):
        raise RunError(
            f"{place} returned an info whose {METRICS!r} is not a mapping of names to numbers: {given!r:.80}"
        )
    return found | {str(name): float(value) for name, value in given.items()}
