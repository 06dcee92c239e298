"""Whether what the hook `compute_loss` returned is a loss."""

from __future__ import annotations

from typing import Any


def problem_of(loss: Any) -> str:
    """Return what it should be; empty if it is that. Called for every minibatch."""
    try:
        if loss.total.numel() == 1 and all(value.numel() == 1 for value in loss.metrics.values()):
            return ""
    except AttributeError:
        if not hasattr(loss, "total") or not hasattr(loss, "metrics"):
            return "Loss"
    parts = {"total": loss.total} | {f"metric {name!r}": value for name, value in loss.metrics.items()}
    wrong = next(name for name, value in parts.items() if getattr(value, "numel", lambda: 0)() != 1)
    return f"one whose {wrong} is a tensor of one number"
