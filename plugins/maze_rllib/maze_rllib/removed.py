"""Hints for algorithms that RLlib has removed."""

from __future__ import annotations

A2C = "RLlib removed A2C and A3C (gone since Ray 2.9). Maze has its own: maze train a2c"
TD3 = "RLlib removed DDPG and TD3 (gone since Ray 2.9). Maze has its own: maze train td3, and maze train ddpg"
APEX = "RLlib removed Ape-X (gone since Ray 2.9). Maze has its own: maze train apex --runner local"
PG = "RLlib removed PG (gone since Ray 2.9). Maze has its own: maze train pg"
MAML = "RLlib removed MAML (gone since Ray 2.9). Maze has its own: maze train maml"
