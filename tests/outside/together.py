"""A value for a team, as an author outside of Maze writes it: learnt from joint steps as a sum of the agents' own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete
from maze_actors.agents import MultiAgentEnv, Round
from maze_offpolicy import EpsilonGreedy
from maze_offpolicy.collect.replay_collector import ReplayCollector
from maze_offpolicy.learn.targets import Target
from maze_offpolicy.replay.joint import Joint

from maze_core import Algorithm, AlgorithmConfig, Batch, Loss, Plugin, PluginConfig, Policy, Run, hookimpl
from maze_core.base.seeding import Purpose, generator


class TogetherConfig(AlgorithmConfig):
    name: str = "together"
    lr: float = 1e-3
    epoch_length: int = 8
    n_rollout_steps: int = 2
    replay_buffer_size: int = 60
    batch_size: int = 24
    initial_buffer_size: int = 20
    n_step: int = 1


class Together(Algorithm):
    """Value decomposition: the values of the agents' choices add up to that of the team."""

    Config = TogetherConfig
    config: TogetherConfig
    needs_critic = False
    supports_agents = True
    action_spaces = (Discrete,)

    def setup(self, run: Run) -> None:
        config, self._agents, self._target = self.config, run.rows_of(1), Target(run.policy)
        rngs = [generator(run.seed, Purpose.POLICY_NOISE, 2, row) for row in range(run.rows_of(2))]
        exploration = EpsilonGreedy(run.observation_space, run.action_space, rngs, lambda: 0.2)
        collector = ReplayCollector(
            run,
            config.n_rollout_steps,
            2,
            config.replay_buffer_size,
            exploration,
            initial_steps=config.initial_buffer_size,
            selector=Joint(),
        )
        self._collector = self.keep("collector", collector)

    def modules(self) -> dict[str, torch.nn.Module]:
        return {"target": self._target.module}

    def warm_up(self) -> bool:
        return self._collector.warm_up()

    def batches(self) -> Iterator[Batch]:
        self._collector.collect()
        yield self._collector.sample(self.config.batch_size, 0.9, n_step=self.config.n_step)
        self._target.follow(0.02)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        chosen = _values(policy, batch.obs).gather(-1, batch.actions["action"].unsqueeze(-1)).squeeze(-1)
        chosen = torch.where(batch.extra["present"], chosen, 0.0)
        with torch.no_grad():
            wanted = batch.extra["reward"] + batch.extra["discount"] * _values(
                self._target.module, batch.next_obs
            ).amax(-1)
        team, target = (rows.reshape(-1, self._agents).sum(1) for rows in (chosen, wanted))
        return Loss((team - target).square().mean())


def _values(policy: Any, obs: Any) -> torch.Tensor:
    values: torch.Tensor = policy.distribution(obs).parts["action"].logits
    return values


class Gifts(MultiAgentEnv):
    """Each of two sees a number; if it chooses the same, the other one is paid: alone nobody learns it."""

    agents = ("left", "right")
    observation_spaces = dict.fromkeys(agents, Discrete(3))
    action_spaces = dict.fromkeys(agents, Discrete(3))

    def reset(self, seed: int) -> Round:
        self._rng, self._steps = np.random.default_rng(seed), 0
        return Round(self._look())

    def step(self, actions: Mapping[str, Any]) -> Round:
        same = {name: float(actions[name] == self._seen[name]) for name in self.agents}
        rewards, self._steps = {"left": same["right"], "right": same["left"]}, self._steps + 1
        seen = self._look()
        return Round({}, rewards, terminated=seen) if self._steps == 10 else Round(seen, rewards)

    def _look(self) -> dict[str, int]:
        self._seen = {name: int(self._rng.integers(3)) for name in self.agents}
        return dict(self._seen)


class GiftsSource(Plugin):
    """The env source of this game."""

    Config = PluginConfig

    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return Gifts()
