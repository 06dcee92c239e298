"""Options of the Python API: numbers of episodes and flags cannot be mistaken for each other."""

import inspect

import pytest
from maze_devkit.envs import CountingEnv, SeededWalk

from maze_core import Run, RunContext
from maze_core.base.errors import ConfigError


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    context = RunContext(
        env=lambda: CountingEnv(5),
        algorithm="a2c",
        overrides={"algorithm.epoch_length": 1, "algorithm.num_envs": 1, "evaluation.n_episodes": 2},
        seed=1,
        silent=True,
        run_dir=tmp_path_factory.mktemp("options") / "run",
    )
    context.train(1)
    yield context
    context.close()


def test_an_evaluation_takes_a_number_of_episodes_as_a_rollout_does(trained, quick):
    assert len(trained.rollout(3)) == 3
    few = quick(SeededWalk)
    for episodes in (1, 5, 20):
        many = quick(SeededWalk, overrides={"evaluation.n_episodes": episodes})
        assert scores(few.evaluate(episodes)) == scores(many.evaluate())
    assert scores(few.evaluate()) != scores(few.evaluate(20))
    none = quick(SeededWalk, overrides={"evaluation.n_episodes": 0})
    assert none.evaluate() == {}
    assert scores(none.evaluate(5)) == scores(few.evaluate(5))


def scores(metrics):
    return {name: value for name, value in metrics.items() if name.startswith("eval/")}


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda context: context.evaluate(0), "episodes"),
        (lambda context: context.evaluate(True), "episodes"),
        (lambda context: context.evaluate(2.0), "episodes"),
        (lambda context: context.evaluate("8"), "episodes"),
        (lambda context: context.evaluate(deterministic=20), "deterministic"),
        (lambda context: context.evaluate(look_ahead="no"), "look_ahead"),
        (lambda context: context.rollout(True), "episodes"),
        (lambda context: context.rollout(-1), "episodes"),
        (lambda context: context.rollout(2, workers=True), "workers"),
        (lambda context: context.rollout(2, deterministic=1), "deterministic"),
        (lambda context: context.train(True), "n_epochs"),
        (lambda context: context.train(1.5), "n_epochs"),
        (lambda context: context.agent(deterministic=0), "deterministic"),
        (lambda context: context.agent(check="yes"), "check"),
        (lambda context: context.compute_action([0.0], deterministic=3), "deterministic"),
        (lambda context: context.compute_actions([[0.0]], check=1), "check"),
        (lambda context: RunContext("CartPole-v1", silent=1), "silent"),
    ],
)
def test_what_is_no_such_option_is_refused_by_its_name(trained, call, where):
    with pytest.raises(ConfigError, match=f"^{where}: must be ") as raised:
        call(trained)
    assert raised.value.where == where


@pytest.mark.parametrize("owner", [RunContext, Run])
def test_no_flag_of_a_run_can_be_given_by_its_position(owner):
    methods = {name: member for name, member in vars(owner).items() if inspect.isfunction(member)}
    kinds = {
        f"{name}.{each.name}": each.kind
        for name, member in methods.items()
        for each in inspect.signature(member).parameters.values()
        if "bool" in str(each.annotation)
    }
    assert {"evaluate.deterministic"} <= kinds.keys()
    assert {name for name, kind in kinds.items() if kind is not inspect.Parameter.KEYWORD_ONLY} == set()
