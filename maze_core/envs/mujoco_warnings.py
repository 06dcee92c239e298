"""MuJoCo's warnings: kept off the console and out of the file that it would write into the current folder."""

from __future__ import annotations

import sys
import warnings


def tame_mujoco() -> None:
    """Let this process's MuJoCo, where it is imported, warn the way Python does, and not of deprecations.

    By itself it prints every warning, and appends it to `MUJOCO_LOG.TXT` in the current folder. Environments bring
    models that MuJoCo finds old-fashioned; who trains on them cannot change that.
    """
    mujoco = sys.modules.get("mujoco")
    if mujoco is not None and mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn)


def _warn(message: str) -> None:
    if "deprecated" not in message:
        warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)
