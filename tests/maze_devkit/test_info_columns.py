"""Algorithms that learn from numbers of the `info`, as an outsider writes them: by rollouts, and refused elsewhere."""

import functools

import pytest
from maze_devkit.envs import SeededWalk
from maze_devkit.promise import broken_promises
from maze_devkit.telling import Telling

from maze_core.base.errors import ConfigError, RunError
from tests.agents import CrowdSource

SOURCE = '''
"""An algorithm that avoids what costs."""

from maze_core import Algorithm, AlgorithmConfig, Loss, RolloutCollector, hookimpl
from maze_core.collect.replay.collector import ReplayCollector
from maze_core.learn.on_policy.advantages import advantage_rows


class Config(AlgorithmConfig):
    """The settings."""

    name: str = "tested"
    lr: float = 0.01
    epoch_length: int = 2
    n_rollout_steps: int = 8


class Tested(Algorithm):
    """Makes what was expensive less likely."""

    Config = Config
    supports_agents = True
    needs_critic = True
    info_columns = ("cost", "wear")

    def setup(self, run):
        self._run, self.seen = run, []
        self._collector = self.keep("collector", COLLECTOR)

    def batches(self):
        rollout = self._collector.collect()
        rollout.extra["expensive"] = rollout.extra["cost"] + rollout.extra["wear"]
        self.seen.append(rollout.extra["expensive"].copy())
        rows, _ = advantage_rows(self._run.policy, rollout, 0.9, 0.9, self._run.device, log_probs=True)
        yield rows

    @hookimpl
    def compute_loss(self, policy, batch):
        distribution, value = policy(batch.obs)
        blame = (distribution.log_prob(batch.actions) * batch.extra["expensive"]).mean()
        return Loss(blame + (value - batch.extra["target"]).square().mean())
'''
ROLLOUTS, REPLAY = (
    "RolloutCollector(run, self.config.n_rollout_steps, 2)",
    "ReplayCollector(run, 2, 2, 60, initial_steps=20)",
)


BOTH = functools.partial(Telling, SeededWalk, ("cost", "wear"))


@pytest.fixture
def costly(publish, quick):
    """`costly(collector, env)`: a run of two epochs of the published algorithm."""

    def build(collector, env, **settings):
        publish("algorithm", SOURCE.replace("COLLECTOR", collector))
        return quick(env, "tested", settings)

    return build


@pytest.mark.parametrize("runner", ["dev", pytest.param("local", marks=pytest.mark.slow)])
def test_rollouts_have_the_numbers_and_episodes_their_sums(costly, runner):
    context = costly(ROLLOUTS, BOTH, **{"runner.name": runner, "algorithm.epoch_length": 4})
    context.train()
    seen = context.run.algorithm.seen
    assert [each.shape for each in seen] == [(8, 2)] * len(seen)
    assert all((each > 0).any() for each in seen)
    assert context.evaluate()["eval/wear_return_mean"] > 0
    assert not broken_promises(type(context.run.algorithm).__module__)


@pytest.mark.parametrize(
    ("collector", "env", "said"),
    [
        (REPLAY, BOTH, "of each step, which replay does not keep"),
        (ROLLOUTS, CrowdSource, "of each step, and where several agents act, as the 3 here, steps do not report it"),
    ],
)
def test_replay_and_several_agents_are_refused_before_the_first_step(costly, collector, env, said):
    with pytest.raises(ConfigError) as caught:
        costly(collector, env).train()
    assert f"algorithm: tested learns from info['cost'] and info['wear'] {said}" in str(caught.value)


def test_a_step_that_does_not_tell_ends_the_run(costly):
    with pytest.raises(RunError, match="an info without 'wear', which the algorithm learns from: it has cost"):
        costly(ROLLOUTS, functools.partial(Telling, SeededWalk, ("cost",))).train()
