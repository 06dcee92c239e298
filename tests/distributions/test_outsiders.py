"""Distributions of an author outside of Maze, with each algorithm, memory, masks, workers, resumes and exports."""

from __future__ import annotations

import copy
import functools
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
import torch
from maze_devkit.demonstrations import record
from maze_export.export import export_policy
from torch import nn

from maze_core import ConfigError, Plugin, RunContext, hookimpl
from maze_core.base.errors import PluginError
from maze_core.collect.agents.forward import NumpyForward, fastest_forward
from maze_core.models.distributions.chosen import HeadOptions, chosen_family
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble
from tests.agents import CrowdSource
from tests.masked import Guarded
from tests.maze_export.test_actors import Told

PENDULUM = functools.partial(gymnasium.make, "Pendulum-v1", max_episode_steps=25)
BOARD = functools.partial(Guarded, "a board")
GRU = {"model.memory": "gru", "model.memory_size": 4}
OFF_POLICY = {
    "algorithm.initial_buffer_size": 40, "algorithm.replay_buffer_size": 400, "algorithm.batch_size": 8,
    "algorithm.num_envs": 2,
}  # fmt: skip
ACTORS = {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}
MIXTURE = {"name": "mixture", "components": 2}

pytestmark = pytest.mark.usefixtures("outside")


@pytest.mark.parametrize(
    ("algorithm", "env", "distribution", "more"),
    [
        pytest.param("ppo", PENDULUM, MIXTURE, GRU, id="ppo"),
        pytest.param("ppo", CrowdSource, "epsilon_softmax", GRU, id="agents"),
        pytest.param("impala", BOARD, "epsilon_softmax", GRU | ACTORS, id="impala"),
        pytest.param("sac", PENDULUM, "truncated_logistic", OFF_POLICY, id="sac"),
        pytest.param("es", PENDULUM, "mixture", {}, id="es"),
    ],
)
def test_workers_and_a_resume_end_where_one_process_does(
    quick, whole_state, assert_same, algorithm, env, distribution, more
):
    more = {"model.hidden": [4], "model.distribution": distribution} | more
    longer = more | {"algorithm.n_epochs": 3}
    whole = quick(env, algorithm, longer)
    whole.train()
    half = quick(env, algorithm, more)
    half.train()
    again = quick(env, algorithm, longer, run_dir=None, runner={"name": "local", "workers": 2})
    again.resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))


@pytest.mark.parametrize(
    ("env", "distribution", "more", "name", "stochastic"),
    [
        (BOARD, "epsilon_softmax", {}, "a.pt2", True),
        pytest.param(PENDULUM, MIXTURE, GRU, "a.onnx", True, marks=pytest.mark.slow),
        pytest.param(Told, MIXTURE, {}, "a.onnx", False, marks=pytest.mark.slow),
    ],
)
def test_exports_act_as_the_run_does(quick, tmp_path, env, distribution, more, name, stochastic):
    """`export_policy` compares a thousand actions with torch's."""
    context = quick(env, overrides={"model.hidden": [4], "model.distribution": distribution} | more, run_dir=None)
    assert export_policy(context.run, tmp_path / name, stochastic=stochastic).rows == 1000


def test_learning_from_data_takes_them(quick, tmp_path):
    for env, algorithm, distribution in (
        (PENDULUM, "bc", "mixture"), (PENDULUM, "iql", "mixture"), (PENDULUM, "cql", "truncated_logistic"),
    ):  # fmt: skip
        data = tmp_path / algorithm
        record(env, data, 4)
        values = {"model.hidden": [4], "model.distribution": distribution, "algorithm.dataset": str(data)}
        context = RunContext(
            env, algorithm, silent=True, run_dir=None, preset="none", seed=1,
            overrides={**values, "algorithm.n_epochs": 1, "evaluation.n_episodes": 1, "algorithm.epoch_length": 2},
        )  # fmt: skip
        with context:
            before = {name: leaf.clone() for name, leaf in context.policy.heads.state_dict().items()}
            context.train()
            after = context.policy.heads.state_dict()
        assert any(not torch.equal(leaf, after[name]) for name, leaf in before.items()), algorithm


@pytest.mark.slow
def test_rllib_refuses_it(tmp_path):
    pytest.importorskip("ray")
    parts = {"run_dir": tmp_path / "run", "silent": True, "preset": "none"}
    with (
        RunContext(PENDULUM, "rllib-ppo", overrides={"model.distribution": "mixture"}, **parts) as context,
        pytest.raises(ConfigError, match="RLlib does not support the distribution Mixture"),
    ):
        context.train()


def test_a_model_says_so_where_an_algorithm_needs_what_a_distribution_lacks(quick):
    with pytest.raises(ConfigError) as caught:
        quick(PENDULUM, "sac", OFF_POLICY | {"model.distribution": "mixture"}).train()
    assert str(caught.value) == (
        "model.distribution: SAC needs a differentiable sample within the bounds for the Box action 'action', and the "
        "distribution mixture has none\nThose that do: squashed_gaussian, squashed_gsde, truncated_logistic. "
        'Next: overrides={"model.distribution": "squashed_gaussian"}'
    )


def test_a_distribution_without_a_divergence_is_refused_by_what_needs_one(quick):
    with pytest.raises(ConfigError) as caught:
        quick(PENDULUM, "trpo", {"model.distribution": "mixture"}).train()
    assert str(caught.value) == (
        "model.distribution: trpo needs a KL divergence for the action 'action', and the distribution mixture has "
        "none\n"
        "Those that do: beta, gaussian, gsde, squashed_gaussian, squashed_gsde. "
        'Next: overrides={"model.distribution": "gaussian"}'
    )


def test_a_distribution_that_does_not_tell_every_probability_is_refused_by_a_search(quick):
    small = {"algorithm.num_envs": 1, "algorithm.n_simulations": 1}
    with pytest.raises(ConfigError, match=r"^model\.distribution: the search needs the probability of every action"):
        quick(BOARD, "alphazero", {"model.distribution": "epsilon_softmax", **small}).train()


def test_values_of_choices_have_no_use_for_one(quick):
    with pytest.raises(ConfigError, match="so the distribution epsilon_softmax would never be used"):
        quick(BOARD, "dqn", OFF_POLICY | {"model.distribution": "epsilon_softmax"}).train()


def test_a_foreign_head_acts_by_torch_and_a_bundled_one_by_numpy(quick):
    forwards = {
        distribution: fastest_forward(quick("Pendulum-v1", "ppo", {"model.distribution": distribution}).policy, 8)
        for distribution in ("mixture", "gaussian", "squashed_gaussian")
    }
    assert {name: type(forward) is NumpyForward for name, forward in forwards.items()} == {
        "mixture": False, "gaussian": True, "squashed_gaussian": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("env", "part", "problem"),
    [
        ("CartPole-v1", "mixture", "model.distribution: distribution mixture is for Box, but action 'action' is Disc"),
        ("Pendulum-v1", "mixtur", "model.distribution: unknown distribution 'mixtur'\nDid you mean mixture?"),
        ("Pendulum-v1", "os:system", "model.distribution: unknown distribution 'os:system'"),
        (
            "Pendulum-v1",
            {"name": "mixture", "part": 2},
            "model.distribution.part: unknown key; known: ",
        ),
        ("Pendulum-v1", {"components": 2}, "model.distribution.name: must be the name of an installed distribution"),
    ],
)
def test_what_does_not_fit_is_refused(quick, env, part, problem):
    with pytest.raises(ConfigError) as caught:
        quick(env, "ppo", {"model.distribution": part}).train()
    assert str(caught.value).startswith(problem)


def test_a_run_without_its_distribution_says_which_one_is_missing(quick, monkeypatch, outside):
    context = quick("Pendulum-v1", "ppo", {"model.distribution": MIXTURE})
    context.train()
    text = (context.run_dir / "config.yaml").read_text()
    assert "# maze-outside 1.0" in text
    here = [each for each in discovery.declarations() if each.distribution != "maze-outside"]
    monkeypatch.setattr(discovery, "declarations", lambda: here)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(Path(outside.__file__).parent)])
    with pytest.raises(ConfigError) as caught:
        RunContext.open(context.run_dir)
    assert str(caught.value) == (
        "model.distribution: unknown distribution 'mixture'\n"
        "The run was written with maze-outside 1.0 (not installed here). Next: install what it was written with."
    )


def test_a_package_that_claims_a_bundled_name_is_told(quick, monkeypatch):
    found = discovery.declarations()
    mine = next(each for each in found if each.name == "mixture")
    monkeypatch.setattr(discovery, "declarations", lambda: [*found, replace(mine, name="gaussian")])
    with pytest.raises(PluginError, match=r"plugin 'gaussian' is claimed by maze-core .* and maze-outside"):
        quick("Pendulum-v1", "ppo").train()


def test_parameters_of_every_model_reach_the_distributions_that_have_them():
    overrides = ["model.distribution=epsilon_softmax", "model.temperature=3"]
    config = assemble("ppo", "CartPole-v1", "none", overrides=overrides)
    assert chosen_family(config.model.head_options).config.temperature == 3
    again = assemble("ppo", "CartPole-v1", "none", [{"model": {"distribution": {"name": "gaussian"}}}])
    assert again.model.distribution == "gaussian"


def test_a_head_that_is_replaced_acts_and_one_that_would_not_learn_is_refused(quick):
    context = quick("Pendulum-v1", "ppo")
    policy = context.policy
    features = policy.heads["action_head"].linear.in_features
    family = chosen_family(HeadOptions(distribution=MIXTURE))
    policy.heads["action_head"] = family.head(policy.action_space, features)
    obs = {"observation": torch.zeros(2, 3)}
    assert type(policy.distribution(obs).parts["action"]).__name__ == "Mixture"
    assert policy.draw_noise((2,), torch.Generator())["action"].shape == (2, 3)
    with pytest.raises(ConfigError, match=r"heads.action_head.* was replaced after the optimizer was built"):
        context.train()
    policy.heads["action_head"] = nn.Linear(3, 2)
    with pytest.raises(PluginError, match="is Linear, which is no head"):
        policy.draw_noise((2,), torch.Generator())


def _other_weight(critics):
    critics.weight_1 = nn.Parameter(critics.weight_1.detach().clone())


def _other_memory(critics):
    memories = critics.memories.memories
    memories[1] = copy.deepcopy(memories[1])


@pytest.mark.parametrize(("name", "exchange"), [("weight_1", _other_weight), ("memories.1", _other_memory)])
def test_a_part_of_the_critics_that_would_not_learn_is_refused(quick, name, exchange):
    context = quick("Pendulum-v1", "sac", {"model.memory": "gru"})
    exchange(context.run.modules["critics"])
    with pytest.raises(ConfigError, match=f"{name}.* of critics was replaced after the optimizer was built"):
        context.train()


class Exchanged(Plugin):
    """Gives the policy another head, as the run is built."""

    @hookimpl(wrapper=True)
    def build_policy(self, observation_space, action_space, config):
        policy = yield
        family = chosen_family(HeadOptions(distribution=MIXTURE))
        policy.heads["action_head"] = family.head(action_space, policy.heads["action_head"].linear.in_features)
        return policy


def test_a_head_from_a_hook_learns(quick):
    context = quick("Pendulum-v1", "ppo", callbacks={"exchanged": Exchanged})
    before = context.policy.heads["action_head"].linear.weight.clone()
    context.train()
    assert not torch.equal(before, context.policy.heads["action_head"].linear.weight)
