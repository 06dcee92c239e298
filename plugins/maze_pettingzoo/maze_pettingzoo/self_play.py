"""The callback `self_play`: opponents are frozen copies of the policy, from a pool that grows with the run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from maze_core import ConfigError, Plugin, PluginConfig, Purpose, hookimpl
from maze_core.base.seeding import integer_seed
from maze_core.envs.vector import agents_of, copies_of

if TYPE_CHECKING:
    from maze_core import EpochReport, Rollout, Run, VectorEnv
    from maze_core.collect.agents.agent import Agent
    from maze_pettingzoo.opponents import PoolAgent

_WHERE = "callbacks.self_play.opponents"
_SEED = 7
# Separates the opponents' random numbers from the policy's noise.


class SelfPlayConfig(PluginConfig):
    """A pool of frozen policies for the opponents."""

    opponents: tuple[str, ...] = Field(min_length=1)
    """The agents that frozen policies play. The actions of frozen policies teach nothing."""
    rotate: bool = True
    """In every copy of the environment, shift the opponents by one agent, so that the policy learns all sides."""
    pool_size: Annotated[int, Field(ge=2, le=1000)] = 10
    """Most frozen policies. They stay spread evenly from the untrained one, which acts nearly at random, to the
    newest."""
    every_epochs: PositiveInt = 1
    """Epochs between two additions to the pool."""
    latest: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the copies without frozen policies: there the policy plays all agents, and learns from all."""


class SelfPlay(Plugin):
    """Let frozen policies of earlier epochs play the opponents while rollouts are collected.

    The metric `self_play/win_rate` is the share of points of an epoch against frozen policies (a draw is half a point),
    `self_play/win_rate_oldest` and `_newest` those against the oldest and newest that were met, over the whole run. The
    pool is part of checkpoints.
    """

    Config: ClassVar[type[PluginConfig]] = SelfPlayConfig
    config: SelfPlayConfig

    def __init__(self, config: SelfPlayConfig) -> None:
        super().__init__(config)
        self._agent: PoolAgent | None = None

    @hookimpl
    def wrap_agent(self, run: Run, agent: Agent, env: VectorEnv) -> Agent:
        """Put the pool between the learner and the environments."""
        from maze_pettingzoo.opponents import PoolAgent

        self._names, config = agents_of(env), self.config
        missing = [name for name in config.opponents if name not in self._names]
        if missing:
            known = ", ".join(self._names) or "a single one"
            raise ConfigError(f"there is no agent {missing[0]!r}", _WHERE, f"Agents of this environment: {known}")
        if len(set(config.opponents)) == len(self._names):
            raise ConfigError("all agents are opponents, so nobody learns", _WHERE)
        opposing = np.array([name in config.opponents for name in self._names])
        copies = copies_of(env)
        agent_rows = np.stack([np.roll(opposing, c if config.rotate else 0) for c in range(copies)])
        agent_rows[math.ceil(copies * (1 - config.latest)) :] = False
        seed = integer_seed(run.seed, Purpose.POLICY_NOISE, _SEED)
        self._agent = PoolAgent(agent, run.policy, agent_rows, config.pool_size, seed)
        self._agent.freeze(0)
        return self._agent

    @hookimpl
    def change_rollout(self, run: Run, rollout: Rollout) -> None:
        """Leave the opponents' rows out of learning, and count results."""
        if self._agent is None:
            return
        rollout.valid[:, self._agent.agent_rows.reshape(-1)] = False
        if points := self._agent.count(rollout.episodes, self._names):
            rates = list(self._agent.win_rates.values())
            total = {"self_play/win_rate_oldest": rates[0], "self_play/win_rate_newest": rates[-1]}
            run.record({"self_play/win_rate": float(np.mean(points)), **total})

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Add the policy to the pool."""
        if self._agent is not None and epoch.epoch % self.config.every_epochs == 0:
            self._agent.freeze(epoch.epoch)
