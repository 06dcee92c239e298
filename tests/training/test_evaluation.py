"""Evaluation: the right episodes, the same environments, and no trace left in the policy."""

import json

import gymnasium
import numpy as np
import pytest
import torch
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_devkit.probes import Workshop
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.policies.base import ActingPolicy
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.plugins import discovery
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import INSTALLED
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from maze_core.run.saved import saved_run
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.assemblies import assembly_of


def by_hand(policy, make, seed, number, episodes):
    """Returns and lengths of an evaluation's episodes, played one by one over gymnasium's own API."""
    env = make()
    observations, actions = ObservationCodec(env.observation_space), ActionCodec(env.action_space)
    seeds = EpisodeSeeds(seed, Purpose.EVAL_EPISODES, (number,))
    results = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seeds(0, episode))
        total, length, over = 0.0, 0, False
        while not over:
            obs = {key: torch.from_numpy(leaf) for key, leaf in observations.tree(observation).items()}
            with torch.inference_mode():
                distribution = policy.distribution(obs)
                chosen = distribution.env_action(distribution.mode())
            (action,) = actions.rows({key: leaf.numpy() for key, leaf in chosen.items()})
            observation, reward, terminated, truncated, _ = env.step(action)
            total, length, over = total + float(reward), length + 1, terminated or truncated
        results.append((total, length))
    return results


def cartpole():
    return gymnasium.make("CartPole-v1")


@pytest.mark.parametrize(
    ("make", "num_envs"), [(SeededWalk, 1), (SeededWalk, 3), (SeededWalk, 8), (Workshop, 3), (cartpole, 8)]
)
def test_an_evaluation_is_a_rollout_by_hand(quick, make, num_envs):
    """The episodes are the same for any number of environments, without a preference for short ones."""
    overrides = {
        "evaluation.n_episodes": 7,
        "evaluation.num_envs": num_envs,
        "model.normalize_observations": True,
    }
    context = quick(make, overrides=overrides, model="template")
    context.train(1)
    metrics = context.run.evaluate(3)
    played = by_hand(context.policy, make, 1, 3, 7)
    returns, lengths = np.array(played).T
    assert metrics["eval/episodes"] == 7
    assert metrics["eval/steps"] == lengths.sum()
    assert metrics["eval/length_median"] == np.median(lengths)
    for name, function in (("mean", np.mean), ("std", np.std), ("min", np.min), ("max", np.max)):
        assert metrics[f"eval/return_{name}"] == pytest.approx(function(returns)), name
    assert len(set(lengths)) > 1  # episodes of different lengths: those that end first are not preferred


def test_each_evaluation_has_its_own_episodes_and_the_seed_decides_them(quick):
    context = quick(Workshop, model="template")
    first, second = context.run.evaluate(1), context.run.evaluate(2)
    assert first["eval/return_mean"] != second["eval/return_mean"]
    assert context.run.evaluate(1)["eval/return_mean"] == first["eval/return_mean"]
    other = quick(Workshop, model="template", seed=2).run.evaluate(1)
    assert other["eval/return_mean"] != first["eval/return_mean"]


def test_sampled_actions_are_decided_by_the_seed_too(quick):
    context = quick(overrides={"evaluation.n_episodes": 6})
    sampled = context.run.evaluate(1, deterministic=False)
    assert sampled["eval/return_mean"] == context.run.evaluate(1, deterministic=False)["eval/return_mean"]
    assert sampled["eval/return_mean"] != context.run.evaluate(1, deterministic=True)["eval/return_mean"]
    assert sampled["eval/return_mean"] != context.run.evaluate(2, deterministic=False)["eval/return_mean"]


def test_evaluating_does_not_disturb_training(quick, whole_state, assert_same):
    """An additional evaluation between epochs does not change training."""
    plain, curious = quick(Workshop, model="template"), quick(Workshop, model="template")
    plain.train()
    curious.evaluate(deterministic=False)
    curious.train(1)
    for _ in range(3):
        curious.evaluate()
    curious.train(1)
    assert_same(whole_state(plain.run_dir), whole_state(curious.run_dir))


def test_raw_returns_of_whole_episodes_are_reported(quick):
    """Environment steps and the environment's own rewards."""
    metrics = quick(lambda: CountingEnv(4, tag=2), overrides={"evaluation.n_episodes": 5}).evaluate()
    assert metrics["eval/return_mean"] == pytest.approx(4 * 2 + 0.1)
    assert (metrics["eval/return_std"], metrics["eval/steps"]) == (pytest.approx(0), 5 * 4)


class Dropout(nn.Module):
    out_features = 8

    def __init__(self, observation_space):
        super().__init__()
        self.layer, self.drop, self.norm = nn.Linear(2, 8), nn.Dropout(0.5), nn.BatchNorm1d(8)

    def forward(self, obs):
        return self.norm(self.drop(self.layer(obs["observation"]).tanh()))


def test_training_mode_is_given_back_module_by_module(quick):
    """Also where a user keeps one module in another mode than the rest."""
    context = quick(model=Dropout)
    policy = context.policy
    for mode in (True, False):
        policy.train(mode)
        policy.encoder.norm.train(not mode)
        modes = [module.training for module in policy.modules()]
        statistics = policy.encoder.norm.running_mean.clone()
        first, second = context.evaluate(), context.evaluate()
        assert [module.training for module in policy.modules()] == modes
        assert first["eval/return_mean"] == second["eval/return_mean"]  # no dropout while evaluating
        assert torch.equal(policy.encoder.norm.running_mean, statistics)


def test_the_mode_is_given_back_after_a_failure(quick):
    class Breaking(SeededWalk):
        def step(self, action):
            raise ZeroDivisionError

    context = quick(Breaking)
    context.policy.train()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        context.evaluate()
    assert context.policy.training


NORMALISED = {"model.normalize_observations": True}


def test_the_normaliser_learns_in_training_only(quick):
    """Evaluating twice leaves its statistics bit-equal; training counts every step once."""
    context = quick(Workshop, overrides=NORMALISED, model="template")
    context.train()
    statistics = {name: value.clone() for name, value in context.policy.normalizer.state_dict().items()}
    assert statistics["count"] == context.run.env_steps == 2 * 2 * 4 * 3
    for _ in range(2):
        context.evaluate()
    context.compute_action(Workshop().reset(seed=1)[0])
    for name, value in context.policy.normalizer.state_dict().items():
        assert torch.equal(value, statistics[name]), name


def test_the_normaliser_is_saved_and_loaded_with_the_policy(quick):
    """The same actions after save and load, and the same evaluation."""
    context = quick(Workshop, overrides=NORMALISED, model="template")
    context.train()
    env = Workshop()
    observations = [env.reset(seed=seed)[0] for seed in range(20)]
    expected = [context.compute_action(each) for each in observations]
    opened = saved_run.open_policy(context.run_dir, "last", assembly=assembly_of(context.run))
    again = quick(Workshop, overrides=NORMALISED, model="template")
    again.run.policy.load_state_dict(opened.policy.state_dict())
    for observation, action in zip(observations, expected, strict=True):
        other = again.compute_action(observation)
        np.testing.assert_array_equal(other["arm"]["force"], action["arm"]["force"])
        assert other["tool"] == action["tool"]
    assert again.run.evaluate(0)["eval/return_mean"] == context.evaluate()["eval/return_mean"]
    again.policy.normalizer.load_state_dict(
        quick(Workshop, overrides=NORMALISED, model="template").policy.normalizer.state_dict()
    )
    changed = [again.compute_action(each)["arm"]["force"] for each in observations]
    assert any((a["arm"]["force"] != b).any() for a, b in zip(expected, changed, strict=True))  # the test could fail
    opened.close()


def test_the_best_checkpoint_holds_the_parameters_of_the_best_epoch(quick, whole_state, monkeypatch):
    """A copy, not a reference; training on does not change it."""
    kept = {}

    class Keep(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            kept[epoch.epoch] = (epoch.is_best, {k: v.clone() for k, v in run.policy.state_dict().items()})

    context = quick(overrides={"algorithm.n_epochs": 4, "algorithm.lr": 0.01}, callbacks={"keep": Keep})
    scores = {0: 0.0, 1: 1.0, 2: 5.0, 3: 4.0, 4: 4.9}
    monkeypatch.setattr(context.run, "evaluate", lambda number: {"eval/return_mean": scores[number]})
    context.train(2)
    after_two = whole_state(context.run_dir, "best")
    context.train()
    assert [is_best for is_best, _ in kept.values()] == [True, True, False, False]
    assert (context.run.state.best_epoch, context.run.best_score) == (2, 5.0)
    assert whole_state(context.run_dir, "best") == after_two
    saved = read_checkpoint(context.run_dir / "checkpoints" / "best")
    assert saved.state["epoch"] == 2
    for name, tensor in saved.model.items():
        assert torch.equal(tensor, kept[2][1][name]), name
    assert any(not torch.equal(tensor, kept[4][1][name]) for name, tensor in saved.model.items())


def test_of_equal_evaluations_the_newest_is_kept_and_none_is_an_improvement(quick, monkeypatch):
    """Sparse rewards: greedy evaluations stay at 0 for long while the policy learns to earn something by chance."""
    log = []

    class Keep(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            log.append((epoch.is_best, epoch.ties_best))

    overrides = {"algorithm.n_epochs": 9, "callbacks.early_stopping.patience": 3}
    context = quick(overrides=overrides, callbacks={"keep": Keep})
    scores = {0: 0.0, 1: 0.0, 2: -1.0, 3: 0.0, 4: 0.0, 5: 1.0}
    monkeypatch.setattr(context.run, "evaluate", lambda number: {"eval/return_mean": scores[number]})
    summary = context.train(2)
    assert read_checkpoint(context.run_dir / "checkpoints" / "best").state["epoch"] == 1
    context.close()
    again = quick(overrides=overrides, callbacks={"keep": Keep})
    monkeypatch.setattr("maze_core.run.run.Run.evaluate", lambda run, number: {"eval/return_mean": scores[number]})
    summary = again.resume(context.run_dir)
    assert log == [(True, False), (False, False), (False, True), (False, True)]
    assert (summary.best_epoch, again.run.state.improved_epoch) == (4, 1)
    assert summary.reason.startswith("3 epochs without a new best evaluation after epoch 1 ")
    assert read_checkpoint(context.run_dir / "checkpoints" / "best").state["epoch"] == 4


def test_the_last_state_is_evaluated_too(quick):
    context = quick()
    summary = context.train()
    expected = {key: value for key, value in context.evaluate().items() if not key.startswith("time/")}
    assert {key: value for key, value in summary.final_evaluation.items() if key in expected} == expected


class Uniform(ActingPolicy):
    """Chooses with the generators it is given, and notes the episodes it is told of."""

    def setup(self, observation_space, action_space):
        self.begun, self.rows = [], 0

    def begin(self, row):
        self.begun.append(row)

    def act(self, obs, rngs):
        self.rows = len(rngs)
        return {"action": np.array([rng.integers(3) for rng in rngs])}


def test_a_policy_plugin_is_evaluated_in_place_of_the_network(quick):
    context = quick(SeededWalk, overrides={"evaluation.n_episodes": 5, "evaluation.num_envs": 2})
    policies = [Uniform(None), Uniform(None)]
    for policy in policies:
        policy.setup(None, None)
    first, second = (context.run.evaluate(1, policy=policy) for policy in policies)
    assert policies[0].rows == 2
    assert sorted(set(policies[0].begun)) == [0, 1]
    assert len(policies[0].begun) >= 5
    assert first["eval/return_mean"] == second["eval/return_mean"]
    assert first["eval/return_mean"] != context.run.evaluate(1)["eval/return_mean"]
    assert first["eval/return_mean"] != context.run.evaluate(2, policy=policies[0])["eval/return_mean"]


def test_a_policy_is_named_by_itself_or_by_a_file_that_it_plays(known_plugins, monkeypatch):
    assert INSTALLED.policy_config("random").name == "random"
    with pytest.raises(ConfigError, match="unknown policy 'unheard'"):
        INSTALLED.policy_config("folder/of/file.unheard")
    with pytest.raises(ConfigError, match=r"policy\.file: unknown key"):
        INSTALLED.policy_config("file.random")  # which plays no files
    monkeypatch.setattr(discovery, "names", lambda kind: ["of.mine"])
    with pytest.raises(ConfigError, match=r"unknown policy 'of\.mine'"):  # and not 'mine'
        INSTALLED.policy_config("of.mine")


def test_a_run_without_evaluations_takes_its_training_for_the_best(quick):
    without = {"evaluation.n_episodes": 0, "algorithm.n_epochs": 3, "algorithm.n_rollout_steps": 8}
    context = quick("CartPole-v1", overrides=without)
    summary = context.train()
    rows = [json.loads(line) for line in (context.run_dir / "metrics.jsonl").read_text().splitlines()]
    assert not any(name.startswith("eval/") for row in rows for name in row)
    assert summary.best_score == max(row["train/return_mean"] for row in rows)
    assert not summary.final_evaluation
    with pytest.raises(ConfigError, match="evaluate no episodes"):
        evaluate_saved(context.run_dir)
    assert evaluate_saved(context.run_dir, episodes=3).metrics["eval/episodes"] == 3


def test_no_target_is_set_to_a_run_without_evaluations(quick):
    callback = {"callbacks.early_stopping": {"name": "early_stopping", "target_return": 5.0}}
    with pytest.raises(ConfigError, match=r"early_stopping\.target_return: no evaluation can reach it"):
        quick(cartpole, overrides={"evaluation.n_episodes": 0, **callback}).train()
