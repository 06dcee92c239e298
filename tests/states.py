"""States of runs as plain values that can be compared entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return repr(value) if isinstance(value, float) else value


def walk(value: Any, path: str = "") -> Any:
    """Every leaf with its path."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
        return
    for key, inner in items:
        yield from walk(inner, f"{path}/{key}")
