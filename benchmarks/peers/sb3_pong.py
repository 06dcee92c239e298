"""Speed of PPO on an Atari game in stable-baselines3: `python sb3_pong.py SETTINGS_AS_JSON` prints one line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import ale_py  # noqa: F401 — registers the games
import torch
from sb3_onpolicy import measure
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack


def build(settings: dict[str, Any]) -> PPO:
    """PPO as RL Baselines3 Zoo builds it for Atari, but with constant schedules."""
    # The game as it is for AtariWrapper, which skips frames itself.
    game = {"frameskip": 1, "repeat_action_probability": settings["sticky_actions"]}
    envs = make_atari_env(settings["env"], settings["num_envs"], seed=settings["seed"], env_kwargs=game)
    return PPO(
        "CnnPolicy",
        VecFrameStack(envs, settings["stack"]),
        n_steps=settings["n_rollout_steps"],
        batch_size=settings["batch_size"],
        n_epochs=settings["n_optimization_epochs"],
        learning_rate=settings["lr"],
        gamma=settings["gamma"],
        gae_lambda=settings["gae_lambda"],
        clip_range=settings["clip_range"],
        ent_coef=settings["entropy_coef"],
        vf_coef=settings["value_loss_coef"],
        max_grad_norm=settings["max_grad_norm"],
        seed=settings["seed"],
        device="cpu",
        verbose=0,
    )


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings["threads"])
    measure(build(settings), settings)


if __name__ == "__main__":
    main()
