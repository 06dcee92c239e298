"""`maze sweep` as a user types it: exit codes, tables, JSON, going on."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import yaml
from maze_sweep import local_pool
from typer.testing import CliRunner

from maze_core.cli.main import app
from tests.forked import WITH_WORKERS, Forked
from tests.maze_sweep.fake_pool import FakePool

SMALL = ["ppo", "--env", "CartPole-v1", "--over", "algorithm.lr=1,2", "--seeds", "2", "--dir", "s"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch, known_plugins):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pools(monkeypatch):
    """The pools that sweeps were carried out on; `outcomes` is what becomes of the next one's runs."""
    made: list[FakePool] = []

    def build(config, jobs):
        made.append(FakePool(jobs or 2, build.outcomes))
        return made[-1]

    build.outcomes = {}
    monkeypatch.setattr(local_pool, "local_pool", build)
    return made, build


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, ["sweep", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def test_a_sweep_and_its_table(pools):
    made, _ = pools
    result = maze(*SMALL, "--jobs", "3", "--steps", "500", "--epochs", "4", "--set", "algorithm.gamma=0.5")
    assert made[0].size == 3
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["rank", "trial", "lr", "best", "return", "runs"]
    assert lines[1] == ["1", "t001", "2", "20.5", "±", "0.707", "2/2"]
    assert result.stdout.splitlines()[-1] == "Next: maze runs plot s --out curves.png"
    told = result.stderr.splitlines()
    assert told[0].startswith("sweep of 2 trials with 2 seeds each: 4 runs in ")
    assert told[-1].startswith("[4/4] ")
    config = yaml.safe_load(Path("s/runs/t000-s1/config.yaml").read_text())
    assert (config["steps"], config["algorithm"]["n_epochs"], config["algorithm"]["gamma"]) == (500, 4, 0.5)


def test_what_all_runs_share_is_said_as_for_a_single_one(pools):
    shared = ["--model", "template", "--wrappers", "time_limit", "--env-source", "gymnasium"]
    maze(*SMALL, *shared)
    config = yaml.safe_load(Path("s/runs/t000-s1/config.yaml").read_text())
    assert config["model"]["name"] == "template"
    assert [each["name"] for each in config["wrappers"]] == ["time_limit"]
    assert config["env"]["name"] == "gymnasium"
    assert "model.name: unknown model 'mpl'" in maze(*SMALL[:-1], "other", "--model", "mpl", code=2).stderr


def test_a_policy_class_is_used_only_if_it_is_typed(pools, monkeypatch):
    made, _ = pools
    monkeypatch.syspath_prepend(Path(__file__).parent)
    first = "algorithm.initial_sampling_policy=sweep_envs:First"
    begin = ["dqn", "--env", "CartPole-v1", "--over", "algorithm.lr=1,2", "--steps", "500", "--dir", "s"]
    wrong = maze(*begin, "--initial-sampling-policy", "sweep_envs:Frist", code=2)
    assert "the module 'sweep_envs' has no 'Frist'" in wrong.stderr
    assert (
        "algorithm.initial_sampling_policy.name: unknown policy 'fist'"
        in maze(*begin[:3], "--over", "algorithm.initial_sampling_policy=random,fist", code=2).stderr
    )
    maze(*begin, "--initial-sampling-policy", "sweep_envs:First")
    assert made[-1].classes == ("sweep_envs:First",)
    refused = maze("--dir", "s", "--seeds", "2", code=2)
    assert "name it again on the command line, as in --set PATH='sweep_envs:First'" in refused.stderr
    maze("--dir", "s", "--seeds", "2", "--set", first)
    assert made[-1].started == ["t000-s1", "t001-s1"]


def test_going_on_needs_no_more_than_the_folder(pools):
    made, _ = pools
    maze(*SMALL, "--quiet")
    assert maze("--dir", "s", "--quiet").stderr == ""
    assert made[1].started == []
    maze("--dir", "s", "--seeds", "0,1,9")
    assert made[2].started == ["t000-s9", "t001-s9"]
    maze(*SMALL[:-4], "--seeds", "3", "--dir", "s", code=2)  # seed 9 would be dropped


def test_failures_are_visible(pools):
    made, following = pools
    following.outcomes = {"t001-s0": "failed"}
    result = maze(*SMALL, code=1)
    assert "failed: t001-s0: because failed\n" in result.stdout
    assert "1 run failed. To try again: maze sweep --dir s" in result.stdout
    assert "t001-s0 failed" in result.stderr
    log = Path("s/logs/t001-s0.log").absolute()
    log.touch()
    assert f"because failed (log: {log})" in maze("--dir", "s", code=1).stdout
    following.outcomes = {}
    assert "failed" not in maze(*SMALL).stdout
    assert made[-1].started == ["t001-s0"]


def test_json(pools):
    _, following = pools
    following.outcomes = {"t000-s0": "killed"}
    found = json.loads(maze(*SMALL, "--json", code=1).stdout)
    assert found["runs"] == {"total": 4, "finished": 3, "failed": 1}
    assert [each["trial"] for each in found["trials"]] == [1, 0]
    assert found["trials"][0]["mean"] == 20.5
    (killed,) = [run for run in found["trials"][1]["runs"] if run["state"] != "finished"]
    assert (killed["state"], killed["reason"]) == ("killed", "because killed")


def test_a_plan_in_a_file(pools):
    Path("plan.yaml").write_text(
        "algorithm: ppo\nenv: CartPole-v1\nseeds: 1\nover:\n  algorithm.lr: 1.0..3.0:3\n  algorithm.gamma: [0.5, 0.9]\n"
    )
    found = json.loads(maze("--plan", "plan.yaml", "--json", "--dir", "s", "--seeds", "[5]").stdout)
    assert found["runs"]["total"] == 6
    assert {run["seed"] for trial in found["trials"] for run in trial["runs"]} == {5}
    assert found["trials"][0]["point"]["algorithm.lr"] == 3.0


def test_searchers_with_parameters(pools):
    maze(*SMALL[:3], "--over", "algorithm.lr=1..9", "--searcher", "{name: random}", "--trials", "3", "--dir", "r")
    points = [each["point"] for each in json.loads(Path("r/trials.json").read_text())["trials"]]
    assert len(points) == 3
    assert all(1 <= point["algorithm.lr"] <= 9 for point in points)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the algorithm"),
        (["ppo", "--env", "CartPole-v1"], "--over: no search space is given"),
        (["--dir", "nowhere"], "nowhere contains no sweep to continue"),
        (["pppo", "--env", "CartPole-v1", "--over", "algorithm.lr=1,2"], "Did you mean appo or ppo or trpo?"),
        (["ppo", "--env", "CartPol-v1", "--over", "algorithm.lr=1,2"], "Did you mean CartPole-v1"),
        (
            ["ppo", "--env", "CartPole-v1", "--over", "algorithm.lrr=1,2"],
            "algorithm.lrr: unknown key; did you mean lr?",
        ),
        (["ppo", "--env", "CartPole-v1", "--over", "algorithm.lr"], "path=values"),
        (["ppo", "--env", "CartPole-v1", "--over", "algorithm.lr=1", "--over", "algorithm.lr=2"], "appears twice"),
        ([*SMALL, "--runner", "dev"], "the runner dev cannot run a sweep"),
        ([*SMALL, "--runner", "lokal"], "runner.name: unknown runner 'lokal'"),
        ([*SMALL, "--set", "algorithm.gamma=2"], "algorithm.gamma: must be less than or equal to 1"),
        ([*SMALL, "--searcher", "random"], "--trials 20"),
        ([*SMALL, "--searcher", "{name: grid, n: 3}"], "searcher.n: unknown key"),
        ([*SMALL, "--seeds", "none"], "seeds"),
        ([*SMALL, "--model", "mlp", "--over", "model.name=mlp,cnn"], "over.model.name: is both fixed and searched"),
        ([*SMALL, "--init-from", "nowhere"], "init_from: nowhere is not a run directory"),
        ([*SMALL, "--take", "first"], "take: must be 'best' or 'last'"),
        ([*SMALL, "-c", "none.yaml"], "none.yaml: there is no such file"),
        ([*SMALL, "--plan", "none.yaml"], "none.yaml: there is no such file"),
    ],
)
def test_wrong_input_is_said_before_anything_begins(arguments, message):
    result = maze(*arguments, code=2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not Path("s").exists()
    assert not Path("runs").exists()


@pytest.mark.slow
def test_ctrl_c_and_going_on(tmp_path):
    """In real processes: the runs under way save themselves, and the same command ends what they began."""
    command = [
        "sweep", "ppo", "--env", "CartPole-v1", "--preset", "none",
        "--over", "algorithm.lr=1e-3,1e-2", "--dir", "s", "--jobs", "1", "--epochs", "60",
        *(f"--set={each}" for each in (
            "algorithm.n_rollout_steps=8", "algorithm.epoch_length=2", "evaluation.n_episodes=1",
            "algorithm.num_envs=2", "callbacks.tensorboard=null", "callbacks.early_stopping.patience=0",
        )),
    ]  # fmt: skip
    first = Forked(command, tmp_path, os.environ, WITH_WORKERS)
    deadline = time.monotonic() + 60
    while not Path("s/runs/t000-s0/metrics.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    out, error = first.communicate(timeout=60)
    assert first.returncode == 130, error
    assert "interrupted by Ctrl-C. To continue: maze sweep --dir s" in out
    record = json.loads(Path("s/runs/t000-s0/run.json").read_text())
    assert record["summary"]["outcome"] == "interrupted"
    assert not Path("s/runs/t001-s0").exists()
    again = Forked(command, tmp_path, os.environ, WITH_WORKERS)
    assert again.wait(timeout=120) == 0, again.communicate()
    for name in ("t000-s0", "t001-s0"):
        epochs = [json.loads(line)["epoch"] for line in Path(f"s/runs/{name}/metrics.jsonl").read_text().splitlines()]
        assert epochs == list(range(1, 61))


@pytest.fixture
def quick_experiment():
    Path("experiments").mkdir()
    file = Path("experiments/quick.yaml")
    file.write_text("algorithm: {name: a2c, gamma: 0.7, lr: 0.5}\nenv: CartPole-v1\nsteps: 300\nmodel: template\n")
    return file


def test_all_runs_have_the_values_of_an_experiment(pools, quick_experiment):
    """It names algorithm and environment; files and options win over it; a begun sweep keeps its values."""
    Path("more.yaml").write_text("algorithm: {gamma: 0.8}\n")
    same = ["--experiment", "quick", "--over", "algorithm.lr=1,2", "--config", "more.yaml", "--steps", "500"]
    maze(*same, "--dir", "s")
    config = yaml.safe_load(Path("s/runs/t001-s0/config.yaml").read_text())
    assert (config["algorithm"]["name"], config["env"]["id"], config["model"]["name"]) == (
        "a2c",
        "CartPole-v1",
        "template",
    )
    assert (config["algorithm"]["gamma"], config["algorithm"]["lr"], config["steps"]) == (0.8, 2, 500)
    quick_experiment.write_text("algorithm: a2c\nenv: Acrobot-v1\n")
    assert "differences: config" in maze(*same, "--dir", "s", code=2).stderr
    maze("--dir", "s", "--seeds", "2")
    assert yaml.safe_load(Path("s/runs/t001-s1/config.yaml").read_text())["env"]["id"] == "CartPole-v1"


def test_experiments_that_no_sweep_can_use(pools, quick_experiment):
    over = ["--over", "algorithm.lr=1,2", "--dir", "s"]
    told = maze("--experiment", "quikc", *over, code=2).stderr
    assert "there is no experiment 'quikc'; did you mean quick?" in told
    told = maze("ppo", "--experiment", "quick", *over, code=2).stderr
    assert "is for the algorithm a2c, not for ppo" in told
    quick_experiment.write_text("env: CartPole-v1\n")
    told = maze("--experiment", "quick", *over, code=2).stderr
    assert "names no algorithm\nNext: maze sweep ALGORITHM --experiment quick" in told
    assert not Path("s").exists()
    maze("ppo", "--experiment", "quick", *over)


@pytest.mark.usefixtures("pools")
def test_seeds_alone_repeat_the_same_settings():
    result = maze("ppo", "--env", "CartPole-v1", "--seeds", "5", "--steps", "500", "--dir", "s")
    assert result.stdout.splitlines()[1].split()[-1] == "5/5"
    assert sorted(each.name for each in Path("s/runs").iterdir()) == [f"t000-s{seed}" for seed in range(5)]
    again = maze("--dir", "s", "--seeds", "6")
    assert again.stdout.splitlines()[1].split()[-1] == "6/6"
    alone = maze("ppo", "--env", "CartPole-v1", code=2)
    assert "or, for several seeds of the same settings, --seeds 5" in alone.stderr
    searched = maze("ppo", "--env", "CartPole-v1", "--seeds", "2", "--searcher", "random", "--trials", "3", code=2)
    assert "over: there is nothing to search" in searched.stderr


SEVERAL = ["ppo,a2c", "--env", "CartPole-v1", "--env", "Acrobot-v1", "--seeds", "2", "--dir", "s"]


def test_several_algorithms_and_environments_each_with_its_preset(pools):
    made, following = pools
    following.outcomes = {"t003-s1": "killed"}
    result = maze(*SEVERAL, code=1)
    assert [line.split()[:4] for line in result.stdout.splitlines()[:5]] == [
        ["rank", "trial", "algorithm", "env"],
        ["1", "t000", "ppo", "CartPole-v1"],
        ["2", "t002", "a2c", "CartPole-v1"],
        ["1", "t001", "ppo", "Acrobot-v1"],
        ["-", "t003", "a2c", "Acrobot-v1"],
    ]
    assert "preset" not in result.stdout
    assert "Next: maze report s --normalize range" in result.stdout
    assert not Path("s/best.yaml").exists()
    configs = [yaml.safe_load(Path(f"s/runs/t00{n}-s0/config.yaml").read_text())["algorithm"] for n in range(3)]
    assert len({each["lr"] for each in configs[:2]}) == 2  # a preset for each task
    following.outcomes = {}
    maze(*SEVERAL)
    assert made[-1].started == ["t003-s1"]
    maze("--dir", "s", "--seeds", "3")
    assert made[-1].started == [f"t00{n}-s2" for n in range(4)]


def test_of_several_algorithms_the_best_one_is_the_preset_s(pools):
    result = maze("ppo,a2c", "--env", "CartPole-v1", "--over", "algorithm.gamma=0.9,0.99", "--dir", "s")
    best = yaml.safe_load(Path("s/best.yaml").read_text())["algorithm"]["name"]
    assert f"maze train {best} --env CartPole-v1 --preset s/best.yaml" in result.stdout
    assert "t003" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ppo,ppo", "--env", "CartPole-v1"], "over.algorithm.name: contains a value twice"),
        (["ppo,", "--env", "CartPole-v1"], "algorithm"),
        (["ppo,a2d", "--env", "CartPole-v1"], "unknown algorithm 'a2d'"),
        (["ppo", "--env", "CartPole-v1", "--env", "CartPol-v1"], "CartPol-v1"),
        (["ppo,a2c", "--env", "CartPole-v1", "--over", "algorithm.name=ppo,dqn"], "over.algorithm.name: appears twice"),
        (["ppo,a2c", "--env", "CartPole-v1", "--set", "algorithm.name=dqn"], "both fixed and searched"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_run(pools, arguments, said):
    assert said in maze(*arguments, "--dir", "s", code=2).stderr
    assert not Path("s").exists()
