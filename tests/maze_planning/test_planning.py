"""Acting that looks ahead: the same planner in evaluations, rollouts, training, resumed runs and Python."""

import json
import warnings
from contextlib import nullcontext

import gymnasium
import numpy as np
import pytest
import torch

from maze_core import Plugin, PluginConfig, hookimpl
from maze_core.base.errors import ConfigError, RunError
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install
from maze_core.run.context import RunContext
from tests import planners
from tests.planners import (
    STEPS,
    Ahead,
    AheadConfig,
    Chance,
    Doors,
    DoorsInTurnSource,
    Levers,
    Locked,
    LockedInTurnSource,
    Shared,
)

AGENTS = {"agents": DoorsInTurnSource, "replayed agents": LockedInTurnSource}
ENVS = {"copied": Doors, "replayed": Locked, "shared": Shared, **AGENTS}


@pytest.fixture
def ahead(quick):
    """`ahead(env, algorithm, overrides, …)`: a quick run that looks ahead."""

    def build(env=Doors, algorithm="ppo", overrides=None, **parts):
        parts.setdefault("callbacks", {"ahead": Ahead})
        return quick(env, algorithm, {"evaluation.n_episodes": 4} | (overrides or {}), **parts)

    return build


def perfect(env):
    """The mean return of an episode in which every door is right: of two agents each opens five."""
    return 5.0 if env in AGENTS.values() else STEPS


@pytest.mark.parametrize("env", [Doors, Shared, LockedInTurnSource])  # of the others: tests/outside
def test_a_planner_sees_what_the_network_cannot(ahead, env):
    """Evaluations and rollouts, in this process and in workers, are perfect; the network alone is not."""
    context = ahead(env, runner="local")
    assert context.evaluate()["eval/return_mean"] == perfect(env)
    assert context.evaluate(look_ahead=False)["eval/return_mean"] < 0.7 * perfect(env)
    here, workers = (context.rollout(3, seed=1, workers=workers) for workers in (1, 2))
    assert {each.episode_return for each in here} == {perfect(env)}
    assert all(np.array_equal(a.rewards, b.rewards) for a, b in zip(here, workers, strict=True))
    alone = context.rollout(3, seed=1, look_ahead=False)
    assert sum(each.episode_return for each in alone) < 0.7 * len(alone) * perfect(env)


@pytest.mark.parametrize(
    ("env", "algorithm"), [*((env, "ppo") for env in ENVS.values()), (next(iter(ENVS.values())), "dqn")]
)
def test_training_looks_ahead(ahead, env, algorithm, tmp_path):
    small = {} if algorithm == "ppo" else {"algorithm.initial_buffer_size": 40, "algorithm.n_rollout_steps": 40}
    context = ahead(env, algorithm, small, run_dir=tmp_path / "run")
    context.train()
    last = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[-1])
    assert last["train/return_mean"] == perfect(env)


@pytest.mark.parametrize(
    ("env", "algorithm", "model"),
    [(Doors, "ppo", "mlp"), (Locked, "dqn", "memory"), (DoorsInTurnSource, "ppo", "mlp")],
)
def test_resumed_runs_look_ahead_as_whole_ones(ahead, whole_state, assert_same, tmp_path, env, algorithm, model):
    """Episodes of 8 steps do not fit into rollouts of 7, so every resume is in the middle of some."""
    overrides = {"callbacks.ahead.how": "shooting", "callbacks.ahead.sequences": 3, "algorithm.n_rollout_steps": 7}
    if model == "memory":
        overrides |= {"model.memory": "gru", "algorithm.sequence_length": 4}
    if algorithm == "dqn":
        overrides |= {"algorithm.initial_buffer_size": 30, "algorithm.num_envs": 3}
    whole = ahead(env, algorithm, overrides, run_dir=tmp_path / "whole")
    whole.train()
    parts = ahead(env, algorithm, overrides, run_dir=tmp_path / "parts")
    parts.train(1)
    parts.close()
    again = ahead(env, algorithm, overrides)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.resume(tmp_path / "parts")
    assert_same(whole_state(tmp_path / "whole"), whole_state(tmp_path / "parts"))


def test_the_runner_changes_nothing(ahead, whole_state, assert_same, tmp_path):
    for runner in ("dev", "local"):
        overrides = {"callbacks.ahead.how": "shooting", "callbacks.ahead.sequences": 3}
        ahead(Doors, "ppo", overrides, runner=runner, run_dir=tmp_path / runner).train()
    first, second = (whole_state(tmp_path / runner) for runner in ("dev", "local"))
    assert_same(first["model"], second["model"])


@pytest.mark.parametrize("distribution", ["gaussian", "squashed_gaussian", "beta"])
def test_actions_of_a_box_are_learned_in_the_units_of_the_distribution(ahead, distribution):
    """PPO computes what it learns from the samples: the planner's actions, as the policy would have drawn them."""
    context = ahead(Levers, "ppo", {"callbacks.ahead.how": "shooting", "model.distribution": distribution})
    rollout = context.run.algorithm.kept["collector"].collect()
    samples, pulled = rollout.actions["action"][:-1], rollout.obs["observation"][1:-1, :, 1:]
    distribution = context.policy.distribution({"observation": torch.zeros(1, 2)})
    actions = distribution.env_action({"action": torch.from_numpy(samples)})["action"].detach().numpy()
    assert np.allclose(actions, pulled, atol=1e-5)
    assert rollout.rewards.mean() > -1.5  # at random it is about -2.7


@pytest.mark.parametrize("env", [Doors, Locked])
def test_python_plays_with_copies_of_the_environment_that_is_played(ahead, env):
    context = ahead(env)
    played = context.make_env()
    assert play(played, context.agent(env=played)) == STEPS
    assert play(played, context.agent(look_ahead=False)) < STEPS
    for refused in (context.agent, lambda: context.compute_action(np.zeros(2, np.float32))):
        with pytest.raises(ConfigError, match=r"context\.agent\(env=env\).*look_ahead=False"):
            refused()
    with pytest.raises(ConfigError, match=r"context\.make_env\(\)"):
        context.agent(env=gymnasium.make("CartPole-v1"))
    observation, _ = played.reset()  # of no seed that could be replayed
    with nullcontext() if env is Doors else pytest.raises(ConfigError, match=r"env\.reset\(seed=…\)"):
        context.agent(env=played).act(observation)


def play(env, agent):
    observation, _ = env.reset(seed=3)
    agent.reset()
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(agent.act(observation))
        total, over = total + reward, terminated or truncated
    return total


@pytest.mark.parametrize("source", AGENTS.values(), ids=AGENTS)
def test_python_plays_for_several_agents(ahead, source):
    context = ahead(source)
    env = context.make_env()
    agents = context.agents(env=env)
    outcome, total = env.reset(3), 0.0
    agents.reset()
    while outcome.acting:
        outcome = env.step({name: agents.act(name, seen) for name, seen in outcome.acting.items()})
        total += sum(outcome.rewards.values())
    assert total == 2 * perfect(DoorsInTurnSource)
    with pytest.raises(ConfigError, match=r"context\.agents\(env=env\)"):
        context.agents()
    with pytest.raises(ConfigError, match=r"context\.make_env\(\)"):
        context.agents(env=planners.DoorsInTurn())


class DoorVectors(Plugin):
    """A source of natively vectorised doors alone."""

    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        return gymnasium.vector.SyncVectorEnv([Doors] * num_envs)


def test_native_forms_are_used_one_by_one(ahead):
    context = ahead(DoorVectors)
    assert context.train().final_evaluation["eval/return_mean"] == STEPS
    native = {"name": "gymnasium", "id": "CartPole-v1", "vectorization": "native"}
    assert ahead(native, overrides={"callbacks.ahead.how": "nothing"}).train().epochs == 2


def test_what_cannot_be_copied_is_refused_before_the_first_step(ahead):
    with pytest.raises(ConfigError, match=r"cannot be copied.*(?s:.*)look.ahead"):
        ahead(Chance).train()
    context = ahead(Chance, overrides={"callbacks.ahead.training": False})
    assert np.isfinite(context.evaluate(look_ahead=False)["eval/return_mean"])


def test_an_environment_that_is_not_what_it_was_is_one_clear_error(ahead, monkeypatch):
    context = ahead()
    monkeypatch.setattr("maze_planning.planning.copies_by_replay", lambda *_: False)
    monkeypatch.setattr(planners.Doors, "draw", planners.Chance.draw)
    with pytest.raises(RunError, match=r"environment 0 \(episode 0, step 0\).*'observation'.*cannot look ahead"):
        context.evaluate()


def test_wrappers_that_remember_more_than_an_episode_are_refused_by_name(ahead):
    with pytest.raises(ConfigError, match=r"wrappers\.1: normalize_reward remembers more than an episode"):
        ahead(wrappers=["scale_reward", "normalize_reward"]).train()


class Wrapping(Plugin):
    """Changes who acts."""

    @hookimpl
    def wrap_agent(self, run, agent, env):
        return agent


class Second(Plugin):
    """Looks ahead, too."""

    Config = AheadConfig
    build_planner = Ahead.build_planner


def test_two_planners_clash(ahead):
    for other in (Second, Wrapping):
        with pytest.raises(ConfigError, match=r"callbacks\.other: ahead and other both choose actions"):
            ahead(callbacks={"ahead": Ahead, "other": other}).train()


def test_a_run_whose_planner_is_missing_says_so(ahead, quick, tmp_path):
    ahead(run_dir=tmp_path / "run").train()
    with pytest.raises(ConfigError, match="ahead"):
        quick(Doors).load(tmp_path / "run")


def test_the_viewer_shows_what_a_planner_does(ahead):
    play = pytest.importorskip("maze_view.play")
    rollouts = pytest.importorskip("maze_recordings.rollouts")
    (shown,) = play.played(rollouts.task_of_run(ahead().run, seed=1), 1, 0)
    assert shown.trajectory.episode_return == STEPS


def test_what_is_no_action_is_refused(ahead, monkeypatch):
    context = ahead(overrides={"callbacks.ahead.how": "wrong"})
    with pytest.raises(RunError, match=r"Wrong\.choose returned for 'action' no choice of Discrete\(4\)"):
        context.evaluate()
    for wrong, problem in (({"door": 1}, r"\['door'\]"), ({"action": [0]}, r"shape \(1,\)"), (None, "a NoneType")):
        monkeypatch.setattr(planners.Wrong, "choose", lambda *_, wrong=wrong: wrong)
        with pytest.raises(RunError, match=f"Wrong.choose returned .*{problem}"):
            context.evaluate()


def test_an_error_of_a_planner_names_it(ahead, monkeypatch):
    context = ahead(overrides={"callbacks.ahead.how": "wrong"})
    monkeypatch.setattr(planners.Wrong, "choose", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError) as error:
        context.evaluate()
    assert "in Wrong.choose, which looks ahead" in error.value.__notes__


def test_planners_step_copies_alone(ahead, monkeypatch):
    context = ahead(overrides={"callbacks.ahead.how": "wrong"})
    step = {"action": np.array([0])}
    monkeypatch.setattr(planners.Wrong, "choose", lambda _, decisions, proposed: decisions[0].simulator.step(step))
    with pytest.raises(RuntimeError, match=r"step a copy of it, simulator\.copy\(\)"):
        context.evaluate()


def test_a_plugin_that_does_not_look_ahead_changes_nothing(ahead, quick, whole_state, assert_same, tmp_path):
    ahead(overrides={"callbacks.ahead.how": "nothing"}, run_dir=tmp_path / "with").train()
    quick(Doors, "ppo", {"evaluation.n_episodes": 4}, run_dir=tmp_path / "without").train()
    assert_same(whole_state(tmp_path / "with"), whole_state(tmp_path / "without"))


def test_a_run_goes_on_with_a_planner_that_it_did_not_have(ahead, tmp_path):
    overrides = {"algorithm.n_rollout_steps": 7}
    first = ahead(Doors, "ppo", overrides | {"callbacks.ahead.how": "nothing"}, run_dir=tmp_path / "run")
    first.train(1)
    first.close()
    context = ahead(Doors, "ppo", overrides | {"callbacks.ahead.how": "one_step"})
    assert context.resume(tmp_path / "run").final_evaluation["eval/return_mean"] == STEPS


def test_without_the_distribution_only_runs_with_a_planner_are_refused(ahead, quick, monkeypatch):
    others = tuple(each for each in discovery.declared() if each.distribution != "maze-planning")
    monkeypatch.setattr(discovery, "declared", lambda: others)
    assert np.isfinite(quick(Doors, "ppo").evaluate()["eval/return_mean"])
    with pytest.raises(ConfigError) as refusal:
        _ = ahead().run
    assert str(refusal.value).splitlines() == [
        "callbacks.ahead: looking ahead, as ahead does, needs maze-planning, which is not installed",
        f"Next: {how_to_install('maze-planning')}",
    ]


def test_algorithms_that_collect_elsewhere_say_so(ahead):
    context = ahead(Doors, "es", {"algorithm.n_rollouts_per_update": 4})
    assert any("ahead looks ahead in evaluations only" in note for note in context.run.notes)


def test_the_config_alone_decides(ahead):
    """Rollouts build the planner in their own process, from the config."""
    context = ahead(overrides={"callbacks.ahead.how": "shooting", "callbacks.ahead.sequences": 1})
    (first,), (second,) = (context.rollout(1, seed=5) for _ in range(2))
    assert np.array_equal(first.actions["action"], second.actions["action"])
    assert isinstance(context, RunContext)
    assert issubclass(AheadConfig, PluginConfig)
