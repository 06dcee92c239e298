"""Speed of PPO, A2C and recurrent PPO in stable-baselines3.

`python sb3_onpolicy.py SETTINGS_AS_JSON` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from measuring import report, same_names
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv


class Stopwatch(BaseCallback):
    """Notes when the rollout after the warm-up begins."""

    def __init__(self, warmup_updates: int) -> None:
        super().__init__()
        self.rollouts, self.warmup_updates, self.started_at = 0, warmup_updates, 0.0

    def _on_rollout_start(self) -> None:
        if self.rollouts == self.warmup_updates:
            self.started_at = time.perf_counter()
        self.rollouts += 1

    def _on_step(self) -> bool:
        return True


def build(settings: dict[str, Any]) -> A2C | PPO | RecurrentPPO:
    env = make_vec_env(settings["env"], settings["num_envs"], seed=settings["seed"], vec_env_cls=DummyVecEnv)
    same = {
        "n_steps": settings["n_rollout_steps"],
        **same_names(settings),
        "normalize_advantage": settings["normalize_advantages"],
        "policy_kwargs": {
            "net_arch": {"pi": settings["hidden"], "vf": settings["hidden"]},
            "activation_fn": torch.nn.Tanh,
        },
        "seed": settings["seed"],
        "device": settings.get("device", "cpu"),
        "verbose": 0,
    }
    if settings["algorithm"] == "a2c":
        return A2C("MlpPolicy", env, use_rms_prop=False, **same)
    passes = {"batch_size": settings["batch_size"], "n_epochs": settings["n_optimization_epochs"]}
    if "memory" in settings:
        same["policy_kwargs"] |= {"lstm_hidden_size": settings["memory_size"]}
        return RecurrentPPO("MlpLstmPolicy", env, clip_range=settings["clip_range"], **passes, **same)
    return PPO("MlpPolicy", env, clip_range=settings["clip_range"], **passes, **same)


def measure(model: A2C | PPO | RecurrentPPO, settings: dict[str, Any]) -> None:
    """Train for the warm-up and for the updates that count, and print the speed of these."""
    stopwatch = Stopwatch(settings["warmup_updates"])
    steps_per_update = settings["num_envs"] * settings["n_rollout_steps"]
    updates = settings["warmup_updates"] + settings["measured_updates"]
    model.learn(updates * steps_per_update, callback=stopwatch)
    seconds = time.perf_counter() - stopwatch.started_at
    steps = settings["measured_updates"] * steps_per_update
    report(steps, seconds)


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    measure(build(settings), settings)


if __name__ == "__main__":
    main()
