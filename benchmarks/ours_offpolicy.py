"""Speed of SAC or TD3 in Maze: `python ours_offpolicy.py SETTINGS_AS_JSON` prints one line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from ours import measure

SAME_NAME = ("lr", "gamma", "tau", "batch_size", "initial_buffer_size", "replay_buffer_size")


def overrides(settings: dict[str, Any]) -> dict[str, Any]:
    """The first epoch is the warm-up, as many epochs of the same length are measured."""
    epochs, remainder = divmod(settings["measured_updates"], settings["warmup_updates"])
    if remainder:
        raise ValueError("measured_updates must be a multiple of warmup_updates")
    of_sac = {"algorithm.entropy_coef": 1.0, "algorithm.entropy_coef_lr": settings["lr"]}
    return {
        **{f"algorithm.{name}": settings[name] for name in SAME_NAME},
        **(of_sac if settings["algorithm"] == "sac" else {}),
        "algorithm.critic_hidden": settings["hidden"],
        "algorithm.epoch_length": settings["warmup_updates"],
        "algorithm.n_epochs": 1 + epochs,
        "model.hidden": settings["hidden"],
    }


def main() -> None:
    settings = json.loads(sys.argv[1])
    print(json.dumps(measure(settings, overrides(settings))))


if __name__ == "__main__":
    main()
