"""Trials of the core's own plugins whose defaults are not enough for a test."""

from __future__ import annotations

from maze_devkit.subject import Case, Trial


def gymnasium_source(case: Case) -> Trial:
    """Use an environment that is always installed."""
    return Trial(parameters={"id": "CartPole-v1"})


def factory_source(case: Case) -> Trial:
    """Use a function."""
    return Trial(plugin=case.plugin.of(case.env))
