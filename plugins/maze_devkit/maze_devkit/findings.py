"""Checks and their findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from maze_devkit.soundness import Failed, NotApplicable

if TYPE_CHECKING:
    from maze_devkit.subject import Subject

__all__ = ["Check", "Failed", "Finding", "NotApplicable", "Report", "State"]

State = Literal["passed", "failed", "not applicable"]


@dataclass(frozen=True)
class Check:
    """One requirement for a plugin."""

    name: str
    asks: str
    """What is checked, as one sentence."""
    why: str
    """What goes wrong for users if it is not met."""
    mend: str
    """What the plugin's author can do."""
    run: Callable[[Subject], None]
    """Returns if the plugin meets it.

    Raises:
        Failed: it does not; any other exception counts as a failure too.
        NotApplicable: there is nothing to check.
    """
    alone: bool = False
    """True if nothing that the plugin shares among checks (`Trial.shared`) may be running when it starts."""
    seconds: float | None = None
    """Most seconds that it may take; None: those of the plugin's trial, else the kit's."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    state: State
    what: str = ""
    """What is wrong, or why the check does not apply; empty if it passed."""
    why: str = ""
    """Why that matters, if it failed."""
    mend: str = ""
    """How to fix it, if it failed."""
    seconds: float = 0.0
    """How long the check took."""

    def __str__(self) -> str:
        lines = [f"{self.check}: {self.state}"]
        lines += [f"  {title}: {text}" for title, text in (("what", self.what), ("why", self.why), ("mend", self.mend))]
        return "\n".join(line for line in lines if not line.endswith(": "))


@dataclass(frozen=True)
class Report:
    """The results of all checks of one plugin."""

    kind: str
    name: str
    distribution: str
    """Distribution and version, as `maze-ppo 0.1.0`."""
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that the plugin did not pass."""
        return tuple(finding for finding in self.findings if finding.state == "failed")
