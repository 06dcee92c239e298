"""What to type for forms of PPO that are options here."""

from __future__ import annotations

RECURRENT = "It is PPO with memory: maze train ppo --set model.memory=gru"
MASKED = "PPO follows masks by itself: maze train ppo, with --wrappers mask_from_info where the info holds them"
SEVERAL = "It is PPO where several agents act: maze train ppo --env mpe/simple_spread_v3 --set env.critic=state"
INDEPENDENT = "It is PPO where several agents act: maze train ppo --env mpe/simple_spread_v3"
