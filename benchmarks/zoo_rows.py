"""Which policies the zoo has, and how each is trained: small tasks, presets that ship, a minute or two of one core."""

from __future__ import annotations

SEED = "1"
"""The seed of every training."""

_HIDDEN_CARTPOLE = "--preset none --wrappers hide --set wrappers.0.elements=[1,3] --batch-size 256"
_HIDDEN_PENDULUM = "--wrappers hide --set wrappers.0.elements=[2] --preset gru-Pendulum-v1"
_TAXI = "--wrappers mask_from_info,one_hot --preset none"
_GRID = "--wrappers select,flatten --set wrappers.0.keys=[image] --preset none"
_SHOP = "--preset none --set constraints.late_orders.at_most=0.1 --set evaluation.deterministic=false"

ROWS: dict[str, str] = {
    "ppo-CartPole-v1": "ppo --env CartPole-v1 --steps 50000",
    "a2c-CartPole-v1": "a2c --env CartPole-v1 --steps 100000",
    "dqn-CartPole-v1": "dqn --env CartPole-v1",
    "trpo-CartPole-v1": "trpo --env CartPole-v1 --steps 60000",
    "ppo-Pendulum-v1": "ppo --env Pendulum-v1",
    "ppo-shop": f"ppo --env maze_devkit.inventory:Inventory {_SHOP} --steps 60000",
    "sac-Pendulum-v1": "sac --env Pendulum-v1 --steps 4000",
    "es-CartPole-v1": "es --env CartPole-v1 --epochs 4",
    "pg-CartPole-v1": "pg --env CartPole-v1 --preset none --steps 100000",
    "pqn-CartPole-v1": "pqn --env CartPole-v1 --steps 200000",
    "ppo-gru-CartPole-v1": f"ppo --env CartPole-v1 {_HIDDEN_CARTPOLE} --set model.memory=gru "
    "--set algorithm.sequence_length=32 --steps 60000",
    "ppo-FrozenLake-v1": "ppo --env FrozenLake-v1 --wrappers one_hot --preset none --set env.kwargs.is_slippery=false "
    "--steps 40000",
    "ppo-Acrobot-v1": "ppo --env Acrobot-v1 --steps 100000",
    "td3-Pendulum-v1": "td3 --env Pendulum-v1 --steps 5000",
    "cma_es-MountainCarContinuous-v0": "cma_es --env MountainCarContinuous-v0 --steps 200000",
    "ppo-tictactoe_v3": "ppo --env tictactoe_v3 --steps 150000",
    "impala-CartPole-v1": "impala --env CartPole-v1 --steps 200000 --runner dev",
    "ppo-cutting_2d": "ppo --env-source cutting_2d --preset cutting --steps 20000",
    "ddpg-Pendulum-v1": "ddpg --env Pendulum-v1 --steps 5000",
    "alphazero-tictactoe_v3": "alphazero --env tictactoe_v3 --steps 3000",
    "ppo-LunarLander-v3": "ppo --env LunarLander-v3",
    "appo-CartPole-v1": "appo --env CartPole-v1 --steps 100000 --runner dev",
    "ppo-Taxi-v4": f"ppo --env Taxi-v4 {_TAXI} --steps 300000",
    "vdn-simple_spread_v3": "vdn --env simple_spread_v3 --steps 60000",
    "ppo-simple_spread_v3": "ppo --env simple_spread_v3 --steps 150000",
    "a2c-MountainCarContinuous-v0": "a2c --env MountainCarContinuous-v0",
    "trpo-Pendulum-v1": "trpo --env Pendulum-v1 --steps 100000",
    "a2c-Acrobot-v1": "a2c --env Acrobot-v1 --preset none --steps 100000",
    "ppo-MiniGrid-Empty-5x5-v0": f"ppo --env minigrid:MiniGrid-Empty-5x5-v0 {_GRID} --steps 40000",
    "apex-CartPole-v1": "apex --env CartPole-v1 --runner dev --steps 20000",
    "sac-CartPole-v1": "sac --env CartPole-v1 --steps 10000",
    "dqn-Acrobot-v1": "dqn --env Acrobot-v1 --steps 60000",
    "ppo-linear-CartPole-v1": f"ppo --env CartPole-v1 {_HIDDEN_CARTPOLE} --set model.memory=linear --steps 60000",
    "ppo-gru-Pendulum-v1": f"ppo --env Pendulum-v1 {_HIDDEN_PENDULUM}",
}
"""By the name of each policy: the arguments of `maze train`. Names begin with the algorithm."""
