"""The conformance kit's trial of GAIL and AIRL."""

from __future__ import annotations

from maze_devkit import Case, Trial


def adversarial(case: Case) -> Trial:
    """Use a recording of the environment, and a small discriminator."""
    return Trial(parameters={"dataset": str(case.demonstrations()), "discriminator_hidden": [32, 32]})
