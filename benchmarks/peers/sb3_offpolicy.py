"""Speed of off-policy algorithms in stable-baselines3 and sb3-contrib: `python sb3_offpolicy.py SETTINGS_AS_JSON`.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from measuring import report
from sb3_contrib import TQC
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback


class Stopwatch(BaseCallback):
    """Notes when the first step after the warm-up begins."""

    def __init__(self, first_step: int, wait: Callable[[Any], None]) -> None:
        super().__init__()
        self.first_step, self.wait, self.started_at = first_step, wait, 0.0

    def _on_step(self) -> bool:
        if self.num_timesteps == self.first_step:
            self.wait(self.model)
            self.started_at = time.perf_counter()
        return True


def arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """What the algorithms are built with, by the names that SBX has too."""
    of_dqn = {name: settings[name] for name in ("target_update_interval",) if name in settings}
    return {
        **of_dqn,
        "policy": "MlpPolicy",
        "env": settings["env"],
        "learning_rate": settings["lr"],
        "buffer_size": settings["replay_buffer_size"],
        "learning_starts": settings["initial_buffer_size"],
        "batch_size": settings["batch_size"],
        "tau": settings["tau"],
        "gamma": settings["gamma"],
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": _layers(settings)},
        "seed": settings["seed"],
    }


def _layers(settings: dict[str, Any]) -> Any:
    """What policy and critics are built with, where they differ."""
    critics = settings.get("critic_hidden")
    return settings["hidden"] if critics is None else {"pi": settings["hidden"], "qf": critics}


def build(settings: dict[str, Any]) -> DQN | SAC | TD3 | TQC:
    of_sac = {"ent_coef": "auto"} if settings["algorithm"] in ("sac", "tqc") else {}
    device = settings.get("device", "cpu")
    return {"dqn": DQN, "sac": SAC, "td3": TD3, "tqc": TQC}[settings["algorithm"]](
        **arguments(settings), **of_sac, device=device, verbose=0
    )


def measure(model: Any, settings: dict[str, Any], wait: Callable[[Any], None] = lambda model: None) -> None:
    """Train, and print the rate after the warm-up. `wait`: ends what the model computes in the background."""
    before = settings["initial_buffer_size"] + settings["warmup_updates"]
    stopwatch = Stopwatch(before, wait)
    steps = settings["measured_updates"]
    model.learn(before + steps, callback=stopwatch)
    wait(model)
    seconds = time.perf_counter() - stopwatch.started_at
    report(steps, seconds)


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    measure(build(settings), settings)


if __name__ == "__main__":
    main()
