"""Speed of off-policy algorithms in Maze: `python ours_offpolicy.py SETTINGS_AS_JSON` prints one line of JSON."""

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
    hidden = {"critic_hidden": settings.get("critic_hidden", settings["hidden"])}
    sac = {"entropy_coef": 1.0, "entropy_coef_lr": settings["lr"], **hidden}
    own = {
        "sac": sac,
        "tqc": {**sac, "quantiles": 25, "drop_top": 2},
        "crossq": {**sac, "critic_norm": "batch", "policy_delay": 3},
        "td3": hidden,
        "dqn": {
            "target_update_interval": settings.get("target_update_interval"),
            "num_envs": 1,
            "n_rollout_steps": 1,
            "num_batches_per_iter": 1,
        },
    }
    return {
        **{f"algorithm.{name}": settings[name] for name in SAME_NAME},
        **{f"algorithm.{name}": value for name, value in own[settings["algorithm"]].items()},
        "algorithm.epoch_length": settings["warmup_updates"],
        "algorithm.n_epochs": 1 + epochs,
        "model.hidden": settings["hidden"],
    }


def main() -> None:
    settings = json.loads(sys.argv[1])
    plugin = {"tqc": "sac", "crossq": "sac"}
    ours = {**settings, "algorithm": plugin.get(settings["algorithm"], settings["algorithm"])}
    print(json.dumps(measure(ours, overrides(settings))))


if __name__ == "__main__":
    main()
