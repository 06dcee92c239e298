"""The JSON Schema agrees with what Maze accepts, in files that say only some things."""

from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
import yaml
from maze_devkit.config_schema import file_schema
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.plain_yaml import parse_mapping, read_yaml
from tests.repository import files

ROOT = Path(__file__).parents[2]
FILES = files("*/presets/**/*.yaml")
PRESETS = [file for file in FILES if find_spec(file.relative_to(ROOT).parts[2])]
"""Those of the installed packages: the schema knows no others."""


@pytest.fixture(scope="module")
def validator():
    schema = file_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_every_preset_fits(validator):
    assert len(PRESETS) > 30
    wrong = {file.name: error.message for file in PRESETS for error in validator.iter_errors(read_yaml(file))}
    assert not wrong


GOOD = [
    "",
    "env: CartPole-v1\nmodel: cnn\nalgorithm: ppo",
    "algorithm: {lr: 3e-4}",
    "model: {hidden: [32, 32]}",
    "model: {name: cnn}\nwrappers: [stack, {name: time_limit, steps: 5}, 'module:Class']",
    "callbacks: {tensorboard: null, early_stopping: {target_return: 4}, mine: {name: jsonl}}",
    "preset: none\nsteps: 5\nenv: {kwargs: {a: [1]}}",
]
BAD = [
    "zzz: 1",
    "algorithm: pppo",
    "algorithm: {name: ppo, lrr: 1}",
    "model: {hiden: [3]}",
    "model: {name: cnn, hidden: many}",
    "steps: -1",
    "wrappers: [{name: time_limit, step: 5}]",
    "callbacks: {early_stopping: {target_returns: 4}}",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_maze_accepts_fits(validator, text):
    assert [error.message for error in validator.iter_errors(parse_mapping(text, "here"))] == []


@pytest.mark.parametrize("text", BAD)
def test_what_maze_refuses_does_not_fit(validator, text):
    content = parse_mapping(text, "here")
    assert not validator.is_valid(content)
    algorithm = None if "algorithm" in content else "ppo"
    with pytest.raises(ConfigError):
        assemble(algorithm, "CartPole-v1", "none", files=[content])


def test_one_algorithm_alone():
    result = CliRunner().invoke(app, ["config", "schema", "ppo", "--model", "cnn"])
    schema = yaml.safe_load(result.stdout)
    assert schema["properties"]["algorithm"]["anyOf"][0]["enum"] == ["ppo"]
    assert schema["properties"]["model"]["anyOf"][0]["enum"] == ["cnn"]
    assert CliRunner().invoke(app, ["config", "schema", "pppo"]).exit_code == 2
