"""Several learners: equal to one for equal batches, and what happens where that cannot be, or one is lost."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_devkit.probes import Doors
from maze_learners.learner_group import LearnerGroup, LearnerLost

from maze_core import RunContext, hookimpl
from maze_core.base.errors import ConfigError, PluginError, RunError
from maze_core.collect.pools.dev import DevRunner
from maze_core.plugins import discovery
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.how_to_install import how_to_install
from tests.agents import MixedSource
from tests.further_learners import ThreadPool

TRAJECTORIES = {
    "algorithm.num_actors": 2, "algorithm.envs_per_actor": 1, "algorithm.actors_batch_size": 3,
    "algorithm.n_rollout_steps": 9,
}  # fmt: skip
REPLAY = {
    "algorithm.initial_buffer_size": 20, "algorithm.replay_buffer_size": 200, "algorithm.epoch_length": 4,
    "algorithm.batch_size": 7, "algorithm.critic_hidden": [8], "algorithm.n_rollout_steps": 1,
}  # fmt: skip
PPO = {"algorithm.n_optimization_epochs": 2, "algorithm.batch_size": 9}
NORMAL = {"model.normalize_observations": True}


class Mixed(SpacesEnv):
    """Box and Discrete actions at once, an observation of two leaves."""

    def __init__(self):
        parts = {"go": spaces.Box(-2.0, 1.0, (2,), np.float32), "pick": spaces.Discrete(3, start=1)}
        leaves = {"place": spaces.Box(-1, 1, (2,), np.float32), "kind": spaces.Discrete(4)}
        super().__init__(spaces.Dict(leaves), spaces.Dict(parts))


class Still(gymnasium.Env):
    """Numbers that say nothing, a Box action."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        self._step += 1
        seen = np.full(3, np.sin(self._step), np.float32)
        return seen, float(-np.square(action).sum()), self._step % 13 == 0, self._step == 17, {}


@pytest.fixture
def threads(monkeypatch):
    """The further learners are threads; the list holds their pools."""
    pools = []

    def learners(runner, task, count, gpus=False):
        pools.append(ThreadPool(task, count))
        return pools[-1], "127.0.0.1"

    monkeypatch.setattr(DevRunner, "learners", learners)
    return pools


@pytest.fixture
def result(quick, threads):
    """`result(env, algorithm, learners, overrides, **parts)`: parameters, networks and losses after some updates."""

    def train(env, algorithm, learners, overrides=None, **parts):
        values = {"learners": learners, "evaluation.n_episodes": 1, **(overrides or {})}
        context = quick(env, algorithm, values, **parts)
        reports = []
        notify = context.run.hooks.on_epoch_end
        context.run.hooks.on_epoch_end = lambda run, epoch: (reports.append(epoch.metrics), notify(run, epoch))
        context.train()
        run = context.run
        modules = {"policy": run.policy, **run.modules}
        found = {f"{name}.{key}": leaf.double() for name, m in modules.items() for key, leaf in m.state_dict().items()}
        logged = ("loss/", "train/explained_variance")
        found |= {
            f"{number} {name}": torch.tensor(value, dtype=torch.float64)
            for number, metrics in enumerate(reports)
            for name, value in metrics.items()
            if name.startswith(logged)
        }
        context.close()
        return found

    return train


def assert_close(one, several):
    assert one.keys() == several.keys()
    for name, value in one.items():
        torch.testing.assert_close(several[name], value, rtol=1e-4, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}")


EQUAL = {
    "ppo": (SeededWalk, "ppo", PPO | NORMAL, 2),
    "ppo, masks, three learners": (Doors, "ppo", PPO, 3),
    "ppo, nested spaces, target_kl": (Mixed, "ppo", PPO | {"algorithm.target_kl": 0.003, "algorithm.lr": 0.03}, 2),
    "ppo, memory": (SeededWalk, "ppo", PPO | {"model.memory": "gru", "algorithm.sequence_length": 3}, 2),
    "ppo, burn-in": (SeededWalk, "ppo", PPO | {"algorithm.critic_burn_in_epochs": 1}, 2),
    # Adam makes whole steps out of gradients that are nothing but rounding.
    "a2c": (Mixed, "a2c", {"algorithm.normalize_advantages": True, "algorithm.optimizer": "rmsprop"}, 3),
    "impala": (Doors, "impala", TRAJECTORIES, 2),
    "impala, memory": (SeededWalk, "impala", TRAJECTORIES | {"model.memory": "gru"}, 2),
    "appo": (Still, "appo", TRAJECTORIES, 3),
    "sac": (Mixed, "sac", REPLAY, 2),
    "sac, policy_delay": (Still, "sac", REPLAY | {"algorithm.policy_delay": 2, "algorithm.max_grad_norm": 0.3}, 3),
    "sac, quantiles": (Still, "sac", REPLAY | {"algorithm.quantiles": 5, "algorithm.drop_top": 1}, 2),
    "sac, choices": (SeededWalk, "sac", REPLAY, 2),
}


QUICK = ("ppo, masks, three learners", "impala", "sac")


@pytest.mark.parametrize("case", [pytest.param(c, marks=[] if c in QUICK else pytest.mark.slow) for c in EQUAL])
def test_equal_batches_give_equal_results(result, case):
    env, algorithm, overrides, learners = EQUAL[case]
    assert_close(result(env, algorithm, 1, overrides), result(env, algorithm, learners, overrides))


def test_more_learners_than_rows(result):
    one = {"algorithm.num_envs": 1, "algorithm.n_rollout_steps": 2}
    assert_close(result(SeededWalk, "a2c", 1, one), result(SeededWalk, "a2c", 5, one))


class SmallWeights(Plugin):
    """A term of the loss, and a network of its own that learns to be small."""

    Config = PluginConfig
    supports_learners = True

    @hookimpl
    def build_modules(self, run):
        self.own = torch.nn.Linear(2, 1)
        return {"own": self.own}

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        loss = yield
        total = sum(p.square().sum() for p in policy.parameters())
        rows = self.own(torch.ones(len(batch), 2)).square().mean()
        return loss.plus("small", 0.01 * total + rows)


class Undeclared(SmallWeights):
    """Changes how its network is built, and says nothing of learners."""

    @hookimpl
    def build_modules(self, run):
        self.own = torch.nn.Linear(2, 1)
        return {"own": self.own}


class Nosy(SmallWeights):
    """Asks for what only the first learner has."""

    supports_learners = True

    @hookimpl
    def build_modules(self, run):
        self._run = run
        return {}

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        loss = yield
        return loss.plus("env", torch.tensor(float(self._run.training_env(1).num_envs)))


@pytest.mark.slow
def test_a_callback_in_the_loss_with_a_network_of_its_own(result):
    small = {"callbacks": {"small": SmallWeights}}
    assert_close(*(result(SeededWalk, "ppo", learners, PPO, **small) for learners in (1, 2)))


@pytest.mark.slow
def test_several_agents_with_networks_of_their_own(result):
    values = PPO | {"algorithm.n_rollout_steps": 6, "model.groups": {"two": ["two"], "rest": ["one", "late"]}}
    assert_close(*(result(MixedSource, "ppo", learners, values) for learners in (1, 3)))


@pytest.mark.parametrize(
    ("algorithm", "values", "parts", "said"),
    [
        ("dqn", {}, {}, "algorithm plugin 'dqn'"),
        ("pqn", {}, {}, "algorithm plugin 'pqn'"),
        ("ppo", {}, {"callbacks": {"odd": Undeclared}}, "callback plugin 'odd'"),
        ("sac", {"algorithm.dropout": 0.1}, {}, "dropout"),
        ("sac", {"algorithm.critic_norm": "batch"}, {}, "batch normalisation"),
        ("sac", {"algorithm.target_subset": 1}, {}, "subset"),
        ("sac", {"model.memory": "gru"}, {}, "memory"),
    ],
)
def test_what_cannot_be_divided_is_refused_by_name(quick, threads, algorithm, values, parts, said):
    with pytest.raises(ConfigError, match=said) as refusal:
        _ = quick(SeededWalk, algorithm, {"learners": 2, **values}, **parts).run
    assert 'Next: overrides={"learners": 1}' in refusal.value.hint
    assert not threads, "no learner was started"


def test_a_lost_learner_ends_the_run_with_one_error(quick, threads):
    context = quick(SeededWalk, "ppo", {"learners": 3})
    run, seen = context.run, []

    def lose(*_):
        seen.append(run.epoch)
        threads[0].tasks[1].close()

    run.hooks.on_epoch_end = lose
    with pytest.raises(RunError, match="a learner was lost") as error:
        context.train()
    assert seen == [0] or seen == [1], "it ends at the next step"
    assert "intact checkpoint" in " ".join(error.value.__notes__)
    context.close()
    assert threads[0].closed


def test_a_loss_that_fails_in_a_further_learner_names_the_reason(quick, threads):
    context = quick(SeededWalk, "ppo", {"learners": 2}, callbacks={"nosy": Nosy})
    with pytest.raises(PluginError, match=r"the loss uses run\.training_env"):
        context.train()


def test_other_networks_in_a_further_learner_are_refused(quick, threads, monkeypatch):
    sizes = iter([4, 5])

    class Growing(SmallWeights):
        supports_learners = True

        @hookimpl
        def build_modules(self, run):
            return {"own": torch.nn.Linear(next(sizes), 1)}

    monkeypatch.setitem(globals(), "Growing", Growing)
    Growing.__qualname__ = "Growing"
    with pytest.raises(PluginError, match=r"builds other networks than the first: odd\.own\.weight"):
        _ = quick(SeededWalk, "ppo", {"learners": 2}, callbacks={"odd": Growing}).run


def test_learners_that_do_not_come_are_lost():
    with pytest.raises(LearnerLost):
        LearnerGroup("127.0.0.1", 9, 1, 2, None, 0.5)


@pytest.fixture
def uninstalled(monkeypatch):
    """`uninstalled()`: from now on the distribution is not installed."""

    def remove():
        others = tuple(each for each in discovery.declared() if each.distribution != "maze-learners")
        monkeypatch.setattr(discovery, "declared", lambda: others)

    return remove


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_where_it_is_not_installed_one_error_says_what_to_install(quick, uninstalled, algorithm):
    uninstalled()
    with pytest.raises(ConfigError) as refusal:
        _ = quick(SeededWalk, algorithm, {"learners": 2}).run
    assert str(refusal.value).splitlines() == [
        "learners: several learners need maze-learners, which is not installed",
        f'Next: {how_to_install("maze-learners")}, or overrides={{"learners": 1}}',
    ]


def test_a_run_with_several_learners_is_evaluated_and_goes_on_with_one_without_it(quick, threads, uninstalled):
    context = quick("CartPole-v1", "ppo", {"learners": 2})
    context.train()
    context.close()
    uninstalled()
    with RunContext.open(context.run_dir) as opened:
        assert opened.evaluate()["eval/episodes"] == 1
    with pytest.raises(ConfigError, match=r"pip install .*maze.learners"):
        RunContext.reopen(context.run_dir, {"algorithm.n_epochs": 3})
    with RunContext.reopen(context.run_dir, {"algorithm.n_epochs": 3, "learners": 1}) as again:
        assert again.train().outcome == "finished"
