"""Learning of PPO and A2C in stable-baselines3 with its defaults: `python sb3_defaults.py SETTINGS_AS_JSON`.

Prints the deterministic returns of the final policy as JSON.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    started = time.perf_counter()
    family = {"ppo": PPO, "a2c": A2C}[settings["algorithm"]]
    # One environment: what a user gets who names it and no more.
    model = family("MlpPolicy", settings["env"], seed=settings["seed"], device="cpu")
    model.learn(settings["steps"])
    seconds = time.perf_counter() - started
    evaluation_env = make_vec_env(settings["env"], 1, seed=settings["evaluation_seed"])
    returns, _ = evaluate_policy(
        model, evaluation_env, settings["episodes"], deterministic=True, return_episode_rewards=True
    )
    result = {"score": sum(returns) / len(returns), "env_steps": model.num_timesteps, "seconds": seconds}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
