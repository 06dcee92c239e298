"""Whatever is wrong with what a user gives — environment, configuration, file — is never called a bug in Maze.

One case breaks one thing. A command that ends with an error says it in one line, and none of ours is in a traceback.
"""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import sys
from functools import cache
from types import ModuleType

import gymnasium
import pytest
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError, PluginError
from maze_core.cli import main as command
from maze_core.cli.commands import train as train_command
from maze_core.cli.main import app
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.config.run import EvaluationConfig
from tests.cli.broken_envs import FEW, VALUES, Good, parallel_environments, single_environments, turn_environments

pytestmark = pytest.mark.usefixtures("known_plugins", "known_commands")
SMALL = (
    "--preset", "none", "--seed", "1", "-q", "--set", "algorithm.n_epochs=1", "--set", "algorithm.epoch_length=1",
    "--set", "algorithm.num_envs=2", "--set", "evaluation.n_episodes=1", "--set", "callbacks={jsonl: {}}",
    "--n-rollout-steps", "6", "--set", "evaluation.max_episode_steps=20",
)  # fmt: skip
MANY = tuple(name for name in VALUES if name not in FEW)


@pytest.fixture(scope="module")
def made():
    """The commands of algorithms, each made once: that takes as long as the tiny run after it."""
    return cache(train_command.algorithm_command)


@pytest.fixture
def known_commands(monkeypatch, made):
    monkeypatch.setattr(train_command, "algorithm_command", made)


def maze(capsys, *arguments):
    """Exit code and messages of a command in this process, as `main` prints them."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    if result.exception is None or isinstance(result.exception, SystemExit):
        return result.exit_code, result.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "app", lambda: (_ for _ in ()).throw(result.exception))
        with pytest.raises(SystemExit) as left:
            command.main()
    return left.value.code, result.stderr + capsys.readouterr().err


def assert_plain(capsys, *arguments):
    """The command works, or says in one error what is wrong; returns what it says."""
    code, said = maze(capsys, *arguments)
    assert "bug in Maze" not in said, said
    assert code in (0, 1, 2), said
    assert len(re.findall(r"(?m)^error: ", said)) == (0 if code == 0 else 1), said
    assert not re.search(r'(?m)^  File ".*/maze_\w+/', said), said
    return said


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """`train(environment class)`: what `maze train` says about it."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("broken_module")
    monkeypatch.setitem(sys.modules, "broken_module", module)

    def run(kind, *more):
        shutil.rmtree("run", ignore_errors=True)
        module.env = lambda **_: kind()
        gymnasium.registry.pop("Broken-v0", None)
        gymnasium.register("Broken-v0", kind, max_episode_steps=20)
        source = ("--env", "Broken-v0") if issubclass(kind, gymnasium.Env) else PETTINGZOO
        return assert_plain(capsys, "train", "ppo", *source, "--run-dir", "run", *SMALL, *more)

    yield run
    gymnasium.registry.pop("Broken-v0", None)


PETTINGZOO = ("--env-source", "pettingzoo", "--env", "broken_module:env")


def groups(names, size=12):
    """The names in groups, each of which is one test."""
    listed = sorted(names)
    return [tuple(listed[i : i + size]) for i in range(0, len(listed), size)]


def some(found, share):
    """One of `share` entries, drawn: the same ones every time. What is broken alike is broken many times."""
    return random.Random(4).sample(sorted(found.items()), len(found) // share)


SINGLE = single_environments(FEW)


@pytest.mark.parametrize("names", groups(SINGLE), ids=lambda names: names[0])
def test_a_broken_environment(train, names):
    for name in names:
        train(SINGLE[name])


@pytest.mark.slow
def test_many_broken_environments(train):
    for number, (_, kind) in enumerate(some(single_environments(MANY), 4)):
        train(kind, *(("--wrappers", "clip_reward") if number % 2 else ()))


@pytest.mark.parametrize(
    "part",
    ["possible_agents", "metadata", "spaces", "observations", "rewards", "infos", "reset", "action_space"],
)
def test_a_broken_environment_with_several_agents(train, part):
    for name, kind in parallel_environments(("None", "text", "object")).items():
        if name.startswith(part):
            train(kind)


@pytest.mark.slow
def test_many_broken_environments_with_several_agents(train):
    for name, kind in some(parallel_environments(tuple(VALUES)), 6):
        if not re.match("(terminations|truncations) of", name) and name != "step returns dict":
            train(kind)


@pytest.mark.parametrize("part", ["agents", "agent_selection", "last", "reset", "step"])
def test_a_broken_environment_in_turn(train, part):
    for name, kind in turn_environments(("None", "object")).items():
        if name.startswith(part):
            train(kind)


@pytest.mark.slow
def test_many_broken_environments_in_turn(train):
    for _, kind in some(turn_environments(tuple(VALUES)), 6):
        train(kind)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("no observation space", ["Broken has no observation_space", "gymnasium.spaces.Box"]),
        ("observation_space raises", ["observation_space of the environment raised RuntimeError: their fault"]),
        ("reset returns 3 values", ["reset returns 3 values, not 2"]),
        ("step returns 2 values", ["step returns 2 values, not 5"]),
        ("step returns None", ["step returns NoneType, not 5 values"]),
        ("info of the reset is text", ["an info that is no dict but str"]),
        ("close raises", ["warning: closing Broken raised RuntimeError: their fault"]),
        ("step raises", ["environment 0 (episode 0, step 1) raised"]),
        ("reset raises", ["environment 0 at the reset of episode 0 raised"]),
    ],
)
def test_what_is_said_of_an_environment(train, name, parts):
    said = train(SINGLE[name])
    for part in parts:
        assert part in said


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("observations alone", ["returns observations only from reset, not (observations, infos)"]),
        ("terminations of a step are __all__", ["names '__all__' in the terminations of step", "RLlib"]),
        ("rewards of a step are an unknown agent", ["names 'zz' in the rewards of step"]),
        ("possible_agents is None", ["possible_agents is None"]),
        ("two agents of one name", ["two agents of one name"]),
        ("spaces as dicts", ["has no method observation_space(agent)"]),
        ("step returns None", ["returns None from step"]),
    ],
)
def test_what_is_said_of_an_environment_with_several_agents(train, name, parts):
    said = train(parallel_environments(FEW)[name])
    for part in parts:
        assert part in said


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("nothing broken", []),
        ("reset raises", ["their fault"]),
        ("agent_selection is a stranger", ["names 'zz' in the agent_selection of step"]),
        ("reward of last is text", ["returns a reward of 'a' from last that is not a number"]),
        ("last returns 2 values", ["returns 2 values from last, not (observation, reward,"]),
        ("agents that have ended stay", ["among its agents after step(None)"]),
    ],
)
def test_what_is_said_of_an_environment_in_turn(train, name, parts):
    said = train(turn_environments(FEW)[name])
    assert ("error: " in said) == bool(parts)
    for part in parts:
        assert part in said


def test_an_environment_that_changes_the_folder(train, tmp_path):
    (tmp_path / "elsewhere").mkdir()

    def made(self):
        os.chdir(tmp_path / "elsewhere")
        Good.__init__(self)

    train(type("Broken", (Good,), {"__init__": made}))
    assert (tmp_path / "run" / "config.yaml").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


# Files

CONTENTS = {
    "missing": None, "empty": b"", "binary": bytes(range(256)), "no UTF-8": b'{"a": "\xff"}\n', "a list": b"[1]\n",
    "a number": b"3\n", "a text": b'"x"\n', "null": b"null\n",
    "a mapping of texts": b'{"epoch": "x", "env_steps": []}\n',
}  # fmt: skip
COMMANDS = (
    ("export", "run", "--out", "policy.onnx"),
    ("view", "run", "--out", "view.html", "--no-open", "-n", "1"),
    ("eval", "run", "-n", "1"),
    ("resume", "run", "--set", "algorithm.n_epochs=2", "-q"),
    ("rollout", "run", "-n", "1", "--workers", "1", "--runner", "dev"),
    ("runs", "list", "."),
    ("runs", "compare", "."),
    ("runs", "plot", ".", "--out", "plot.svg"),
    ("config", "show", "run"),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    result = CliRunner().invoke(app, ["train", "ppo", "--env", "CartPole-v1", "--run-dir", str(folder), *SMALL])
    assert result.exit_code == 0, result.output
    return folder


def damaged(whole, file, content):
    """A copy of the run in the current folder, with one file replaced."""
    shutil.rmtree("run", ignore_errors=True)
    shutil.copytree(whole, "run")
    path = os.path.join("run", file)  # noqa: PTH118
    os.unlink(path)  # noqa: PTH108
    if content is not None:
        with open(path, "wb") as written:  # noqa: PTH123
            written.write(content)


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("file", ["config.yaml", "run.json", "metrics.jsonl"])
def test_a_damaged_file_of_a_run(whole, tmp_path, monkeypatch, capsys, file, kind):
    monkeypatch.chdir(tmp_path)
    for arguments in COMMANDS[-4:][[*CONTENTS].index(kind) % 2 :: 2]:
        damaged(whole, file, CONTENTS[kind])
        assert_plain(capsys, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 3, 6])
def test_any_damaged_file_of_a_run(whole, tmp_path, monkeypatch, capsys, first):
    """Each file is met in three states, by another command in each; what else may happen to it: `tests/attack`."""
    monkeypatch.chdir(tmp_path)
    files = sorted(str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file())
    for number, file in enumerate(files, first):
        damaged(whole, file, list(CONTENTS.values())[number % len(CONTENTS)])
        assert_plain(capsys, *COMMANDS[(number + first) % len(COMMANDS)])


@pytest.mark.parametrize("value", ['"many"', "[1]", "{}", "true", "1e999", "NaN"])
def test_no_number_in_a_numbers_place_of_the_metrics(whole, tmp_path, monkeypatch, capsys, value):
    monkeypatch.chdir(tmp_path)
    line = (whole / "metrics.jsonl").read_text().splitlines()[-1]
    spoilt = re.sub(r'("eval/return_mean": )[^,}]+', rf"\g<1>{value}", line)
    assert spoilt != line
    damaged(whole, "metrics.jsonl", f"{line}\n{spoilt}\n".encode())
    for arguments in COMMANDS[-4:]:
        said = assert_plain(capsys, *arguments)
        if arguments[1] in ("plot", "compare"):
            assert "line 2 is damaged and skipped" in said


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, os.strerror(errno.EMFILE), "x"),
        OSError(errno.ENFILE, os.strerror(errno.ENFILE)),
        ImportError(f"libx.so: {os.strerror(errno.EMFILE)}"),
    ],
)
def test_too_few_file_descriptors(monkeypatch, capsys, error):
    monkeypatch.setattr(command, "app", lambda: (_ for _ in ()).throw(error))
    with pytest.raises(SystemExit):
        command.main()
    said = capsys.readouterr().err
    assert "ulimit -n" in said
    assert "bug in Maze" not in said


# Configurations

WRONG = (
    "x", "[]", "{}", "-1", "0", "null", "1e999", ".nan", "[1, x]", "true", "99999999999999999999", "''", "[[]]",
    "{a: {b: 1}}", "1e-320", "{name: x}", "[{}]", "[null]",
)  # fmt: skip


PER_RUN = 40
"""Cases of the fast suite, in about five seconds: others in each place, the same ones every time."""


@cache
def settings():
    """How to set each field of every plugin that is part of a run, and of the evaluation: texts before the value."""
    found = [("ppo", (), f"evaluation.{name}") for name in EvaluationConfig.model_fields]
    for kind in ("algorithm", "env", "model", "runner", "wrapper", "callback"):
        for name in discovery.names(kind):
            try:
                fields = discovery.load(kind, name).Config.model_fields
            except (ConfigError, PluginError):  # it needs a library that is not installed
                continue
            algorithm = name if kind == "algorithm" else "ppo"
            said = {
                "algorithm": ((), "algorithm"),
                "wrapper": ((f"wrappers=[{{name: {name}}}]",), "wrappers.0"),
                "callback": ((f"callbacks.x={{name: {name}}}",), "callbacks.x"),
            }
            before, path = said.get(kind, ((f"{kind}.name={name}",), kind))
            found += [(algorithm, before, f"{path}.{field}") for field in fields]
    return sorted(found)


@cache
def loaded(kind, name):
    """A plugin, looked up once: that takes a third of the time."""
    return discovery.load(kind, name)


def assert_made_or_refused(algorithm, before, setting):
    """The configuration is only made here; runs with wrong ones are in `tests/attack`."""
    said = ""
    try:
        Assembly(loaded).assemble(algorithm, "CartPole-v1", "none", overrides=[*before, setting])
    except (ConfigError, PluginError) as error:
        said = str(error)
    except Exception as error:
        raise AssertionError(f"{(algorithm, *before, setting)} raises {error!r}") from error
    assert "bug in Maze" not in said, (algorithm, *before, setting)


def test_wrong_values_of_any_setting_of_any_plugin():
    every = [(*each[:2], f"{each[2]}={wrong}") for each in settings() for wrong in WRONG]
    assert len({each[0] for each in every}) > 10, "the settings of few algorithms"
    for each in random.Random(4).sample(every, PER_RUN):
        assert_made_or_refused(*each)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_every_wrong_value_of_any_setting_of_any_plugin(wrong):
    """Each setting meets every sixth value; those of one type are many.

    The thousand of RLlib's algorithms have few types: of all but one algorithm each setting meets one value.
    """
    for number, (algorithm, before, path) in enumerate(settings()):
        some = algorithm.startswith("rllib-") and algorithm != "rllib-ppo"
        step = len(WRONG) if some else 6
        if number % step == WRONG.index(wrong) % step:
            assert_made_or_refused(algorithm, before, f"{path}={wrong}")
