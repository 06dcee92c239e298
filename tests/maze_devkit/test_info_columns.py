"""Algorithms that learn from numbers of the `info`, as an outsider writes them: by rollouts and by replay."""

import functools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round
from maze_devkit.envs import SeededWalk
from maze_devkit.kit import checks
from maze_devkit.promise import broken_promises
from maze_devkit.telling import Telling

from maze_core import Plugin, PluginConfig, hookimpl
from maze_core.base.errors import ConfigError, RunError

SOURCE = '''
"""An algorithm that avoids what costs."""

from maze_core import Algorithm, AlgorithmConfig, Loss, hookimpl
from maze_onpolicy.collect.rollout_collector import RolloutCollector
from maze_offpolicy.collect.replay_collector import ReplayCollector
from maze_onpolicy.learn.advantages import advantage_rows


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

    def warm_up(self):
        return not hasattr(self._collector, "warm_up") or self._collector.warm_up()

    def collected(self):
        rollout = self._collector.collect()
        rollout.extra["expensive"] = rollout.extra["cost"] + rollout.extra["wear"]
        self.seen.append(rollout.extra["expensive"].copy())
        yield rollout

    def batches(self):
        if isinstance(self._collector, ReplayCollector):
            self._collector.collect()
            batch = self._collector.sample(16, 0.9, n_step=2)
            batch.extra["expensive"], batch.extra["target"] = batch.extra["cost"], batch.extra["wear"]
            yield batch
            return
        for rollout in self.collected():
            yield advantage_rows(self._run.policy, rollout, 0.9, 0.9, self._run.device, log_probs=True)[0]

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


def test_rollouts_have_the_numbers_and_episodes_their_sums(costly):
    context = costly(ROLLOUTS, BOTH, **{"algorithm.epoch_length": 4})
    context.train()
    seen = context.run.algorithm.seen
    assert [each.shape for each in seen] == [(8, 2)] * len(seen)
    assert all((each > 0).any() for each in seen)
    assert context.evaluate()["eval/wear_return_mean"] > 0
    assert not broken_promises(type(context.run.algorithm).__module__)


class Worn(SeededWalk):
    """A walk that wears what it pays."""

    def step(self, action):
        observation, reward, *ended, info = super().step(action)
        return observation, reward, *ended, {**info, "cost": 1.0, "wear": reward}


class Tolls(MultiAgentEnv):
    """Two agents, of which the second acts in every second round; each pays a tenth of its choice, and 1 in its end."""

    agents = ("one", "two")
    observation_spaces = dict.fromkeys(agents, spaces.Box(0, 9, (1,), np.float32))
    action_spaces = dict.fromkeys(agents, spaces.Discrete(3))

    def reset(self, seed):
        self.rng, self.steps, self.owed = np.random.default_rng(seed), 0, {}
        return Round(self.look())

    def step(self, actions):
        self.owed |= {name: int(action) / 10 for name, action in actions.items()}
        self.steps += 1
        over = self.steps == 6
        seen = self.look(everyone=over)
        infos = {name: {"cost": self.owed[name] + over, "wear": 2.0} for name in seen if name in self.owed}
        paid = {name: told["wear"] for name, told in infos.items()}
        return Round({}, paid, seen, infos=infos) if over else Round(seen, paid, infos=infos)

    def look(self, everyone=False):
        acting = self.agents if everyone or self.steps % 2 else self.agents[:1]
        return {name: self.rng.uniform(0, 9, 1).astype(np.float32) for name in acting}


class TollsSource(Plugin):
    """The env source of those."""

    Config = PluginConfig

    @hookimpl
    def make_agents_env(self, config, seed, index):
        return Tolls()


@pytest.mark.parametrize("env", [BOTH, TollsSource], ids=["one agent", "agents"])
@pytest.mark.parametrize("collector", [ROLLOUTS, REPLAY], ids=["rollouts", "replay"])
def test_a_resumed_run_and_one_on_workers_learn_from_the_same_numbers(
    costly, quick, collector, env, whole_state, assert_same
):
    values = {"algorithm.n_rollout_steps": 7, "algorithm.n_epochs": 2}
    whole = costly(collector, env, **values)
    whole.train()
    half = quick(env, "tested", values | {"algorithm.n_epochs": 1})
    half.train()
    quick(env, "tested", values, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
    elsewhere = quick(env, "tested", values, runner={"name": "local", "workers": 2})
    elsewhere.train()
    assert_same(whole_state(whole.run_dir), whole_state(elsewhere.run_dir))
    assert whole.evaluate()["eval/cost_return_mean"] > 0


def test_rows_of_agents_have_what_they_were_told_when_their_action_was_complete(costly):
    run = costly(ROLLOUTS, TollsSource).run
    rollout = next(run.algorithm.collected())
    paid, valid = rollout.extra["cost"], rollout.valid
    expected = rollout.actions["action"] / 10 + rollout.terminated
    np.testing.assert_allclose(paid[valid], expected[valid], atol=1e-6)
    episode = rollout.episodes[0]
    assert episode.metrics["wear_return_mean"] == (2 * 6 + 2 * 3) / 2
    assert episode.metrics["actor/two/wear_return_mean"] == 2 * 3
    assert episode.metrics["cost_return_mean"] == pytest.approx(
        (episode.metrics["actor/one/cost_return_mean"] + episode.metrics["actor/two/cost_return_mean"]) / 2
    )


def test_an_agent_that_a_time_limit_cuts_while_it_waits_is_told_nothing(costly):
    context = costly(ROLLOUTS, TollsSource, **{"evaluation.max_episode_steps": 3})
    assert context.evaluate()["eval/actor/two/wear_return_mean"] == 2.0
    assert context.evaluate()["eval/actor/one/wear_return_mean"] == 3 * 2.0


@pytest.mark.parametrize("env", [Worn, TollsSource], ids=["one agent", "agents"])
@pytest.mark.parametrize("n_step", [1, 3])
def test_batches_from_replay_sum_them_as_rewards(costly, env, n_step):
    """In these environments a step pays what it wears."""
    context = costly(REPLAY, env)
    context.train()
    replay = context.run.algorithm.kept["collector"].replay
    batch = replay.sample(np.random.default_rng(0), 50, 0.9, n_step=n_step)
    torch.testing.assert_close(batch.extra["wear"], batch.extra["reward"])
    assert batch.extra["wear"].dtype == torch.float32
    assert (batch.extra["cost"] > 0).any()


def test_recorded_episodes_do_not_have_them(costly, tmp_path):
    replay = costly(REPLAY, BOTH).run.algorithm.kept["collector"].replay
    with pytest.raises(ConfigError, match=r"learns from info\['cost'\] of each step, which recordings do not have"):
        replay.add_episode(None)


def test_a_step_that_does_not_tell_ends_the_run(costly):
    with pytest.raises(RunError, match="an info without 'wear', which the algorithm learns from: it has cost"):
        costly(ROLLOUTS, functools.partial(Telling, SeededWalk, ("cost",))).train()


@pytest.mark.slow
@pytest.mark.parametrize("collector", [ROLLOUTS, REPLAY], ids=["rollouts", "replay"])
def test_the_kit_gives_it_environments_that_tell(publish, findings, collector):
    wanted = ("trains", "resumes", "agents")
    without = [check.name for check in checks("algorithm") if check.name not in wanted]
    found = findings(*publish("algorithm", SOURCE.replace("COLLECTOR", collector)), without)
    assert {name: each.state for name, each in found.items()} == dict.fromkeys(wanted, "passed"), found
