"""Profiles: parts that add up to the time, in the right places, of runs that are not changed by being measured."""

from __future__ import annotations

import json
import time

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_compile.machine_code import Compilation
from maze_devkit.interpretation import Interpretation
from maze_profile.parts import PARTS, measured
from maze_profile.profiling import take_profile
from maze_profile.stopwatch import REST, Stopwatch, cost_of_a_change
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.collect.agents.network import NetworkAgent
from maze_core.envs.serial import SerialVectorEnv
from maze_core.run.context import RunContext
from tests.conftest import QUICK

SMALL = {**QUICK, "algorithm.num_envs": 2, "evaluation.n_episodes": 1}


WAIT = 0.005


class Slow(gymnasium.Env):
    """Every step waits, every fourth ends an episode."""

    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.left = 4
        return np.zeros(2, np.float32), {}

    def step(self, action):
        time.sleep(WAIT)
        self.left -= 1
        return np.zeros(2, np.float32), 0.0, self.left == 0, False, {}


gymnasium.register("MazeSlow-v0", Slow)


def config(env="MazeSlow-v0", algorithm="ppo", **overrides):
    foreign = {"ppo": (), "impala": ("num_envs",), "es": ("num_envs", "n_rollout_steps")}[algorithm]
    small = {path: value for path, value in SMALL.items() if path.removeprefix("algorithm.") not in foreign}
    small["algorithm.n_epochs"] = 1000  # the profile ends the run
    return RunContext(env, algorithm, preset="none", seed=1, overrides={**small, **overrides}).config


def test_every_moment_belongs_to_one_part():
    now = iter([0.0, 1.0, 3.0, 6.0, 10.0, 15.0, 21.0])
    watch = Stopwatch(clock=lambda: next(now))
    watch.start()
    watch.enter("batches")
    watch.enter("environment")
    assert watch.inside("batches")
    watch.leave()
    watch.leave()
    watch.enter("loss")
    watch.stop()
    assert watch.seconds == {REST: 1.0 + 5.0, "batches": 2.0 + 4.0, "environment": 3.0, "loss": 6.0}
    assert watch.total == 21.0


@pytest.mark.parametrize("algorithm", ["ppo", "impala", "es"])
def test_the_parts_are_the_time_and_a_slow_environment_is_found(algorithm):
    before = time.perf_counter()
    found = take_profile(config(algorithm=algorithm), 0.5)
    assert sum(found.seconds.values()) == pytest.approx(found.total)
    assert 0.5 < found.total < time.perf_counter() - before
    assert list(found.seconds) == [part for part in PARTS if part in found.seconds]
    assert found.env_steps > 0
    place = "workers" if algorithm == "es" else "environment"  # ES steps single environments by itself
    assert found.seconds[place] >= WAIT * found.env_steps
    assert found.seconds[place] == max(found.seconds.values())
    assert (algorithm == "es") == any("steps of environments are not seen" in note for note in found.notes)
    assert found.seconds["optimizer"] > 0
    assert found.seconds.get("loss", 0) > 0


def test_slow_learning_is_found():
    found = take_profile(config("CartPole-v1", **{"model.hidden": [512, 512], "algorithm.num_envs": 1}), 0.3)
    assert found.seconds["loss"] + found.seconds["optimizer"] > 5 * found.seconds["acting"]


def test_waiting_for_a_compiler_is_no_training(monkeypatch):
    def wait(compilation, interrupted):
        time.sleep(0.4)
        return compilation.made.result()

    monkeypatch.setattr(Compilation, "check", lambda: None)
    monkeypatch.setattr(Compilation, "__init__", lambda self, tape: setattr(self, "made", Interpretation(tape)))
    monkeypatch.setattr(Compilation, "result", wait)
    monkeypatch.setattr(Compilation, "close", lambda self: None)
    found = take_profile(config("CartPole-v1", compile="on"), 0.3)
    assert found.seconds["compiling"] >= 0.4
    assert found.total > 0.3 + found.seconds["compiling"]
    assert found.steps_per_second == pytest.approx(found.env_steps / (found.total - found.seconds["compiling"]))
    assert "compiling" not in take_profile(config("CartPole-v1"), 0.1).seconds


def test_a_measured_run_is_the_same_run(quick, whole_state, assert_same):
    plain, seen = quick(), quick()
    plain.train()
    classes = {name: dict(vars(each)) for name, each in (("env", SerialVectorEnv), ("agent", NetworkAgent))}
    seen.run  # noqa: B018 — builds it
    watch = Stopwatch()
    with measured(seen.run, watch):
        watch.start()
        seen.train()
        watch.stop()
    assert_same(whole_state(plain.run_dir), whole_state(seen.run_dir))
    assert {name: dict(vars(each)) for name, each in (("env", SerialVectorEnv), ("agent", NetworkAgent))} == classes
    assert not {"batches", "warm_up"} & vars(seen.run.algorithm).keys()
    assert "evaluate" not in vars(seen.run)
    steps = [line["env_steps"] for line in map(json.loads, (seen.run_dir / "metrics.jsonl").read_text().splitlines())]
    assert watch.entered["environment"] == steps[-1] // 3 + 1
    assert watch.entered["evaluation"] == len(steps)


def test_processes_that_it_cannot_see_are_named():
    found = take_profile(config("CartPole-v1", runner={"name": "local"}), 0.1)
    assert any("other processes" in note for note in found.notes)
    assert found.seconds["workers"] > 0


def call(*arguments, code=0):
    result = CliRunner().invoke(app, ["profile", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_the_command_profiles_an_algorithm_and_a_run_and_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = [f"--set={path}={'null' if value is None else value}" for path, value in SMALL.items()]
    text = call("ppo", "--env", "CartPole-v1", "--preset", "none", "--seconds", 0.1, *small)
    assert text.splitlines()[0].split()[:4] == ["part", "time", "share", "per"]
    assert "environment" in text
    assert "steps per second" in text
    assert list(tmp_path.iterdir()) == []
    with RunContext("CartPole-v1", "ppo", overrides=SMALL, preset="none", silent=True, run_dir="one") as context:
        context.train()
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    facts = json.loads(call("one", "--seconds", 0.1, "--json"))
    assert sum(facts["parts"].values()) == pytest.approx(facts["seconds"])
    assert facts["parts"].keys() <= PARTS.keys()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pppo"], "pppo"),
        (["./nowhere"], "nowhere"),
        (["ppo"], "env"),
        (["ppo", "--env", "CartPole-v1", "--set", "algorithm.lr=x"], "algorithm.lr"),
        (["ppo", "--env", "CartPole-v1", "--seconds", "0"], "seconds"),
    ],
)
def test_wrong_input_is_one_line(arguments, message):
    assert message in call(*arguments, code=2)


def test_measuring_costs_microseconds():
    assert 0 < cost_of_a_change(2000) < 1e-4
