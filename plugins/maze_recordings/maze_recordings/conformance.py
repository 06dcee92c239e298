"""The conformance kit's trial of the wrapper `record`."""

from __future__ import annotations

from maze_devkit import Case, Trial


def record(case: Case) -> Trial:
    """Use a temporary folder."""
    return Trial(parameters={"folder": str(case.folder / "recordings")})
