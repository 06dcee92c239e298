"""A teacher chooses the parameters of the next episodes, and they are the same after a kill and on workers."""

import json
import re

import numpy as np
import pytest
from maze_curricula.teachers.uniform import Uniform
from maze_recordings.loader import load_trajectories

from maze_core import ConfigError, RunContext, RunError
from maze_core.plugins.config.assembly import INSTALLED
from maze_core.plugins.config.plain_yaml import to_yaml

CORRIDOR = "tests.corridors:Corridor"
SMALL = {"algorithm.n_epochs": 4, "algorithm.epoch_length": 2, "algorithm.num_envs": 3, "evaluation.n_episodes": 2}
ROLLOUTS = {"algorithm.n_rollout_steps": 16, "algorithm.lr_schedule": "constant", "callbacks.tensorboard": None}
REPLAY = {
    "algorithm.initial_buffer_size": 20,
    "algorithm.batch_size": 8,
    "algorithm.epoch_length": 5,
    "algorithm.n_rollout_steps": 4,
    "callbacks.tensorboard": None,
}
OF = {"ppo": {"algorithm.n_optimization_epochs": 1, **ROLLOUTS}, "a2c": ROLLOUTS, "sac": REPLAY, "dqn": REPLAY}
SUCCESS = {"name": "success", "episodes": 4, "step": 0.3, "high": 0.2, "low": 0.1}


def taught(teacher="uniform", parameters=None):
    return {"callbacks.curriculum": {"teacher": teacher, "parameters": parameters or {}}}


RUNS = {
    "a method": ("tests.corridors:Hall", "a2c", taught(SUCCESS)),
    "seeds": (CORRIDOR, "ppo", taught({"name": "plr", "levels": 5}, {"seed": [0, 99]})),
    "memory": (CORRIDOR, "ppo", {**taught(), "model.memory": "gru", "wrappers": ["normalize_reward"]}),
    "replay": ("tests.corridors:Slope", "sac", {**taught("uniform", {"steepness": [-1.0, 1.0]})}),
    "a value function": (CORRIDOR, "dqn", {**taught({"name": "alp_gmm", "every": 5})}),
    "boundaries": (CORRIDOR, "ppo", taught({"name": "adr", "episodes": 2, "metric": "return", "high": 0.1, "low": 0})),
}


@pytest.mark.parametrize("name", RUNS)
def test_it_goes_on_exactly_and_workers_do_the_same(goes_on_exactly, name):
    env, algorithm, values = RUNS[name]
    context = goes_on_exactly(env, algorithm, SMALL | OF[algorithm] | values)
    lines = [json.loads(line) for line in (context.run_dir / "metrics.jsonl").read_text().splitlines()]
    changed = {key for line in lines for key in line if key.startswith("env/")}
    assert changed
    assert any(len({line.get(key) for line in lines}) > 1 for key in changed)


@pytest.mark.parametrize("runner", ["dev", "local"])
def test_episodes_have_the_chosen_parameters(quick, runner):
    context = quick(CORRIDOR, "ppo", {"runner": runner, **taught("uniform", {"size": [5, 6], "lag": [1, 3]})})
    seen = []
    context.run.environments.training(3)
    context.train(1)
    episodes = context.run.statistics.finished
    assert episodes
    seen = [episode.parameters for episode in episodes]
    assert {each["size"] for each in seen} <= {5, 6}
    assert {each["lag"] for each in seen} <= {1, 2, 3}
    assert all(episode.length <= 2 * episode.parameters["size"] for episode in episodes)
    rows = context.run.observation_space.shape
    assert rows == (4,)


def test_several_agents_have_them(quick, whole_state, assert_same):
    values = {"algorithm.n_epochs": 3, **taught("uniform", {"max_cycles": [2, 5]})}
    whole = quick("mpe2:simple_spread_v3", "ppo", values)
    whole.train()
    episodes = whole.run.statistics.finished
    assert all(each.length == each.parameters["max_cycles"] for each in episodes)
    assert len({each.length for each in episodes}) > 1
    parts = quick("mpe2:simple_spread_v3", "ppo", values | {"runner": "local"})
    parts.train(1)
    parts.close()
    with RunContext.reopen(parts.run_dir) as again:
        again.train()
    assert_same(whole_state(whole.run_dir), whole_state(parts.run_dir))


@pytest.mark.parametrize(
    ("env", "runner", "given", "as_built"),
    [
        (CORRIDOR, "dev", {"wind": [0.4, 0.5], "size": [5, 6]}, {"size": 3, "wind": 0.0}),
        ("tests.corridors:Hall", "dev", {"size": [5, 6], "wind": [0.4, 0.5]}, {"size": 3, "wind": 0.0}),
    ],
)
def test_without_its_teacher_a_resumed_run_has_the_environment_as_it_was_built(quick, env, runner, given, as_built):
    context = quick(env, "ppo", {"runner": runner, "algorithm.n_epochs": 9, **taught("uniform", given)})
    context.train(1)
    context.close()
    with RunContext.reopen(context.run_dir, overrides={"callbacks.curriculum": None, "runner": "dev"}) as again:
        again.train(3)
        assert again.run.statistics.finished
        assert not any(each.parameters for each in again.run.statistics.finished)
        envs = again.run.environments.training(0).envs
    assert all(getattr(each.unwrapped, name) == value for each in envs for name, value in as_built.items())


def test_so_do_several_agents(quick):
    context = quick(
        "mpe2:simple_spread_v3", "ppo", {"algorithm.n_epochs": 9, **taught("uniform", {"max_cycles": [2, 3]})}
    )
    context.train(1)
    context.close()
    with RunContext.reopen(context.run_dir, overrides={"callbacks.curriculum": None}) as again:
        again.train(4)
        assert [each.length for each in again.run.statistics.finished][-3:] == [25] * 3


def test_a_parameter_that_is_set_no_more_is_as_it_was_built(quick):
    context = quick(CORRIDOR, "ppo", {"algorithm.n_epochs": 9})
    environments = context.run.environments
    environments.training(3)
    for values in ({"wind": 0.4, "size": 5, "lag": 2}, {"size": 4, "lag": 1}, {"size": 2, "wind": 0.3}):
        environments.instruct([values])
        context.train(4 * values["size"])
        as_built = {"wind": 0.0, "size": 3, "lag": 0}
        for each in environments.training(3).envs:
            assert {name: getattr(each.unwrapped, name) for name in as_built} == as_built | values


def test_evaluations_have_their_own(quick):
    grid = {"size": [2, 5], "wind": [0.0, 0.5]}
    values = {"evaluation.parameters": grid, "evaluation.n_episodes": 8, **taught("uniform", {"size": [3, 3 + 1]})}
    context = quick(CORRIDOR, "ppo", values)
    context.train(1)
    line = json.loads((context.run_dir / "metrics.jsonl").read_text().splitlines()[-1])
    names = [f"eval/size={size},wind={wind}/return_mean" for size in (2, 5) for wind in (0.0, 0.5)]
    assert set(names) <= set(line)
    assert line["eval/return_mean"] == pytest.approx(np.mean([line[name] for name in names]))
    assert f"eval/size=2,wind={0.0}/success" in line


def test_rollouts_have_those_of_evaluations_and_recordings_say_so(quick, tmp_path):
    grid = {"size": [2, 5], "seed": [7, 8]}
    context = quick(CORRIDOR, "ppo", {"evaluation.parameters": grid, "evaluation.n_episodes": 4})
    context.train(1)
    for workers in (1, 2):
        folder = tmp_path / f"recorded{workers}"
        context.rollout(6, record=folder, workers=workers)
        episodes = list(load_trajectories(folder))
        assert [each.seed for each in episodes[:4]] == [7, 8, 7, 8]
        assert [each.parameters["size"] for each in episodes] == [2, 2, 5, 5, 2, 2]
        assert all(len(each) <= 2 * each.parameters["size"] for each in episodes)


BROKEN = {
    "no such teacher": (taught("nobody"), "unknown teacher"),
    "no such parameter": (taught("uniform", {"depth": [1, 2]}), "depth"),
    "beyond the declared range": (taught("uniform", {"size": [1, 9]}), "beyond what the environment declares"),
    "no range": (taught("uniform", {"size": 3}), "no range"),
    "no seeds": (taught("uniform", {"seed": [-1, 3]}), "no seeds"),
    "seeds that are no integers": (taught("uniform", {"seed": [0.0, 5.5]}), "no seeds"),
    "seeds by name": (taught("uniform", {"seed": {"choices": [1, "two"]}}), "no seeds"),
    "a choice among others": (taught("uniform", {"size": {"choices": [2, 99, 3]}}), "99 is beyond"),
    "bounds": (taught({"name": "success", "low": 0.9, "high": 0.1}), "low"),
    "an unknown key": (taught({"name": "success", "lwo": 0.9}), "lwo"),
    "levels without end": (taught({"name": "plr", "levels": 10**8}), "levels"),
    "a lesson without an end": (taught({"name": "lessons", "lessons": [{"parameters": {}}] * 2}), "never ends"),
    "a lesson beyond": (taught({"name": "lessons", "lessons": [{"parameters": {"size": 99}}]}, {"size": [2, 4]}), "99"),
    "evaluations of another": ({"evaluation.parameters": {"sise": [2]}}, "does not take sise=2"),
    "evaluations beyond": (
        {**taught(), "evaluation.parameters": {"size": [99]}},
        r"evaluation\.parameters\.size: 99",
    ),
    "evaluations of nothing": ({"evaluation.parameters": {"size": []}}, "at least 1 item"),
    "too few evaluations": ({"evaluation.parameters": {"size": [2, 3]}, "evaluation.n_episodes": 1}, "parameters"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_work_is_refused_before_the_first_step(quick, tmp_path, name):
    values, said = BROKEN[name]
    with pytest.raises(ConfigError, match=said):
        quick(CORRIDOR, "ppo", values).train()
    assert not list(tmp_path.glob("run*/checkpoints"))


@pytest.mark.parametrize(
    ("env", "parameters", "said"),
    [
        ("Growing", {"size": [2, 4]}, "observation_space is"),
        ("Misspelt", {}, r"does not take stepness=0[\s\S]*A parameter is an argument"),
    ],
)
def test_what_the_environment_does_not_take_is_refused(quick, env, parameters, said):
    with pytest.raises(ConfigError, match=said):
        quick(f"tests.corridors:{env}", "sac", taught("uniform", parameters)).train()


JOBS = {
    "impala": {"algorithm.num_actors": 2},
    "appo": {"algorithm.num_actors": 2},
    "apex": {"algorithm.num_actors": 2, "algorithm.initial_buffer_size": 20, "algorithm.epoch_length": 8},
    "es": {"algorithm.n_rollouts_per_update": 8},
}


@pytest.mark.parametrize("algorithm", ["apex", "es"])
def test_jobs_take_them_along(quick, whole_state, assert_same, algorithm):
    values = {"algorithm.n_epochs": 3, **JOBS[algorithm], **taught("uniform", {"size": [2, 6], "lag": [0, 3]})}
    whole = quick(CORRIDOR, algorithm, values)
    whole.train()
    parts = quick(CORRIDOR, algorithm, values)
    parts.train(1)
    parts.close()
    with RunContext.reopen(parts.run_dir) as again:
        again.train()
    assert_same(whole_state(whole.run_dir), whole_state(parts.run_dir))
    workers = quick(CORRIDOR, algorithm, values | {"runner": "local"})
    workers.train()
    if algorithm == "es":
        assert_same(whole_state(whole.run_dir), whole_state(workers.run_dir))
    for context in (whole, workers):
        assert len({each.parameters["size"] for each in context.run.statistics.finished if each.parameters}) > 1


def test_workers_whose_jobs_do_not_take_them_are_refused(quick):
    with pytest.raises(ConfigError, match="those of its workers"):
        quick(CORRIDOR, "cma_es", taught()).train()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda count: [{"size": 99}] * count, "size=99, beyond 2 to 6"),
        (lambda count: [{"depth": 3}] * count, "parameters of depth, instead of size"),
        (lambda count: [{"size": 3}], "not the parameters of 12 episodes"),
        (lambda count: [{"size": np.int64(3)}] * count, "by int("),
        (lambda count: 1 // 0, "next of the teacher 'uniform' raised ZeroDivisionError"),
    ],
)
def test_a_teacher_that_errs_later_ends_the_run(quick, monkeypatch, wrong, said):
    context = quick(CORRIDOR, "ppo", taught("uniform", {"size": [2, 6]}))
    first, calls = Uniform.next, []

    def later(self, count):
        calls.append(count)
        return first(self, count) if len(calls) == 1 else wrong(count)

    monkeypatch.setattr(Uniform, "next", later)
    with pytest.raises(RunError, match=re.escape(said)):
        context.train()
    assert len(calls) == 2


def test_metrics_of_a_teacher_that_are_no_numbers_end_the_run(quick, monkeypatch):
    monkeypatch.setattr(Uniform, "metrics", lambda self: {"level": "high"})
    with pytest.raises(RunError, match="metrics of the teacher 'uniform' raised ValueError"):
        quick(CORRIDOR, "a2c", taught()).train()


def test_a_metric_that_never_comes_ends_the_run_with_those_that_do(quick):
    context = quick(CORRIDOR, "ppo", taught({"name": "success", "metric": "cargo"}))
    with pytest.raises(RunError, match=r"no 'cargo', but return, length, success"):
        context.train()


def test_a_file_from_elsewhere_does_not_give_an_environment_an_address(quick, tmp_path):
    raw = quick(CORRIDOR, "ppo", {"evaluation.n_episodes": 2}).run.config.model_dump(mode="json")
    raw["evaluation"]["parameters"] = [{"lag": "https://example.org/levels"}]
    path = tmp_path / "elsewhere" / "config.yaml"
    path.parent.mkdir()
    path.write_text(to_yaml(raw))
    with pytest.raises(ConfigError, match=r"evaluation\.parameters"):
        INSTALLED.load_saved_config(path)
