"""Environments that refuse forbidden actions, with masks in every form that fits."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import Space, spaces

BITS = spaces.MultiBinary


class Form(NamedTuple):
    """An action space, and the part of the observation that holds its masks, their entries in the same order."""

    action: Space[Any]
    masks: dict[str, Space[Any]]


MEMBERS = spaces.MultiDiscrete([2, 3])
TWO = spaces.Dict({"arm": spaces.MultiDiscrete([2, 2]), "move": spaces.Discrete(3, start=1)})

FORMS = {
    "a Tuple for members": Form(MEMBERS, {"action_mask": spaces.Tuple([BITS(2), BITS(3)])}),
    "members from elsewhere": Form(
        spaces.MultiDiscrete([2, 3], start=[5, -1]), {"action_mask": spaces.Tuple([BITS(2), spaces.Box(0, 1, (3,))])}
    ),
    "a row for each member": Form(spaces.MultiDiscrete([3, 3]), {"action_mask": spaces.Box(0, 1, (2, 3), np.int8)}),
    "flat": Form(MEMBERS, {"action_mask": spaces.Box(0, 1, (5,), np.bool_)}),
    "a board": Form(spaces.Discrete(6, start=4), {"action_mask": spaces.Box(0, 1, (2, 3), np.float32)}),
    "a Dict": Form(
        TWO,
        {"action_mask": spaces.Dict({"arm": spaces.Tuple([BITS(2), BITS(2)]), "move": spaces.MultiDiscrete([2] * 3)})},
    ),
    "a Tuple for a Tuple": Form(
        spaces.Tuple([spaces.Discrete(3), MEMBERS]),
        {"action_mask": spaces.Tuple([BITS(3), spaces.Tuple([BITS(2), BITS(3)])])},
    ),
    "beside the action": Form(TWO, {"arm_mask": spaces.Tuple([BITS(2), BITS(2)]), "move_mask": BITS(3)}),
    "within a part": Form(
        spaces.Dict({"order": spaces.Dict({"shelf": spaces.Discrete(3)})}),
        {"order": spaces.Dict({"action_mask": spaces.Dict({"shelf": BITS(3)})})},
    ),
    "below the action": Form(
        spaces.Dict({"game": spaces.Discrete(4)}), {"game": spaces.Dict({"action_mask": BITS(4)})}
    ),
}


class Guarded(gymnasium.Env[Any, Any]):
    """Forbids some choices, others at every step, and raises where one of them is taken.

    Args:
        form: the name of one of the forms.
        closed: forbid everything from this step on.
    """

    def __init__(self, form: str, closed: int | None = None) -> None:
        self.form, self._closed = FORMS[form], closed
        self.action_space = self.form.action
        self.observation_space = spaces.Dict({"at": spaces.Box(-1, 1, (2,), np.float32), **self.form.masks})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self.look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        for allowed, choice in zip(self.members, choices(self.action_space, action), strict=True):
            if not allowed[choice]:
                raise ValueError(f"{action!r} is forbidden by {self.members!r}")
        self._steps += 1
        return self.look(), float(self._steps % 2), False, self._steps >= 9, {}

    def look(self) -> dict[str, Any]:
        self.members = [self._draw(size) for size in sizes(self.action_space)]
        if self._closed is not None and self._steps >= self._closed:
            self.members = [np.zeros_like(each) for each in self.members]
        flat = np.concatenate(self.members).tolist()
        at = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"at": at, **{key: _filled(space, flat) for key, space in self.form.masks.items()}}

    def _draw(self, size: int) -> np.ndarray:
        mask = (self.np_random.random(size) < 0.5).astype(np.int8)
        mask[self.np_random.integers(size)] = 1
        return mask


def sizes(space: Space[Any]) -> list[int]:
    """Return the number of choices of each member of an action."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return [size for each in inner for size in sizes(each)]
    return space.nvec.tolist() if isinstance(space, spaces.MultiDiscrete) else [int(space.n)]


def choices(space: Space[Any], action: Any) -> list[int]:
    """Return the choice of each member of an action, counted from 0."""
    assert space.contains(action), action
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [choice for key, each in inner for choice in choices(each, action[key])]
    return np.atleast_1d(action - space.start).tolist()


def _filled(space: Space[Any], flat: list[int]) -> Any:
    """Return a mask whose entries are the next ones of a list, which shrinks."""
    if isinstance(space, spaces.Dict):
        return {key: _filled(each, flat) for key, each in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_filled(each, flat) for each in space.spaces)
    count = int(np.prod(space.shape))
    taken = [flat.pop(0) for _ in range(count)]
    return np.array(taken).reshape(space.shape).astype(space.dtype)
