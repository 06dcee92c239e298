"""All kinds of attack, by name: what makes their cases and how many of them there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.attack.configured import ALGORITHMS, Configured
from tests.attack.damaged import SUBJECTS, Damaged
from tests.attack.doors import Doors
from tests.attack.kills import Kills
from tests.attack.leaves import RUNS as ALTERED
from tests.attack.leaves import Leaves
from tests.attack.named import Named
from tests.attack.planted import SUBJECTS as PLANTED
from tests.attack.planted import Planted
from tests.attack.runs import plan_of
from tests.attack.settings import Settings
from tests.attack.shared import SUBJECTS as SHARED
from tests.attack.shared import Shared
from tests.attack.spaces import Spaces
from tests.attack.traps import Traps
from tests.attack.verdict import Verdict

KILLED = ("ppo", "ppo+record", "sac", "sac+record", "es", "es+record", "a2c", "impala", "bc", "sacfd")
ALL = 10**6


class Attack(Protocol):
    """Cases of one kind and subject."""

    def names(self, count: int, /) -> list[str]:
        """So many cases."""

    def try_(self, name: str, /) -> Verdict:
        """One case."""


@dataclass(frozen=True)
class Kind:
    """A kind of attack and what it is tried on."""

    make: Callable[[str, Path, int], Attack]
    subjects: tuple[str, ...]
    share: float
    """Of all cases, for all of its subjects together; 0: as many cases as there are."""

    def count(self, cases: int) -> int:
        """Cases of each subject, where there are so many in all."""
        return round(cases * self.share / len(self.subjects)) if self.share else ALL


def _kills(subject: str, scratch: Path, seed: int) -> Any:
    return Kills(plan_of(subject), scratch, seed)


KINDS: dict[str, Kind] = {
    "kills": Kind(_kills, KILLED, 0),
    "doors": Kind(Doors, ("sac",), 0),
    "settings": Kind(Settings, ("ppo",), 0),
    "traps": Kind(Traps, ("a2c",), 0),
    "damaged": Kind(Damaged, SUBJECTS, 0.3),
    "leaves": Kind(Leaves, tuple(ALTERED), 0),
    "planted": Kind(Planted, PLANTED, 0.25),
    "named": Kind(Named, ("ppo",), 0.1),
    "shared": Kind(Shared, SHARED, 0.2),
    "configured": Kind(Configured, ALGORITHMS, 0.3),
    "spaces": Kind(Spaces, ("ppo", "sac", "es"), 0.05),
}
