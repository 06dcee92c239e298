"""What came of a case."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Verdict:
    """A case held where there is no problem."""

    case: str
    """Its name, which decides all of it."""
    kind: str
    """What it is counted under."""
    what: str = ""
    """What was done, in a line."""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def held(self) -> bool:
        return not self.problems

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "held": self.held}
