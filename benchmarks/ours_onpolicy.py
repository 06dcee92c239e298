"""Speed of PPO and A2C in Maze: `python ours_onpolicy.py SETTINGS_AS_JSON` prints one line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from ours import measure

SAME_NAME = ("n_rollout_steps", "lr", "gamma", "gae_lambda", "entropy_coef", "value_loss_coef", "max_grad_norm")
PPO_ONLY = ("batch_size", "n_optimization_epochs", "clip_range")

MEMORY = ("memory", "memory_size")


def overrides(settings: dict[str, Any]) -> dict[str, Any]:
    """The first epoch is the warm-up, as many epochs of the same length are measured."""
    names = [*SAME_NAME, "normalize_advantages", *(PPO_ONLY if settings["algorithm"] == "ppo" else ())]
    epochs, remainder = divmod(settings["measured_updates"], settings["warmup_updates"])
    if remainder:
        raise ValueError("measured_updates must be a multiple of warmup_updates")
    return {
        **{f"algorithm.{name}": settings[name] for name in names},
        "algorithm.lr_schedule": "constant",
        "algorithm.normalize_rewards": False,
        **({"algorithm.beta2": 0.999} if settings["algorithm"] == "a2c" else {}),
        "algorithm.epoch_length": settings["warmup_updates"],
        "algorithm.n_epochs": 1 + epochs,
        "model.hidden": settings["hidden"],
        "model.activation": "tanh",
        "model.normalize_observations": False,
        "algorithm.num_envs": settings["num_envs"],
        "env.vectorization": settings.get("vectorization", "single"),
        **{f"model.{name}": settings[name] for name in MEMORY if name in settings},
    }


def main() -> None:
    settings = json.loads(sys.argv[1])
    print(json.dumps(measure(settings, overrides(settings))))


if __name__ == "__main__":
    main()
