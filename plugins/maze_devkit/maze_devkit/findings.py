"""What a check is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from maze_core.envs.soundness import Failed, NotApplicable

if TYPE_CHECKING:
    from maze_devkit.subject import Subject

__all__ = ["Check", "Failed", "Finding", "NotApplicable", "Report", "State"]

State = Literal["passed", "failed", "not applicable"]


@dataclass(frozen=True)
class Check:
    """One thing that a plugin has to keep."""

    name: str
    asks: str
    """What is checked, as one sentence."""
    why: str
    """What goes wrong for users otherwise."""
    mend: str
    """What its author may do."""
    run: Callable[[Subject], None]
    """Returns where the plugin keeps it.

    Raises:
        Failed: it does not; any other exception counts as one, too.
        NotApplicable: there is nothing to check.
    """
    alone: bool = False
    """Whether nothing of what the plugin shares among checks (`Trial.shared`) may be there when it begins."""


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    check: str
    state: State
    what: str = ""
    """What is wrong, or why the check does not apply; empty where it passed."""
    why: str = ""
    """Why that matters, where it failed."""
    mend: str = ""
    """How to mend it, where it failed."""
    seconds: float = 0.0
    """How long the check took."""

    def __str__(self) -> str:
        lines = [f"{self.check}: {self.state}"]
        lines += [f"  {title}: {text}" for title, text in (("what", self.what), ("why", self.why), ("mend", self.mend))]
        return "\n".join(line for line in lines if not line.endswith(": "))


@dataclass(frozen=True)
class Report:
    """What all checks found in one plugin."""

    kind: str
    name: str
    distribution: str
    """Distribution and version, as `maze-ppo 0.1.0`."""
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that the plugin did not pass."""
        return tuple(finding for finding in self.findings if finding.state == "failed")
