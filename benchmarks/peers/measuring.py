"""What the scripts that measure the speed of peers share."""

from __future__ import annotations

import json
import resource
from typing import Any

_NAMES = {
    "learning_rate": "lr",
    "gamma": "gamma",
    "gae_lambda": "gae_lambda",
    "ent_coef": "entropy_coef",
    "vf_coef": "value_loss_coef",
    "max_grad_norm": "max_grad_norm",
}
"""Settings by the names that the peers' on-policy algorithms have in common."""


def same_names(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an on-policy algorithm that all peers call by one name."""
    return {theirs: settings[ours] for theirs, ours in _NAMES.items()}


def report(steps: int, seconds: float) -> None:
    """Print the speed and the peak memory of this process as a line of JSON."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = {"env_steps_per_second": steps / seconds, "env_steps": steps, "seconds": seconds, "peak_rss_kib": peak}
    print(json.dumps(result))
