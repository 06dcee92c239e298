"""What to type for what has another name here."""

from __future__ import annotations

LAGRANGIAN = "It is PPO with a constraint: maze train ppo --set constraints.cost.at_most=25"
