"""The checks."""

from __future__ import annotations

from maze_core.testing.findings import Check

CHECKS: tuple[Check, ...] = ()
