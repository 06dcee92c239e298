"""Redirects MuJoCo's warnings, which it prints and writes to a file in the current folder."""

from __future__ import annotations

import sys
import warnings


def tame_mujoco() -> None:
    """Turn this process's MuJoCo warnings into Python warnings, without deprecations, where MuJoCo is imported.

    By default MuJoCo prints every warning and appends it to `MUJOCO_LOG.TXT` in the current folder. Users cannot
    change the models that environments bring, so deprecations are dropped.
    """
    mujoco = sys.modules.get("mujoco")
    if mujoco is not None and mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn)


def _warn(message: str) -> None:
    if "deprecated" not in message:
        warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)
