"""Learning of Stable-Baselines3, evaluated at intervals: `python sb3_time_to_score.py SETTINGS_AS_JSON`.

Prints one line of JSON for each evaluation, as soon as it is done: `env_steps` and the mean return, `score`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv, VecNormalize


class Tell(BaseCallback):
    """Prints the evaluation that has just been made."""

    def _on_step(self) -> bool:
        assert isinstance(self.parent, EvalCallback)
        line = {"env_steps": self.model.num_timesteps, "score": float(self.parent.last_mean_reward)}
        print(json.dumps(line), flush=True)
        return True


def main() -> None:
    torch.set_num_threads(1)
    learn({"ppo": PPO, "sac": SAC, "td3": TD3}, json.loads(sys.argv[1]), {"device": "cpu"})


def learn(families: dict[str, Any], settings: dict[str, Any], further: dict[str, Any]) -> None:
    """Train one of the families of algorithms, which SBX has under the same names; `further`: its other parameters."""
    num_envs = settings["num_envs"]
    env = vector_env(settings, num_envs, training=True)
    evaluation = EvalCallback(
        vector_env(settings, 1, training=False),
        callback_after_eval=Tell(),
        n_eval_episodes=settings["episodes"],
        eval_freq=settings["interval"] // num_envs,
        deterministic=True,
        verbose=0,
    )
    parameters = {name: value_of(value) for name, value in settings["parameters"].items()}
    if "noise" in parameters:
        size = env.action_space.shape
        parameters["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, parameters.pop("noise")))
    model = families[settings["algorithm"]]("MlpPolicy", env, seed=settings["seed"], **parameters, **further)
    model.learn(settings["steps"], callback=evaluation)


def vector_env(settings: dict[str, Any], num_envs: int, training: bool) -> VecEnv:
    """The environments; observations, and in training rewards, normalised where the settings say so."""
    seed = settings["seed"] if training else settings["seed"] + 1000
    env: VecEnv = make_vec_env(settings["env"], num_envs, seed=seed)
    if settings["normalize"]:
        gamma = settings["parameters"].get("gamma", 0.99)
        env = VecNormalize(env, training=training, norm_reward=training, gamma=gamma)
    return env


def value_of(value: Any) -> Any:
    """A parameter: `linear VALUE` falls from the value to 0 at the end of training, `relu` is torch's class."""
    if isinstance(value, dict):
        return {name: value_of(each) for name, each in value.items()}
    kind, _, start = value.partition(" ") if isinstance(value, str) else ("", "", "")
    if kind == "linear":
        return lambda remaining: remaining * float(start)
    return torch.nn.ReLU if value == "relu" else value


if __name__ == "__main__":
    main()
