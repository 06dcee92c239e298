"""The conformance kit's trial of VDN and QMIX."""

from __future__ import annotations

from maze_devkit import Case, Trial


def small(case: Case) -> Trial:
    """Explore and follow as fast as a short run needs."""
    return Trial(parameters={"epsilon": {"end": 1000}, "num_batches_per_iter": 4, "target_update_interval": 10})
