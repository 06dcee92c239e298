"""Translates RLlib's results into Maze's metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

_NAMES = {
    "policy_loss": "loss/policy",
    "vf_loss": "loss/value",
    "mean_pi_loss": "loss/policy",
    "mean_vf_loss": "loss/value",
    "pi_loss": "loss/policy",
    "qf_loss": "loss/critic",
    "qf_twin_loss": "loss/critic_twin",
    "qf_mean": "loss/q",
    "td_error_mean": "loss/td_error",
    "mean_kl_loss": "loss/kl",
    "mean_entropy": "loss/entropy",
    "curr_kl_coeff": "loss/kl_coef",
    "alpha_value": "loss/entropy_coef",
    "alpha_loss": "loss/entropy_coef_loss",
    "vf_explained_var": "train/explained_variance",
    "total_loss": "loss/total",
}
_DROPPED = (
    "num_",
    "module_",
    "curr_entropy_coeff",
    "weights_seq_no",
    "diff_num_",
    "learner_connector",
    "log_alpha_value",
    "qf_max",
    "qf_min",
)
_MEANS = {"pi_loss": "mean_pi_loss", "vf_loss": "mean_vf_loss"}
"""Sums that IMPALA reports in addition to their means."""
_NORM = "_global_norm"


def losses(learner: Mapping[str, Any]) -> dict[str, float]:
    """Return a learner's metrics as `loss/…` and `train/…`; counters and timers are left out."""
    found: dict[str, float] = {}
    for name, value in _numbers(learner):
        if _MEANS.get(name) in learner:
            continue
        if name in _NAMES:
            found[_NAMES[name]] = value
        elif name.endswith(_NORM):
            # One per optimizer: their global norm.
            found["loss/grad_norm"] = math.hypot(found.get("loss/grad_norm", 0.0), value)
        elif not name.startswith(_DROPPED) and "learning_rate" not in name:
            found[f"loss/{name.removesuffix('_loss')}"] = value
    return found


def _numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Real) or (getattr(value, "shape", None) == () and hasattr(value, "item")):
            yield name, float(value)
