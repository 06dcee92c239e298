"""The command line, up to the calls that train: those are stood in for."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import jsonschema
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from maze_devkit.envs import FailingEnv, SpacesEnv
from typer.testing import CliRunner

from maze_core.base.errors import RunError
from maze_core.cli.main import app, main
from maze_core.plugins import probe
from maze_core.plugins.catalog import catalog
from maze_core.plugins.config.assembly import assemble, load_run_config
from tests.forked import Forked

EVALUATION = SimpleNamespace(
    metrics={"eval/return_mean": 12.5},
    title="ppo on CartPole-v1",
    checkpoint="best",
    epoch=4,
    seed=3,
    videos=(Path("films/episode-0.mp4"),),
)


@pytest.fixture
def api(monkeypatch):
    """Stands in for what trains and evaluates, and records what it was asked."""
    calls = SimpleNamespace(train=[], resume=[], evaluate_saved=[], outcome="finished", reason="", error=None)

    def answer(kind):
        def call(*args, **kwargs):
            getattr(calls, kind).append((args, kwargs))
            if calls.error is not None:
                raise calls.error
            return (
                EVALUATION if kind == "evaluate_saved" else SimpleNamespace(outcome=calls.outcome, reason=calls.reason)
            )

        return call

    fake = SimpleNamespace(**{kind: answer(kind) for kind in ("train", "resume", "evaluate_saved")})
    for module in ("api", "saved.saved_run", "episodes.saved_evaluation"):
        monkeypatch.setitem(sys.modules, f"maze_core.run.{module}", fake)
    return calls


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def trained(api, *arguments, code=0):
    maze("train", *arguments, code=code)
    ((config, run_dir, init_from), _) = api.train[-1]
    return SimpleNamespace(config=config, run_dir=run_dir, init_from=init_from)


def test_the_first_command_of_a_newcomer(api):
    config = trained(api, "ppo", "--env", "CartPole-v1").config
    assert config == assemble("ppo", "CartPole-v1")


def test_the_name_of_an_algorithm_in_any_case(api):
    assert trained(api, "PPO", "--env", "X").config.algorithm.name == "ppo"


def test_flags_reach_their_places(api, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("algorithm: {lr: 0.5, gamma: 0.5}\nevaluation: {n_episodes: 3}")
    before = tmp_path / "before"
    before.mkdir()
    (before / "config.yaml").write_text("model: {name: mlp}")
    run = trained(
        api, "ppo", "--env", "X", "-c", file, "--lr", "1e-3", "--normalize-advantages", "--target-kl", "0.01",
        "--epochs", "3", "--seed", "7", "--steps", "1000", "--num-envs", "2", "--model", "cnn", "--runner", "local",
        "--set", "evaluation.deterministic=false", "--set", "env.kwargs={a: 1}", "--device", "auto", "--quiet",
        "--run-dir", "out", "--init-from", before, "--preset", "none",
    )  # fmt: skip
    config, algorithm = run.config, run.config.algorithm
    assert (algorithm.lr, algorithm.gamma, algorithm.target_kl) == (1e-3, 0.5, 0.01)
    assert (algorithm.normalize_advantages, algorithm.n_epochs, algorithm.device) == (True, 3, "auto")
    assert (config.seed, config.steps, config.runner.name, algorithm.num_envs) == (7, 1000, "local", 2)
    assert (config.model.name, config.env.kwargs) == ("cnn", {"a": 1})
    assert (config.evaluation.n_episodes, config.evaluation.deterministic) == (3, False)
    assert "console" not in config.callbacks
    assert (run.run_dir, run.init_from) == (Path("out"), before)


def test_only_what_was_typed_overrides(api, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("algorithm: {normalize_advantages: true, target_kl: 0.5}\nenv: X\nseed: 3")
    config = trained(api, "ppo", "-c", file).config
    assert config.algorithm.normalize_advantages is True
    assert config.seed == 3
    assert trained(api, "ppo", "-c", file, "--target-kl", "none").config.algorithm.target_kl is None
    assert trained(api, "ppo", "-c", file, "--no-normalize-advantages").config.algorithm.normalize_advantages is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "ppo", "--env", "X", "--lr", "-1"], "algorithm.lr: must be greater than 0, got -1"),
        (["train", "ppo", "--env", "X", "--lr", "abc"], "algorithm.lr: must be a number, got 'abc'"),
        (["train", "ppo", "--env", "X", "--steps", "-5"], "steps: must be greater than 0, got -5"),
        (["train", "ppo", "--env", "X", "--steps", "many"], "steps: must be a whole number, got 'many'"),
        (["train", "ppo", "--env", "X", "--device", "tpu"], "algorithm.device: must be 'cpu', 'cuda' or 'auto'"),
        (["train", "ppo", "--env", "X", "--learning-rte", "1"], "--learning-rte"),
        (["train", "ppo", "--env", "X", "--set", "algorithm.lrr=1"], "algorithm.lrr: unknown key; did you mean lr?"),
        (["train", "ppo", "--env", "X", "--set", "nonsense"], "path=value"),
        (["train", "ppo", "--env", "X", "--wrappers", "nope"], "wrappers.0.name: unknown wrapper 'nope'"),
        (["train", "ppo", "--env", "X", "-c", "none.yaml"], "none.yaml: there is no such file"),
        (["train", "ppo", "--env", "X", "--preset", "nope"], "ppo has no preset 'nope'"),
        (["train", "ppo"], "env.id: is required"),
        (["train", "pppo", "--env", "X"], "Did you mean appo or ppo or trpo?"),
        (["train", "--env", "X"], "Next: maze train ppo --env X"),
        (["train", "--env", "X", "a2c", "--seed", "1"], "Next: maze train a2c --env X --seed 1"),
        (["train", "maze_ppo.ppo:PPO", "--env", "X"], "unknown algorithm"),
        (["trian"], "train"),
        (["plugins", "info", "pppo"], "did you mean ppo or appo?"),
        (["plugins", "list", "--kind", "algo"], "no kind 'algo'"),
        (["config", "show"], "algorithm: is required"),
        (["config", "show", "no-such-run"], "no-such-run"),
        (["envs", "check", "NoSuchEnv-v0"], "NoSuchEnv"),
        (["eval"], "RUN"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(api, arguments, message):
    result = maze(*arguments, code=2)
    assert message in result.output
    assert "Traceback" not in result.output
    assert api.train == []


@pytest.mark.parametrize(("outcome", "code"), [("finished", 0), ("stopped", 0), ("interrupted", 130), ("failed", 1)])
def test_exit_codes_of_runs(api, outcome, code):
    api.outcome = outcome
    maze("train", "ppo", "--env", "X", code=code)
    maze("resume", "somewhere", code=code)


def test_exit_code_of_a_run_that_sigterm_ended(api):
    api.outcome, api.reason = "interrupted", "interrupted by SIGTERM; the update in progress was given up"
    maze("train", "ppo", "--env", "X", code=143)
    maze("resume", "somewhere", code=143)


def test_a_run_error_is_told_without_a_traceback_but_with_its_notes(api):
    api.error = RunError("loss is nan")
    api.error.add_note("in hook compute_loss of algorithm plugin 'ppo'")
    result = maze("train", "ppo", "--env", "X", code=1)
    assert result.stderr.splitlines() == ["error: loss is nan", "in hook compute_loss of algorithm plugin 'ppo'"]


def test_an_interruption_before_the_loop(api):
    api.error = KeyboardInterrupt()
    assert "interrupted" in maze("train", "ppo", "--env", "X", code=130).stderr


def test_an_unexpected_error_shows_where_and_whose_it_is(api, monkeypatch, capsys):
    api.error = ZeroDivisionError("oops")
    monkeypatch.setattr(sys, "argv", ["maze", "resume", "somewhere"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert re.fullmatch(r"error: test_cli.py, line \d+ raised ZeroDivisionError: oops", error.splitlines()[-1])


def test_resume_and_eval_pass_on_what_was_typed(api):
    maze("resume", "a/run", "--set", "steps=9", "--set", "seed=1", "--checkpoint", "best")
    assert api.resume == [((Path("a/run"), ["steps=9", "seed=1"], "best"), {})]
    out = maze("eval", "a/run", "-n", "5", "--seed", "3", "--stochastic", "--json").stdout
    assert json.loads(out) == {"eval/return_mean": 12.5, "checkpoint": "best", "epoch": 4, "seed": 3}
    out = maze("eval", "a/run", "--video", "films", "--json").stdout
    assert json.loads(out)["video"] == "films"
    out = maze("eval", "a/run").stdout
    assert re.search(r"return_mean +12\.5\n", out)
    assert out.endswith(", ppo on CartPole-v1: checkpoint best, after epoch 4; seed 3\nfilmed films/episode-0.mp4\n")
    out = maze("eval", "a/run", "--policy", "random", "--json").stdout
    assert json.loads(out) == {"eval/return_mean": 12.5, "policy": "random", "seed": 3}
    assert maze("eval", "a/run", "--policy", "a.onnx").stdout.startswith("statistic")
    assert [calls["policy"] for _, calls in api.evaluate_saved[3:]] == ["random", "a.onnx"]
    for option in (["--stochastic"], ["--deterministic"], ["--checkpoint", "last"]):
        assert "is only for the run's own policy" in maze("eval", "a/run", "--policy", "random", *option, code=2).stderr
    plain = {"policy": None, "runner": None, "overrides": (), "look_ahead": True, "checkpoint": None, "video": None}
    plain |= {"episodes": None, "seed": None, "deterministic": None}
    assert api.evaluate_saved[:3] == [
        ((Path("a/run"),), {**plain, "episodes": 5, "seed": 3, "deterministic": False}),
        ((Path("a/run"),), {**plain, "video": Path("films")}),
        ((Path("a/run"),), plain),
    ]


def test_no_summary_of_an_algorithm_is_cut_off(unexamined):
    summaries = [info.summary for info in catalog("algorithm") if info.state == "ok"]
    text = " ".join(maze("train", "--help").stdout.split())
    assert summaries
    assert all(summary in text for summary in summaries)


def test_help_shows_an_algorithms_parameters(api):
    text = maze("train", "ppo", "--help").stdout
    for part in ("--clip-range", "FLOAT", "default: 0.2", "--env", "maze train ppo --env CartPole-v1"):
        assert part in text
    assert "--env CartPole-v1" in maze("--help").stdout


def test_plugin_pages():
    (page,) = json.loads(maze("plugins", "info", "PPO", "--json").stdout)
    assert (page["kind"], page["name"], page["distribution"]) == ("algorithm", "ppo", "maze-ppo")
    assert page["hooks"] == ["compute_loss"]
    assert page["calls"] == ["compute_loss", "wrap_agent", "build_planner", "change_rollout"]
    assert {"name": "clip_range", "type": "FLOAT|YAML", "default": "0.2", "range": "> 0"}.items() <= next(
        each.items() for each in page["parameters"] if each["name"] == "clip_range"
    )
    text = maze("plugins", "info", "ppo").stdout
    assert "clip_range" in text
    assert "ppo.py" in text


def test_the_pages_of_plugins_say_who_calls_their_hooks():
    (page,) = json.loads(maze("plugins", "info", "self_play", "--json").stdout)
    assert set(page["called_by"]) == {"wrap_agent", "change_rollout"}
    assert {"ppo", "gail"} <= set(page["called_by"]["wrap_agent"]) < set(page["called_by"]["change_rollout"])
    assert "impala" in page["called_by"]["change_rollout"]
    assert "calls:        none" in maze("plugins", "info", "cma_es").stdout


def test_config_show_prints_what_train_would_use(tmp_path):
    text = maze("config", "show", "--algorithm", "ppo", "--env", "CartPole-v1", "--set", "algorithm.lr=1e-3").stdout
    path = tmp_path / "config.yaml"
    path.write_text(text)
    config = assemble("ppo", "CartPole-v1", overrides=["algorithm.lr=1e-3"])
    assert load_run_config(path) == config
    assert maze("config", "show", tmp_path).stdout == text
    assert json.loads(maze("config", "show", path, "--json").stdout) == config.model_dump(mode="json")


def test_the_schema_describes_a_saved_configuration():
    schema = json.loads(maze("config", "schema", "ppo").stdout)
    definitions = schema["$defs"]
    assert definitions["algorithm.ppo"]["properties"]["clip_range"]["anyOf"][0]["exclusiveMinimum"] == 0
    assert "hidden" in definitions["model.mlp"]["properties"]
    assert "id" in definitions["env.gymnasium"]["properties"]
    config = assemble("ppo", "CartPole-v1").model_dump(mode="json")
    assert config.keys() | {"preset"} == schema["properties"].keys()
    assert config["algorithm"].keys() == definitions["algorithm.ppo"]["properties"].keys()
    jsonschema.validate(config, schema)


def test_an_environment_can_be_checked(tmp_path, monkeypatch):
    report = json.loads(maze("envs", "check", "CartPole-v1", "--json").stdout)
    assert report["action space"] == "Discrete(2)"
    assert report["problems"] == []
    assert not any("channels" in each for each in report["warnings"])


def test_a_check_points_out_pictures_whose_channels_seem_to_come_first(monkeypatch):
    shapes = {"camera": (3, 16, 16), "clear": (3, 84, 84)}
    pictures = spaces.Dict({key: spaces.Box(0, 255, shape, np.uint8) for key, shape in shapes.items()})
    spec = EnvSpec("Pictures-v0", lambda: SpacesEnv(copy.deepcopy(pictures), spaces.Discrete(2)))
    monkeypatch.setitem(gymnasium.registry, "Pictures-v0", spec)
    report = json.loads(maze("envs", "check", "Pictures-v0", "--json").stdout)
    (warning,) = (each for each in report["warnings"] if "channels" in each)
    assert "'camera' of shape (3, 16, 16)" in warning
    assert "transpose" in warning


def test_a_check_of_an_environment_that_cannot_be_stepped_says_what_is_wrong(monkeypatch):
    monkeypatch.setitem(gymnasium.registry, "Failing-v0", EnvSpec("Failing-v0", lambda: FailingEnv("raise")))
    result = CliRunner().invoke(app, ["envs", "check", "Failing-v0"])
    rows = dict(re.findall(r"(?m)^(\w[\w ]*):(.*)$", result.stdout))
    assert result.exit_code == 1
    assert rows["problems"].strip()
    assert all(value.strip() for value in rows.values()), result.stdout


def test_an_environment_from_the_current_directory(tmp_path):
    (tmp_path / "my_local_env.py").write_text(
        "import gymnasium\n"
        "class Mine(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Discrete(3)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        return 1, 0.0, True, False, {}\n"
        "gymnasium.register('Mine-v0', entry_point=Mine)\n"
    )
    process = Forked(["envs", "check", "my_local_env:Mine-v0"], tmp_path, os.environ)
    shown, said = process.communicate(60)
    assert process.returncode == 0, said
    assert "Discrete(3)" in shown


QUICK = """
import sys
from maze_core.cli.main import app
for arguments in (["--help"], ["--version"], ["plugins", "list"], ["train", "--help"]):
    try:
        app(arguments)
    except SystemExit:
        pass
    print(arguments, [m for m in ("torch", "numpy", "gymnasium", "maze_ppo") if m in sys.modules], file=sys.stderr)
"""


def test_quick_commands_import_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", QUICK], capture_output=True, text=True, timeout=60)
    said = done.stderr.strip().splitlines()
    assert len(said) == 4
    assert all(line.endswith(" []") for line in said), said


@pytest.fixture
def unexamined(monkeypatch, tmp_path):
    """A new process imports all plugins to tell how they are, which takes seconds where that is not known yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(probe, "examine", lambda claims: [("ok", "")] * len(claims))


@pytest.mark.parametrize("text", ["searcher", "Searchers"])
def test_the_list_of_plugins_takes_a_kind(unexamined, text):
    found = json.loads(maze("plugins", "list", text, "--json").stdout)
    assert {"grid", "random"} <= {each["name"] for each in found if each["kind"] == "searcher"}
