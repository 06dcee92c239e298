"""The agent that collects what is learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core import NetworkAgent, Purpose, torch_generator

if TYPE_CHECKING:
    from maze_core import VectorEnv
    from maze_core.collect.agents.agent import Exploration
    from maze_core.plugins.hookspecs import Run


def training_agent(run: Run, env: VectorEnv, exploration: Exploration | None) -> NetworkAgent:
    """Return the agent that collects what a run learns from in these environments; `exploration` None: with samples."""
    if exploration is not None:
        return NetworkAgent.exploring(run.policy, env.num_envs, exploration)
    return NetworkAgent.sampling(run.policy, env.num_envs, torch_generator(run.seed, Purpose.POLICY_NOISE))
