"""The conformance kit's trial of IMPALA and APPO."""

from __future__ import annotations

from maze_devkit import Case, Trial


def trial(case: Case) -> Trial:
    """Use two actors. V-trace is computed on the host, once per batch."""
    return Trial(
        parameters={"num_actors": 2, "actors_batch_size": 2},
        waived={"host_synchronisation": "V-trace runs on the host: one wait per batch instead of one per step"},
    )
