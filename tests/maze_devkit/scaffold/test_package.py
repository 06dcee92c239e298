"""What a new package consists of, before anybody installs it."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from maze_devkit.scaffold.kinds import STARTERS
from maze_devkit.scaffold.names import Names
from maze_devkit.scaffold.package import core_range, package_files, write_package
from packaging.requirements import Requirement

from maze_core.base.errors import ConfigError
from maze_core.cli.main import main
from maze_core.plugins import discovery

LONGEST = "abcdefghij_klmnopqrst_uvwxyz23"


def test_every_kind_of_plugin_has_a_beginning():
    assert list(STARTERS) == list(discovery.KINDS)


@pytest.mark.parametrize("kind", STARTERS)
def test_the_package_is_complete(kind):
    files = package_files(Names(kind, "my_x"), author="Ada")
    assert set(files) == {
        "pyproject.toml", "README.md", "LICENSE", ".gitignore", ".github/workflows/ci.yml",
        "maze_my_x/__init__.py", "maze_my_x/my_x.py", "maze_my_x/py.typed", "tests/test_my_x.py",
    }  # fmt: skip
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert (project["name"], project["license"]) == ("maze-my-x", "MIT")
    ((group, entry_points),) = project["entry-points"].items()
    assert group == discovery.KINDS[kind]
    target = entry_points["my_x"].removeprefix("maze_my_x.my_x:")
    assert re.search(rf"^(class|def) {target}\(", files["maze_my_x/my_x.py"], re.MULTILINE)
    assert "Copyright (c) Ada" in files["LICENSE"]
    assert f'conformance("{kind}", "my_x")' in files["tests/test_my_x.py"]
    assert not re.search(r"\$\w|\$\{(?!\{)", "".join(text for path, text in files.items() if path != "LICENSE"))


@pytest.mark.parametrize("kind", STARTERS)
def test_the_plugin_can_be_read_in_a_minute(kind):
    code = package_files(Names(kind, "x"))["maze_x/x.py"]
    assert len(code.splitlines()) <= 80


def test_they_are_clean_under_their_own_settings_whatever_they_are_called(tmp_path):
    for name in ("x", LONGEST):
        for kind in STARTERS:
            (tmp_path / name / kind).mkdir(parents=True)
            assert (write_package(Names(kind, name), tmp_path / name / kind) / "pyproject.toml").is_file()
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "."], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout


def test_ci_does_what_the_readme_says(tmp_path):
    files = package_files(Names("model", "x"))
    steps = yaml.safe_load(files[".github/workflows/ci.yml"])["jobs"]["check"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert {"pytest", "mypy", "ruff check .", "ruff format --check ."} <= set(commands)
    assert "${{ matrix.python }}" in json.dumps(steps)


@pytest.mark.parametrize(
    ("version", "wanted"), [("0.1.0", ">=0.1,<0.2"), ("0.12.3.dev1", ">=0.12,<0.13"), ("2.5.1", ">=2.5,<3"), ("", "")]
)
def test_the_range_of_core_versions(version, wanted):
    assert core_range(version) == wanted


def test_the_declared_range_holds_the_running_core():
    files = package_files(Names("env", "x"))
    (dependency,) = tomllib.loads(files["pyproject.toml"])["project"]["dependencies"]
    assert Requirement(dependency).specifier.contains(discovery.core_version())


@pytest.mark.parametrize(
    ("license", "words"), [("BSD-3-Clause", "Neither the name"), ("Apache-2.0", "Grant of Patent License")]
)
def test_other_licences(license, words):
    files = package_files(Names("env", "x"), license)
    assert words in files["LICENSE"]
    assert tomllib.loads(files["pyproject.toml"])["project"]["license"] == license


def test_no_licence_is_a_choice_too():
    files = package_files(Names("env", "x"), "none")
    assert "LICENSE" not in files
    assert "license" not in tomllib.loads(files["pyproject.toml"])["project"]


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "maze-x").mkdir()
    with pytest.raises(ConfigError, match=r"maze-x exists already"):
        write_package(Names("env", "x"), tmp_path)
    assert not list((tmp_path / "maze-x").iterdir())


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        write_package(Names("env", "x"), tmp_path / "file")


def test_the_command(tmp_path, capsys, monkeypatch):
    command = ["maze", "plugins", "new", "wrapper", "tenth", "--dir", str(tmp_path), "--license", "apache-2.0"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert f"cd {tmp_path / 'maze-tenth'}" in printed
    assert "maze train ppo --env CartPole-v1 --wrappers tenth" in printed
    assert "Apache License" in (tmp_path / "maze-tenth" / "LICENSE").read_text()
    with pytest.raises(SystemExit) as again:
        main()
    assert again.value.code == 2
    assert "exists already" in capsys.readouterr().err


def test_new_packages_build_on_nothing_but_what_is_promised():
    page = (Path(__file__).parents[3] / "docs" / "guide" / "compatibility.md").read_text(encoding="utf-8")
    promised = set(re.findall(r"`(maze_\w+(?:\.\w+)*)`", page))
    code = "".join(text for kind in STARTERS for path, text in package_files(Names(kind, "x")).items() if ".py" in path)
    imported = set(re.findall(r"^from (maze_(?!x\b)\S*) import (\w+)", code, re.MULTILINE))
    assert len(imported) > 8
    promised |= {"maze_core"}
    assert not [module for module, name in imported if not promised & set(_above(f"{module}.{name}"))]


def _above(name):
    """The name and all packages above it, but for the core itself."""
    parts = name.split(".")
    above = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    return above if len(parts) == 2 else above - {"maze_core"}
