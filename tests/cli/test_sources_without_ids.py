"""Env sources whose environments have no id: their commands need none, those of gymnasium's registry do."""

import json

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app


def test_check_and_rollout_need_no_id():
    runner = CliRunner()
    checked = runner.invoke(app, ["envs", "check", "--env-source", "cutting_2d", "--set", "env.orders=5", "--json"])
    assert (checked.exit_code, json.loads(checked.stdout)["problems"]) == (0, [])
    options = ["--env-source", "cutting_2d", "-n", "2", "--workers", "1", "--seed", "3", "--set", "env.orders=5"]
    played = runner.invoke(app, ["rollout", "--policy", "random", *options, "--json"])
    assert (played.exit_code, json.loads(played.stdout)["steps"]) == (0, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["envs", "check"], "env.id: is required"),
        (["rollout", "--policy", "random"], "name a run directory, or both --policy and --env"),
        (["rollout", "--env-source", "cutting_2d"], "name a run directory, or both --policy and --env"),
        (["envs", "check", "X-v0", "--env-source", "cutting_2d"], "env.id: unknown key"),
    ],
)
def test_what_is_missing_or_too_much_is_said(arguments, message):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_page_of_a_source_lists_its_presets():
    result = CliRunner().invoke(app, ["plugins", "info", "cutting_2d"])
    assert "cutting (ppo)" in result.stdout
