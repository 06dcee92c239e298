"""Heads of a family of distributions for several action spaces, which its checks look at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from maze_core import ConfigError
from maze_core.base.process_state import isolated_rng
from maze_core.envs.masks import mask_size
from maze_core.models.distributions import Distribution
from maze_devkit.findings import Failed, NotApplicable
from maze_devkit.subject import Subject

SECONDS = 20.0
"""Time that one check may take."""
_FEATURES, ROWS, DRAWS = 5, 4, 20_000

SPACES: dict[str, Space[Any]] = {
    "one number": spaces.Box(-2, 3, (1,), np.float32),
    "a bounded vector": spaces.Box(np.array([-2, 0], np.float32), np.array([1, 5], np.float32)),
    "a bounded matrix": spaces.Box(-1, 1, (2, 2), np.float32),
    "an unbounded vector": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "a choice": spaces.Discrete(4, start=2),
    "several choices": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(3),
}
"""Action spaces by description."""


class Case(NamedTuple):
    """A head for one action space, and distributions of its rows."""

    title: str
    space: Space[Any]
    head: Any
    rows: Distribution
    """Of `ROWS` different rows."""
    mask: Tensor | None

    def many(self, row: int) -> Distribution:
        """Return `DRAWS` copies of the distribution of a row."""
        return _of(self, torch.full((DRAWS,), row))

    def noise(self, rows: int, seed: int = 1) -> Tensor:
        """Return noise for so many rows."""
        drawn: Tensor = self.head.draw_noise((rows, *self.head.shape), torch.Generator().manual_seed(seed))
        return drawn


def features() -> Tensor:
    """Return features of `ROWS` rows."""
    return 3 * torch.randn((ROWS, _FEATURES), generator=torch.Generator().manual_seed(7))


def _of(case: Case, rows: Tensor) -> Distribution:
    mask = None if case.mask is None else case.mask[rows]
    found: Distribution = case.head.forward(features()[rows], mask)
    return found


def cases(subject: Subject, *, masked: bool = False) -> Iterator[Case]:
    """Yield heads for the spaces that the family takes; `masked`: for choices, with masks."""
    family, count = subject.build(), 0
    deadline = time.monotonic() + SECONDS
    for title, space in SPACES.items():
        if not isinstance(space, family.spaces) or (masked and isinstance(space, spaces.Box)):
            continue
        if getattr(family.gives, "bounded", False) and title.startswith("an unbounded"):
            continue
        try:
            with isolated_rng(1):
                head = family.head(space, _FEATURES).eval()
        except ConfigError:
            continue
        mask = _mask(space) if masked else None
        rows = head.forward(features(), mask)
        count += 1
        yield Case(title, space, head, rows, mask)
        if time.monotonic() > deadline:
            raise Failed(f"this takes more than {SECONDS:.0f} s; {title} was the last space")
    if not count and masked:
        raise NotApplicable("a Box has no mask")
    if not count:
        raise NotApplicable(f"it takes none of the kit's action spaces: {', '.join(SPACES)}")


def _mask(space: Space[Any]) -> Tensor:
    """Return masks [4, n] that leave each member a choice."""
    mask = torch.ones((ROWS, mask_size(space)), dtype=torch.int8)
    firsts = np.cumsum([0, *space.nvec[:-1]]) if isinstance(space, spaces.MultiDiscrete) else [0]
    for row, first in ((row, first) for row in range(1, ROWS) for first in firsts):
        mask[row, int(first)] = 0
    return mask
