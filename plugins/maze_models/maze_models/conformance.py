"""The conformance kit's trial of networks of a user's own."""

from __future__ import annotations

from maze_devkit import Case, Trial
from maze_devkit.networks import small_encoder


def custom(case: Case) -> Trial:
    """Use a function that builds an encoder."""
    return Trial(plugin=case.plugin.of(small_encoder))
