"""`maze plugins new algorithm NAME --off-policy`: another starter of the same kind."""

import pytest
from maze_devkit.scaffold.kinds import OFF_POLICY
from maze_devkit.scaffold.names import new_names
from maze_devkit.scaffold.package import package_files
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app


def test_it_is_an_algorithm_that_learns_from_replay(tmp_path):
    result = CliRunner().invoke(app, ["plugins", "new", "algorithm", "my_q", "--off-policy", "--dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "maze train my_q --env CartPole-v1" in result.output
    folder = tmp_path / "maze-my-q"
    assert '[project.entry-points."maze.algorithms"]' in (folder / "pyproject.toml").read_text()
    source = (folder / "maze_my_q" / "my_q.py").read_text()
    assert "class MyQ(Algorithm)" in source
    assert "ReplayCollector(" in source
    assert 'conformance("algorithm", "my_q")' in (folder / "tests" / "test_my_q.py").read_text()


def test_both_starters_have_the_same_files():
    usual, off_policy = (package_files(new_names("algorithm", "my_q", variant)) for variant in ("", OFF_POLICY))
    assert usual.keys() == off_policy.keys()
    assert not any("$" in text for path, text in off_policy.items() if path.endswith(".py"))


def test_other_kinds_have_one_starter():
    with pytest.raises(ConfigError, match="--off-policy: there is one template for the kind wrapper"):
        new_names("wrapper", "my_q", OFF_POLICY)
