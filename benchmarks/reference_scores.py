"""Returns of random actions in MuJoCo's environments, and which of MiniGrid's have returns between 0 and 1.

    python benchmarks/reference_scores.py mujoco
    python benchmarks/reference_scores.py minigrid > libraries/maze_statistics/maze_statistics/tables/minigrid.csv

The first prints what stands as `low` in mujoco.csv beside it. The second writes a table: environments whose own
description says that success gives 1 - 0.9 * (steps / most steps), failure 0.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import gymnasium as gym
import numpy as np

MUJOCO = ("HalfCheetah-v5", "Hopper-v5", "InvertedPendulum-v5", "Walker2d-v5")
EPISODES = 100
SAYS = "A reward of '1 - 0.9 * (step_count / max_steps)' is given for success, and '0' for failure"
PENALTIES = "MiniGrid-Dynamic-Obstacles"
"""A collision gives -1 there, whatever the description says first."""


def random_returns(name: str) -> np.ndarray:
    """Returns of episodes of uniform actions: `[EPISODES]`."""
    env = gym.make(name)
    env.action_space.seed(0)
    found = []
    for seed in range(EPISODES):
        env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, over = total + float(reward), terminated or truncated
        found.append(total)
    return np.array(found)


def between_0_and_1() -> Iterator[str]:
    """Names of MiniGrid's environments whose description says `SAYS`."""
    import minigrid  # noqa: F401, registers them

    for name, spec in sorted(gym.registry.items()):
        if name.startswith(("MiniGrid-", "BabyAI-")) and not name.startswith(PENALTIES):
            module, _, kind = str(spec.entry_point).partition(":")
            described = getattr(importlib.import_module(module), kind).__doc__ or ""
            if SAYS in " ".join(described.split()):
                yield name


def main() -> None:
    if sys.argv[1:] == ["mujoco"]:
        for name in MUJOCO:
            found = random_returns(name)
            print(name, f"{found.mean():.1f}", "±", f"{found.std(ddof=1) / EPISODES**0.5:.1f}")
        return
    print("# Environments of MiniGrid and BabyAI whose return is 0 at a failure, and below 1 at a success.")
    print("# low: failure; high: success at once. From the descriptions of minigrid's classes.")
    print("task,low,high,source")
    for name in between_0_and_1():
        print(f"{name},0,1,the description of the environment in minigrid")


if __name__ == "__main__":
    main()
