"""Loads one entry point through stevedore. Nothing else in the core imports it, and this module is imported late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stevedore.driver import DriverManager

if TYPE_CHECKING:
    from importlib import metadata

    from maze_core.plugins.discovery import Declaration


class Driver(DriverManager[Any]):
    """stevedore's manager of the one entry point of a claim.

    stevedore's own listing comes from a cache that keeps mtimes as 32-bit floats (a step of two minutes), drops the
    distribution and merges equal claims of two distributions.
    """

    def __init__(self, claim: Declaration) -> None:
        self.entry_points = [claim.entry_point]
        super().__init__(claim.entry_point.group, claim.name, on_missing_entrypoints_callback=None)

    def list_entry_points(self) -> list[metadata.EntryPoint]:
        """Return the entry point of the claim."""
        return self.entry_points
