"""Runs that learn from joint steps: resuming, workers, and games in turns, which are refused."""

from __future__ import annotations

import pytest
import torch
from gymnasium.spaces import Discrete

from maze_core.base.errors import ConfigError
from maze_core.collect.replay.collector import ReplayCollector
from maze_core.data.batch import Loss
from maze_core.data.replay.joint import Joint
from maze_core.learn.algorithm import Algorithm
from maze_core.plugins.config.run import AlgorithmConfig
from maze_core.plugins.hookspecs import hookimpl
from tests.agents import CrowdSource, TeamSource


class TogetherConfig(AlgorithmConfig):
    name: str = "together"
    lr: float = 0.01
    epoch_length: int = 8
    n_rollout_steps: int = 2


class Together(Algorithm):
    """Learns what all agents are paid together, as a sum of a number of each agent."""

    Config = TogetherConfig
    needs_critic = False
    supports_agents = True
    action_spaces = (Discrete,)

    def setup(self, run):
        # A small buffer, whose rows are overwritten.
        collector = ReplayCollector(run, self.config.n_rollout_steps, 2, 60, initial_steps=20, selector=Joint())
        self._collector = self.keep("collector", collector)

    def batches(self):
        self._collector.collect()
        yield self._collector.sample(24, 0.9, n_step=2)

    @hookimpl
    def compute_loss(self, policy, batch):
        logits = policy.distribution(batch.obs).parts["action"].logits
        chosen = logits.gather(-1, batch.actions["action"].unsqueeze(-1)).reshape(-1, 3)
        paid = batch.extra["reward"].reshape(-1, 3).sum(1)
        there = batch.extra["present"].reshape(-1, 3)
        return Loss((torch.where(there, chosen, 0.0).sum(1) - paid).square().mean())


@pytest.fixture
def built(quick):
    def build(epochs=4, source=TeamSource, **parts):
        sizes = {"model.hidden": [8], "algorithm.n_rollout_steps": 2, "algorithm.epoch_length": 8}
        return quick(source, Together, sizes | {"algorithm.n_epochs": epochs}, **parts)

    return build


def test_a_resumed_run_and_one_on_workers_equal_the_uninterrupted_one(built, whole_state, assert_same):
    whole = built()
    whole.train()
    replay = whole.run.algorithm.kept["collector"].replay
    assert replay.rows > 3 * replay.capacity
    half = built(2)
    half.train()
    built(run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
    elsewhere = built(runner={"name": "local", "workers": 2})
    elsewhere.train()
    assert_same(whole_state(whole.run_dir), whole_state(elsewhere.run_dir))


def test_agents_that_wait_are_refused(built):
    with pytest.raises(ConfigError, match=r"env: agent \d of environment \d has acted and waits for others"):
        built(source=CrowdSource).train()
