"""The conformance kit's trial of ES."""

from __future__ import annotations

from maze_devkit import Case, Trial


def es(case: Case) -> Trial:
    """Use a small population. Its indices and ranks stay on the host."""
    return Trial(
        parameters={"n_rollouts_per_update": 8, "n_eval_rollouts": 2},
        waived={"host_synchronisation": "a population's indices and ranks are on the host from the beginning"},
    )
