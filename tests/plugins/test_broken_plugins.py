"""A broken plugin is explained and breaks nothing else."""

import json
import os
import subprocess
import sys

import pytest

from maze_core.base.errors import PluginError
from maze_core.plugins import discovery
from maze_core.plugins.distribution_facts import damaged

CONFIG = """
from collections.abc import Callable
from maze_core import PluginConfig
class Good:
  class Config(PluginConfig):
"""
BROKEN = {
    "missing-import": ("import a_module_that_does_not_exist", "broken", "a_module_that_does_not_exist"),
    "exits": ("import sys; sys.exit('goodbye')", "broken", "SystemExit: goodbye"),
    "base-exception": ("raise BaseException('odd')", "broken", "BaseException: odd"),
    "dies": ("import os; os._exit(7)", "broken", "exit code 7"),
    "no-attribute": ("", "broken", "Good"),
    "syntax": ("def (", "broken", "SyntaxError"),
    "no-class": ("Good = 3", "not a plugin", "not a class"),
    "no-config": ("class Good: pass", "not a plugin", "PluginConfig"),
    "wrong-config": ("class Good:\n    class Config: pass", "not a plugin", "PluginConfig"),
    "undefined-type": (f"{CONFIG}    value: 'Nowhere' = 1\n", "not a plugin", "names something that its module"),
    "no-file-type": (f"{CONFIG}    value: Callable[[], int] = print\n", "not a plugin", "that no file can hold"),
}

WRAPPERS = ("--kind", "wrapper")  # probing all kinds would import torch each time
POLICIES = ("--kind", "policy")  # the core has one


def states(installation, *options, **environment):
    done = installation.maze("plugins", "list", "--json", *options, **environment)
    assert done.returncode == 0, done.stderr
    return {(info["name"], info["distribution"]): info for info in json.loads(done.stdout)}


def test_every_kind_of_breakage_is_listed_and_nothing_else_suffers(installation):
    for name, (source, _, _) in BROKEN.items():
        installation.add(name, source, f"wrapper:{name} = {{module}}:Good")
    installation.add("fine")
    found = states(installation, *WRAPPERS) | states(installation, *POLICIES)
    for name, (_, state, detail) in BROKEN.items():
        assert found[name, name]["state"] == state, found[name, name]
        assert detail in found[name, name]["detail"]
        assert found[name, name]["version"] == "1.0"
    assert found["good", "fine"]["state"] == "ok"
    assert found["good", "fine"]["summary"] == "Does nothing, well."
    assert found["random", "maze-core"]["state"] == "ok"
    listing = installation.maze("plugins", "list", *WRAPPERS).stdout
    assert all(f"wrapper {name} ({name} 1.0): {state}" in listing for name, (_, state, _) in BROKEN.items())


@pytest.mark.parametrize("name", ["missing-import", "exits", "base-exception", "no-class", "no-config"])
def test_using_a_broken_plugin_names_it_in_one_line(installation, name):
    source, _, detail = BROKEN[name]
    installation.add(name, source, f"env:{name} = {{module}}:Good")
    done = installation.maze("envs", "check", "X", "--env-source", name)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert f"env plugin '{name}' of {name} 1.0" in line
    assert detail in line
    with_traceback = installation.maze("envs", "check", "X", "--env-source", name, MAZE_DEBUG="1")
    assert "Traceback" in with_traceback.stderr


def test_other_commands_work_beside_broken_plugins(installation):
    for name, (source, _, _) in BROKEN.items():
        installation.add(name, source, f"algorithm:{name} = {{module}}:Good")
    for arguments in (["--help"], ["--version"], ["plugins", "info", "console"]):
        done = installation.maze(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    done = installation.maze("train", "--help")
    assert done.returncode == 0, done.stderr
    assert "no-config" in done.stdout
    done = installation.maze("train", "exits", "--env", "X")
    assert done.returncode == 2
    assert "SystemExit: goodbye" in done.stderr


def test_two_distributions_that_claim_one_name(installation):
    installation.add("first-dist")
    installation.add("other", entry="wrapper:lonely = {module}:Good")  # keeps the two claims apart
    installation.add("zweite-dist", version="2.5")
    found = states(installation, *WRAPPERS)
    for owner in ("first-dist", "zweite-dist"):
        assert found["good", owner]["state"] == "clash"
        assert "first-dist 1.0 and zweite-dist 2.5" in found["good", owner]["detail"]
    code = "from maze_core.plugins.discovery import load; load('wrapper', 'good')"
    error = installation.python(code).stderr
    assert "PluginError: wrapper plugin 'good' is claimed by first-dist 1.0 and zweite-dist 2.5" in error


def test_a_clash_with_the_very_same_target_is_still_a_clash(installation):
    installation.add("first-dist")
    installation.add("second-dist", entry="wrapper:good = first_dist:Good")
    assert states(installation, *WRAPPERS)["good", "second-dist"]["state"] == "clash"


def test_a_plugin_for_another_core_version(installation):
    installation.add("futuristic", requires=["numpy", "maze_core>=99"])
    installation.add("fine", requires=["maze-core>=0.1", "maze-core>=99; extra == 'later'"])
    code = "from maze_core.plugins.discovery import load; load('wrapper', 'good')"
    assert states(installation, *WRAPPERS)["good", "futuristic"]["state"] == "clash"
    off = {"MAZE_DISABLE_PLUGINS": "fine"}
    assert states(installation, *WRAPPERS, **off)["good", "futuristic"]["state"] == "incompatible"
    error = installation.python(code, **off).stderr
    assert "wrong version: it needs maze-core>=99" in error
    assert installation.python(code, MAZE_DISABLE_PLUGINS="futuristic").returncode == 0


@pytest.mark.parametrize("file", ["entry_points.txt", "METADATA"])
def test_files_that_are_no_text_break_nothing_else(installation, monkeypatch, file):
    installation.add("fine")
    installation.add("odd", entry="wrapper:odd = {module}:Good")
    path = installation.site / "odd-1.0.dist-info" / file
    path.write_bytes(path.read_bytes() + "# Jörg\n".encode("latin-1"))
    monkeypatch.syspath_prepend(str(installation.site))
    assert "good" in discovery.names("wrapper")
    assert (file == "METADATA") == ("odd" in discovery.names("wrapper"))
    assert (file == "METADATA") == (damaged() == "")


def test_a_condition_without_a_meaning_breaks_nothing(installation, monkeypatch):
    installation.add("odd", requires=["maze-core>=99; sys_platform ~= '1.x'"])
    monkeypatch.syspath_prepend(str(installation.site))
    assert discovery.load("wrapper", "good").__doc__ == "Does nothing, well."


@pytest.mark.parametrize("value", ["1 2:Good", "", ":Good", "odd:"])
def test_an_entry_point_that_names_nothing_is_shown(installation, monkeypatch, value):
    installation.add("odd", entry=f"wrapper:good = {value}")
    monkeypatch.syspath_prepend(str(installation.site))
    with pytest.raises(PluginError, match=r"its entry point is .*, not module:name"):
        discovery.load("wrapper", "good")


def test_a_distribution_that_claims_a_name_twice(installation, monkeypatch):
    installation.add("odd", entry="wrapper:good = {module}:Good\ngood = {module}:Good")
    monkeypatch.syspath_prepend(str(installation.site))
    with pytest.raises(PluginError, match=r"is claimed twice by odd 1.0: its author"):
        discovery.load("wrapper", "good")


def test_a_plugin_that_asks_at_import_does_not_wait_for_the_user(installation):
    installation.add("odd", "input('who? ')")
    code = "from maze_core.plugins import discovery as d, probe; print(probe.examine(d.claims('wrapper', 'good')))"
    environment = {**os.environ, "PYTHONPATH": str(installation.site)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert "EOFError" in process.stdout.readline()


def test_a_malformed_entry_point_file_of_a_stranger(installation):
    installation.add("mangled")
    (installation.site / "mangled-1.0.dist-info" / "entry_points.txt").write_text("[maze.wrappers]\nnonsense\n")
    done = installation.maze("plugins", "list", *POLICIES)
    assert done.returncode == 0
    assert "random" in done.stdout


def test_third_party_plugins_can_be_turned_off_but_not_the_core(installation):
    installation.add("fine")
    off = {"MAZE_DISABLE_PLUGINS": "good, random"}
    assert ("good", "fine") in states(installation, *WRAPPERS)
    assert ("good", "fine") not in states(installation, *WRAPPERS, **off)
    assert ("random", "maze-core") in states(installation, *POLICIES, **off)
    code = "from maze_core.plugins.discovery import load; load('wrapper', 'good')"
    assert "MAZE_DISABLE_PLUGINS turns it off" in installation.python(code, MAZE_DISABLE_PLUGINS="fine").stderr
