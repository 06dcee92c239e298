"""New projects as their owners meet them: written and trained, without an edit; their tests: `test_new_plugins.py`."""

import json
import os
import subprocess
import sys

import jsonschema
import pytest
from maze_devkit.scaffold import project as module
from maze_devkit.scaffold.project import check_name, project_files, write_project
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins.config.plain_yaml import parse_mapping
from tests.forked import Forked

LONGEST = "abcdefghij_klmnopqrst_uvwxyz23"
SHORT = (
    "--steps", "64", "--seed", "1", "--num-envs", "2", "--n-rollout-steps", "16", "--epoch-length", "1",
    "--set", "evaluation.n_episodes=1", "--run-dir", "run",
)  # fmt: skip


def typed(*words, folder):
    """The output of a command in a folder."""
    process = Forked(words, folder, {**os.environ, "COLUMNS": "200"})
    printed = "".join(process.communicate(120))
    assert process.returncode == 0, printed
    return printed


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A new project."""
    here = tmp_path_factory.mktemp("project")
    printed = typed("init", "my_cart", folder=here)
    for line in ("wrote my_cart", "cd my_cart", "make test", "maze train --experiment quick", "my_cart.py"):
        assert line in printed
    return here / "my_cart"


def test_its_experiments_train_with_its_preset_and_play(project):
    printed = typed("train", "--experiment", "long", *SHORT, folder=project)
    assert "preset  MyCart-v0 (presets/ppo/MyCart-v0.yaml)" in printed
    assert "force: 0.05" in (project / "run" / "config.yaml").read_text()
    assert "episodes" in typed("eval", "run", folder=project)


def test_its_environment_is_sound(project):
    (check,) = [line for line in (project / "Makefile").read_text().splitlines() if "envs check" in line]
    printed = typed(*check.split()[1:], folder=project)
    assert [line.split() for line in printed.splitlines()[-2:]] == [["warnings:", "none"], ["problems:", "none"]]


def test_editors_find_the_schema_and_it_fits(project):
    files = [*project.glob("experiments/*.yaml"), *project.glob("presets/ppo/*.yaml")]
    assert len(files) == 3
    lines = [file.read_text().partition("\n") for file in files]
    named = [
        (file.parent / first.removeprefix("# yaml-language-server: $schema=")).resolve()
        for file, (first, *_) in zip(files, lines, strict=True)
    ]
    (schema,) = set(named)
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text()))
    for file, (*_, rest) in zip(files, lines, strict=True):
        validator.validate(parse_mapping(rest, str(file)))


@pytest.fixture
def without_schema(monkeypatch):
    """It takes seconds, and is tested by itself."""
    monkeypatch.setattr(module, "file_schema", dict)


@pytest.mark.parametrize("name", ["x", LONGEST])
def test_its_code_is_clean_whatever_it_is_called(name, tmp_path, without_schema):
    folder = write_project(name, tmp_path)
    assert not [path for path, text in project_files(name).items() if "$name" in text or "${" in text]
    rules = ("--isolated", "--no-cache", "--line-length", "120")
    for command in (["check", "--select", "E,F,W,I,B,UP,SIM,RUF,N"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *rules, "."], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../x", "Did you mean x?"),
        ("my robot", "Did you mean my_robot?"),
        ("My-Robot", "Did you mean my_robot?"),
        ("/tmp/x", "is not a valid name"),
        ("", "is not a valid name"),
        (".", "is not a valid name"),
        ("x" * 31, "is not a valid name"),
        ("ü\x1b[31m", "is not a valid name"),
        ("class", "is reserved"),
        ("match", "is reserved"),
        ("tests", "is reserved"),
        ("null", "is reserved"),
        ("json", "Python has a module json already"),
        ("torch", "Python has a module torch already"),
        ("maze_core", "Python has a module maze_core already"),
    ],
)
def test_hostile_names_are_one_clear_error(name, said, tmp_path):
    result = CliRunner().invoke(app, ["init", "--dir", str(tmp_path), "--", name])
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert "\x1b" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path, without_schema):
    write_project("orchard", tmp_path)
    (tmp_path / "orchard" / "orchard.py").write_text("kept")
    with pytest.raises(ConfigError, match="orchard exists already"):
        write_project("orchard", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="exists already"):
        write_project("file", tmp_path)
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        write_project("other", tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="exists already"):
        write_project("dangling", tmp_path)
    assert (tmp_path / "orchard" / "orchard.py").read_text() == "kept"


def test_without_ppo_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("MAZE_DISABLE_PLUGINS", "maze-ppo")
    with pytest.raises(ConfigError, match="unknown algorithm 'ppo'"):
        write_project("orchard", tmp_path)
    assert not (tmp_path / "orchard").exists()


def test_ordinary_names_are_fine():
    for name in ("x", "my_cart", "robot2", LONGEST):
        check_name(name)
