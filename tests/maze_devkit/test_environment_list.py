"""The list of environments finds what can be trained on, and no broken part of an installation hides the rest."""

import json
import sys

import gymnasium
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from maze_devkit import environment_list
from maze_devkit.environment_list import BUILT, brief, list_environments
from maze_devkit.envs import SeededWalk
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins import discovery

pytestmark = pytest.mark.usefixtures("known_plugins")


@pytest.fixture
def register(monkeypatch):
    return lambda name, make, **spec: monkeypatch.setitem(gymnasium.registry, name, EnvSpec(name, make, **spec))


def shown(*arguments):
    result = CliRunner().invoke(app, ["envs", "list", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_text_selects_by_id_in_any_case_and_names_the_presets():
    code, out, _ = shown("luNAR", "--json")
    rows = {row["id"]: row for row in json.loads(out)}
    assert code == 0
    assert {"LunarLander-v3", "LunarLanderContinuous-v3"} <= rows.keys()  # EnvPool has an older one, too
    assert all("lunar" in name.lower() for name in rows)
    assert rows["LunarLander-v3"]["action_space"] == "Discrete(4)"
    assert rows["LunarLander-v3"]["presets"]["ppo"] == ["LunarLander-v3"]
    assert rows["LunarLanderContinuous-v3"]["presets"]["sac"][1:] == ["tqc-LunarLanderContinuous-v3"]
    assert not {"ppo", "dqn"} & rows["LunarLanderContinuous-v3"]["presets"].keys()


def test_everything_is_listed_without_being_built(register):
    register("Unbuilt-v0", lambda: pytest.fail("it was built"))
    code, out, err = shown()
    assert code == 0
    assert len(out.splitlines()) > BUILT
    assert "Unbuilt-v0" in out
    assert "observations" not in out
    assert "maze envs list TEXT" in err


def quits():
    sys.exit("no licence")


def chatters():
    print("hello from the simulator")
    return SeededWalk()


def test_a_broken_environment_is_listed_with_the_reason_beside_the_others(register):
    register("Listed/Ends-v0", quits)
    register("Listed/Raises-v0", lambda: 1 / 0)
    register("Listed/Missing-v0", "no_such_module:Env")
    register("Listed/Talks-v0", chatters)
    code, out, _ = shown("listed/", "--json")
    rows = {row["id"].partition("/")[2]: row for row in json.loads(out)}
    assert code == 0
    assert "no licence" in rows["Ends-v0"]["problem"]
    assert "ZeroDivisionError" in rows["Raises-v0"]["problem"]
    assert "no_such_module" in rows["Missing-v0"]["problem"]
    assert rows["Talks-v0"]["problem"] == ""
    assert rows["Talks-v0"]["observation_space"].startswith("Box")


def test_a_hint_of_its_own_line_is_one_cell_with_the_problem(register):
    def incomplete():
        raise ConfigError("the gears are missing", "env", "Add them.")

    register("Listed/Gears-v0", incomplete)
    row = json.loads(shown("listed/gears", "--json")[1])[0]
    assert len(row["problem"].splitlines()) == 2
    _, table, _ = shown("listed/gears")
    assert "the gears are missing" in table
    assert "\\n" not in table


def test_a_module_of_ones_own_is_imported_when_it_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "listed_here.py").write_text(
        "import gymnasium\nfrom maze_devkit.envs import SeededWalk\n"
        "[gymnasium.register(f'{name}-v0', SeededWalk) for name in ('Hall', 'Garden')]\n"
    )
    (tmp_path / "listed_broken.py").write_text("raise SystemExit('not today')\n")
    try:
        assert [each.id for each in list_environments("listed_here:hA").environments] == ["listed_here:Hall-v0"]
    finally:
        for name in ("Hall-v0", "Garden-v0"):
            gymnasium.registry.pop(name, None)
    code, _, err = shown("listed_broken:")
    assert code == 2
    assert "not today" in err


def test_a_package_whose_import_fails_is_reported_and_the_list_goes_on(monkeypatch, tmp_path):
    (tmp_path / "highway_env.py").write_text("raise ValueError('half installed')\n")
    monkeypatch.syspath_prepend(tmp_path)
    code, out, err = shown("CartPole-v1")
    assert (code, "CartPole-v1" in out) == (0, True)
    assert "half installed" in err
    assert len(err.splitlines()) == 1


def test_sources_list_their_own_environments_or_stand_for_themselves(monkeypatch):
    (row,) = list_environments("cutting_2d").environments
    assert (row.id, row.presets, row.problem) == ("", {"ppo": ["cutting", "cutting-structured"]}, "")
    source = discovery.load("env", "cutting_2d")
    monkeypatch.setattr(source, "environments", lambda: ["big", "small"], raising=False)
    assert [each.id for each in list_environments("cutting_2d").environments] == ["big", "small"]
    monkeypatch.setattr(source, "environments", lambda: 1 / 0)
    found = list_environments("c")
    assert "ZeroDivisionError: division by zero" in found.problems
    assert any(each.id == "CartPole-v1" for each in found.environments)


def test_a_preset_is_read_once_for_all_algorithms_and_told_once_where_it_is_broken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "CartPole-v1.yaml").write_text("algorithm: ppo\n")
    (tmp_path / "presets" / "broken.yaml").write_text("a: [\n")
    read, reader = [], environment_list.read_yaml
    monkeypatch.setattr(environment_list, "read_yaml", lambda path: read.append(path) or reader(path))
    found = list_environments("CartPole-v1")
    assert len(read) == len(set(read)) > 2
    assert len([each for each in found.problems if "broken.yaml" in each]) == 1
    assert "CartPole-v1" in found.environments[0].presets["ppo"]


def test_nothing_found_is_an_error_that_says_what_next():
    code, out, err = shown("no such thing")
    assert (code, out) == (1, "")
    assert "maze envs list module:" in err
    assert shown("no such thing", "--json")[:2] == (1, "[]\n")


def test_spaces_are_short():
    assert brief(gymnasium.make("CartPole-v1").observation_space) == "Box((4,), float32)"
    assert brief(spaces.Box(0, 1, (2,))) == "Box(0.0, 1.0, (2,), float32)"
    nested = spaces.Dict(a=spaces.Tuple([spaces.Discrete(2), spaces.Text(9)]))
    assert brief(nested) == "Dict(a: Tuple(Discrete(2), Text))"
