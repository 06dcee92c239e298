"""The conformance kit's trial of the policy `onnx`."""

from __future__ import annotations

from maze_devkit import Case, Trial

from maze_core import RunContext
from maze_export.export import export_policy


def onnx(case: Case) -> Trial:
    """Export an untrained network for the kit's environment."""
    file = case.folder / "policy.onnx"
    with RunContext(case.env, "ppo", silent=True, run_dir=case.folder / "run") as context:
        export_policy(context.run, file)
    return Trial(parameters={"file": str(file)}, env=case.env)
