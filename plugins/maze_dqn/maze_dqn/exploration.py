"""Random actions of a run, fewer as it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_offpolicy import EpsilonGreedy

from maze_core import Purpose, generator

if TYPE_CHECKING:
    from maze_core import Run
    from maze_dqn.config import ExploringConfig

EXPLORATION = 2
"""Separates the random actions from the other random numbers of acting."""


def epsilon_greedy(run: Run, config: ExploringConfig, num_envs: int) -> EpsilonGreedy:
    """Return the exploration of `num_envs` environments, with a random generator for each."""
    rngs = [generator(run.seed, Purpose.POLICY_NOISE, EXPLORATION, row) for row in range(num_envs)]
    return EpsilonGreedy(
        run.observation_space,
        run.action_space,
        rngs,
        lambda: config.epsilon,
        lambda steps: config.epsilon,
    )
