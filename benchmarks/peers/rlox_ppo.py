"""Speed of PPO in rlox, whose environments and rollouts are written in Rust: `python rlox_ppo.py SETTINGS_AS_JSON`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from measuring import report, same_names
from rlox.algorithms.ppo import PPO
from rlox.callbacks import Callback


class Stopwatch(Callback):
    """Notes when the rollout after the warm-up begins."""

    def __init__(self, warmup_updates: int) -> None:
        self.updates, self.warmup_updates, self.started_at = 0, warmup_updates, 0.0

    def on_step(self, **told: Any) -> bool:
        self.updates += 1
        if self.updates == self.warmup_updates:
            self.started_at = time.perf_counter()
        return True


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    stopwatch = Stopwatch(settings["warmup_updates"])
    if settings["hidden"] != [64, 64]:
        raise ValueError("rlox's own policy has two layers of 64 units")
    model = PPO(
        settings["env"],
        n_envs=settings["num_envs"],
        seed=settings["seed"],
        callbacks=[stopwatch],
        n_steps=settings["n_rollout_steps"],
        n_epochs=settings["n_optimization_epochs"],
        batch_size=settings["batch_size"],
        clip_eps=settings["clip_range"],
        normalize_advantages=settings["normalize_advantages"],
        clip_vloss=False,
        anneal_lr=False,
        **same_names(settings),
    )
    rows = settings["num_envs"] * settings["n_rollout_steps"]
    model.train((settings["warmup_updates"] + settings["measured_updates"]) * rows)
    seconds = time.perf_counter() - stopwatch.started_at
    steps = settings["measured_updates"] * rows
    report(steps, seconds)


if __name__ == "__main__":
    main()
