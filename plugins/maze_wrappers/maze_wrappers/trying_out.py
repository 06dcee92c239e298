"""Tries out whether wrappers remember earlier episodes, and whether what they remember can be put into new ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np

from maze_core.base.foreign_settings import settings_kept
from maze_core.envs.wrappers import LastingLayer, lasting_layers, name_of, recall, remembered
from maze_core.plugins.closing import releasing
from maze_wrappers.plain_state import PlainState

Env = gymnasium.Env[Any, Any]

_STEPS = 20
_INSTEAD = {"reward": "normalize_reward", "norm": "normalize_observations", "stack": "stack", "frame": "stack"}
"""Wrappers of Maze that do the job of others, by what their names contain."""


def remembering(lasting: Sequence[LastingLayer]) -> str | None:
    """Return the name of the first wrapper in which an episode depends on earlier ones; None: there is none.

    Wrappers are tried out, with two equal episodes. An environment that does not repeat an episode without them says
    nothing about them.
    """
    unknown = [layer.layer for layer in lasting if isinstance(layer, PlainState)]
    if unknown and _repeats(unknown[-1].env):
        return next((type(layer).__name__ for layer in reversed(unknown) if not _repeats(layer)), None)
    return None


def forgotten(build: Callable[[], Env]) -> str | None:
    """Return a note about the first wrapper that cannot be put back where it was; None: all can.

    An episode in an environment that has played before is compared with the same one in a new environment, which got
    the saved state.

    Args:
        build: returns a new environment at each call, always the same.
    """
    with releasing(build()) as env:
        lasting = [layer for layer in lasting_layers(env) if isinstance(layer, PlainState)]
        if not lasting:
            return None
        with releasing(build()) as other:
            twins = [layer for layer in lasting_layers(other) if isinstance(layer, PlainState)]
            with suppress(Exception):  # an environment that fails tells so when it is stepped
                if _same(_played(lasting[-1].layer.env), _played(twins[-1].layer.env)):
                    for layer, twin in zip(reversed(lasting), reversed(twins), strict=True):
                        _played(layer.layer)
                        if not _goes_on(layer, twin):
                            return _note(layer)
    return None


def _goes_on(layer: PlainState, twin: PlainState) -> bool:
    memory = remembered([layer])
    expected = _played(layer.layer)
    try:
        recall([twin], memory)
        return _same(_played(twin.layer), expected)
    except Exception:  # noqa: BLE001 — what fails after a state was put back did not when it was saved
        return False


def _note(layer: PlainState) -> str:
    name = name_of(layer)
    others = ", ".join(layer.state()["others"][:5])
    way = advice_for(name)
    return (
        f"the wrapper {name} depends on more than can be saved of it"
        + (f" (not its {others})" if others else "")
        + ", so evaluations, saved runs and resumed ones begin without what it remembers. Next: "
        + (f"--wrappers {way}, or " if way else "")
        + "give it the methods state() and load_state()"
    )


def advice_for(name: str) -> str:
    """Return the wrapper of Maze that does the job of another one; empty: there is none."""
    return next((its for part, its in _INSTEAD.items() if part in name.lower()), "")


def _repeats(layer: Env) -> bool:
    """Return True unless the same episode is another one at the second time."""
    with suppress(Exception):
        return _same(_played(layer), _played(layer))
    return True


@settings_kept()
def _played(layer: Env) -> list[Any]:
    """Return what a short episode of random actions shows, always of the same seed and actions."""
    actions = copy.deepcopy(layer.action_space)
    actions.seed(1)
    seen: list[Any] = [copy.deepcopy(layer.reset(seed=1)[0])]
    for _ in range(_STEPS):
        *shown, _ = layer.step(actions.sample())
        seen.append(copy.deepcopy(shown))
        if shown[2] or shown[3]:
            break
    return seen


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f"))
