"""Opens runs again that were built from the objects of a test."""

from __future__ import annotations

from maze_core.plugins.config.assembly import Assembly
from maze_core.run.run import Run


def assembly_of(run: Run) -> Assembly:
    """The assembly that made the configuration of a run."""
    return Assembly(run.config.env.named_class)
