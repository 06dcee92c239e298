"""The conformance kit's trial of CMA-ES."""

from __future__ import annotations

from maze_devkit import Case, Trial


def cma_es(case: Case) -> Trial:
    """A population's parameters and returns are on the host."""
    return Trial(waived={"host_synchronisation": "a population's parameters and returns are on the host"})
