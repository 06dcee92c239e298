"""Schedules of a parameter over a run."""

from __future__ import annotations


def scheduled(schedule: str, fraction_done: float) -> float:
    """The factor for a parameter when `fraction_done` (0 to 1) of the run lies behind."""
    return 1.0 if schedule == "constant" else 1.0 - fraction_done
