"""The conformance kit's trial of CMA-ES."""

from __future__ import annotations

from maze_devkit import Case, Trial


def cma_es(case: Case) -> Trial:
    """Cut episodes: a population plays many. Its parameters and returns are on the host."""
    return Trial(
        parameters={"max_steps": 10},
        waived={"host_synchronisation": "a population's parameters and returns are on the host"},
    )
