"""Published scores of others, beside which the rows of benchmarks/learning.py stand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """One published figure."""

    algorithm: str
    env: str
    steps: int
    mean: float
    by: str
    protocol: str


ZOO = "[RL Baselines3 Zoo](https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md)"
ONE_RUN = "one run, deterministic, 150,000 steps of evaluation"


def _zoo(algorithm: str, env: str, steps: int, mean: float) -> Score:
    return Score(algorithm, env, steps, mean, ZOO, ONE_RUN)


SCORES = {
    "ppo-CartPole-v1": _zoo("PPO", "CartPole-v1", 100_000, 500.0),
    "a2c-CartPole-v1": _zoo("A2C", "CartPole-v1", 500_000, 500.0),
    "a2c-MountainCarContinuous-v0": _zoo("A2C", "MountainCarContinuous-v0", 100_000, 91.2),
    "es-CartPole-v1": _zoo("ARS", "CartPole-v1", 50_000, 500.0),
    "trpo-CartPole-v1": _zoo("TRPO", "CartPole-v1", 100_000, 500.0),
    "trpo-Pendulum-v1": _zoo("TRPO", "Pendulum-v1", 100_000, -174.6),
    "trpo-HalfCheetah-v5": _zoo("TRPO", "HalfCheetah-v3", 1_000_000, 1785.5),
    "dqn-CartPole-v1": _zoo("DQN", "CartPole-v1", 50_000, 500.0),
    "ppo-Acrobot-v1": _zoo("PPO", "Acrobot-v1", 1_000_000, -73.5),
    "dqn-Acrobot-v1": _zoo("DQN", "Acrobot-v1", 100_000, -76.6),
    "ppo-Pendulum-v1": _zoo("PPO", "Pendulum-v1", 100_000, -172.2),
    "sac-Pendulum-v1": _zoo("SAC", "Pendulum-v1", 20_000, -157.0),
    "td3-Pendulum-v1": _zoo("TD3", "Pendulum-v1", 20_000, -151.9),
    "ppo-LunarLander-v3": _zoo("PPO", "LunarLander-v2", 1_000_000, 242.1),
    "dqn-LunarLander-v3": _zoo("DQN", "LunarLander-v2", 100_000, 154.4),
    "sac-LunarLanderContinuous-v3": _zoo("SAC", "LunarLanderContinuous-v2", 500_000, 260.4),
    "sac-tqc-LunarLanderContinuous-v3": _zoo("TQC", "LunarLanderContinuous-v2", 500_000, 278.0),
    "ppo-HalfCheetah-v5": _zoo("PPO", "HalfCheetah-v3", 1_000_000, 5819.1),
    "ppo-Hopper-v5": _zoo("PPO", "Hopper-v3", 1_000_000, 2410.4),
    "ppo-Walker2d-v5": _zoo("PPO", "Walker2d-v3", 1_000_000, 3478.8),
    "ppo-Ant-v5": _zoo("PPO", "Ant-v3", 1_000_000, 1327.2),
    "ppo-Swimmer-v5": _zoo("PPO", "Swimmer-v3", 1_000_000, 281.6),
    "ppo-simple_spread_v3": Score(
        "MAPPO, constant learning rate",
        "simple_spread_v3",
        998_400,
        -19.3,
        "[BenchMARL](https://github.com/facebookresearch/BenchMARL) 1.5.2, run by benchmarks/peers/benchmarl_mappo.py",
        "3 seeds, deterministic, 100 episodes each, 128 units, 10 passes, batches of 960 actions",
    ),
    "sac-HalfCheetah-v5": _zoo("SAC", "HalfCheetah-v3", 1_000_000, 9535.5),
    "sac-Hopper-v5": _zoo("SAC", "Hopper-v3", 1_000_000, 2325.5),
    "sac-Walker2d-v5": _zoo("SAC", "Walker2d-v3", 1_000_000, 3863.2),
}
"""By the name of a row."""
