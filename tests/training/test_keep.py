"""What an algorithm keeps is saved, restored, warmed up and pruned with the run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk

from maze_core import Algorithm, AlgorithmConfig, Batch, Loss, RunContext
from maze_core.base.errors import PluginError
from maze_core.base.seeding import Purpose, generator, torch_generator
from maze_core.collect.collector import Collector
from maze_core.plugins.hookspecs import hookimpl


class Counting(Collector):
    """Counts what is asked of it; ready after the second warm-up."""

    def __init__(self, name: str) -> None:
        self.name, self.warmed, self.pruned = name, 0, 0

    def state(self):
        return {"name": self.name, "warmed": self.warmed}

    def load_state(self, state):
        self.name, self.warmed = state["name"], state["warmed"]

    def warm_up(self):
        self.warmed += 1
        return self.warmed > 1

    @property
    def disk_bytes(self):
        return 5

    def prune(self):
        self.pruned += 1


class Drawing(Algorithm):
    """Learns from random numbers of everything that it keeps."""

    steps = 1
    """What it counts in each update."""

    class Config(AlgorithmConfig):
        lr: float = 1e-3
        epoch_length: int = 2

    needs_critic = False

    def setup(self, run):
        self.run = run
        self.order = self.keep("order", generator(run.seed, Purpose.MINIBATCH_ORDER))
        self.noise = self.keep("noise", torch_generator(run.seed, Purpose.POLICY_NOISE, 2))
        self.first, self.second = self.keep("first", Counting("a")), self.keep("second", Counting("b"))

    def batches(self):
        size = self.run.observation_space.shape
        obs = torch.from_numpy(self.order.normal(size=(4, *size)).astype(np.float32))
        self.run.count_env_steps(self.steps)
        yield Batch({"observation": obs}, {}, {"noise": torch.randn(4, generator=self.noise)})

    @hookimpl
    def compute_loss(self, policy, batch):
        return Loss((policy.distribution(batch.obs).entropy() * batch.extra["noise"]).mean())


@pytest.fixture
def drawing(tmp_path):
    def build(epochs, folder="run"):
        return RunContext(
            SeededWalk,
            Drawing,
            overrides={"algorithm.n_epochs": epochs, "evaluation.n_episodes": 1},
            seed=1,
            preset="none",
            run_dir=tmp_path / folder,
        )

    return build


def test_kept_parts_are_saved_under_their_names_and_restored(drawing):
    with drawing(1) as context:
        algorithm = context.run.algorithm
        state = algorithm.state()
        drawn = algorithm.order.random(), torch.rand(3, generator=algorithm.noise).tolist()
        algorithm.second.name = "changed"
        assert list(state) == ["order", "noise", "first", "second"]
        algorithm.load_state(state)
        assert (algorithm.order.random(), torch.rand(3, generator=algorithm.noise).tolist()) == drawn
        assert algorithm.second.name == "b"
        assert algorithm.disk_bytes == 10


def test_every_collector_is_warm_before_learning_and_the_checkpoints_prune_each(drawing):
    with drawing(1) as context:
        algorithm = context.run.algorithm
        assert not algorithm.warm_up()
        assert (algorithm.first.warmed, algorithm.second.warmed) == (1, 0)
        assert not algorithm.warm_up()
        assert algorithm.warm_up()
        context.train()
        assert algorithm.first.pruned == algorithm.second.pruned > 0


def test_an_algorithm_that_only_keeps_resumes_exactly(drawing, tmp_path):
    with drawing(4, "whole") as whole:
        whole.run.algorithm.first.warmed = whole.run.algorithm.second.warmed = 1
        whole.train()
        expected = {name: value.clone() for name, value in whole.run.policy.state_dict().items()}
    with drawing(2, "halves") as half:
        half.run.algorithm.first.warmed = half.run.algorithm.second.warmed = 1
        half.train()
    with drawing(4, "unused") as rest:
        rest.resume(tmp_path / "halves")
        found = rest.run.policy.state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_a_run_that_steps_end_whose_algorithm_counts_none(drawing):
    class Idle(Drawing):
        steps = 0

    message = r"Idle has counted no .* a run of 10 steps would never end\nNext: --epochs"
    context = RunContext(SeededWalk, Idle, steps=10, seed=1, preset="none", silent=True)
    with context, pytest.raises(PluginError, match=message):
        context.train()
