"""Whoever asks for a plugin that is published with the core, and is not installed, is told what to install."""

import json
import sys
import tomllib
import zipfile
from importlib import metadata

import pytest
from typer.testing import CliRunner

from maze_core.base.bundled import _PUBLISHED, LIBRARIES, packages, publisher
from maze_core.base.errors import ConfigError, PluginError
from maze_core.cli.main import app
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install, installs_missing
from tests.repository import ROOT, files, folders


def test_the_table_holds_what_the_distributions_say():
    kinds = {group: kind for kind, group in discovery.KINDS.items()}
    declared = {}
    for path in files("pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for group, names in project.get("entry-points", {}).items():
            declared |= {(kinds[group], name): project["name"] for name in names if group in kinds}
    assert len(declared) > 30
    assert declared == {each: publisher(*each) for each in declared}
    told = {(kind, name) for each in _PUBLISHED.values() for kind, names in each.items() for name in names.split()}
    assert told == set(declared)


def test_errors_in_any_published_package_are_not_blamed_on_strangers():
    assert packages() == {"maze_core", *(path.parent.name for path in files("pyproject.toml"))}


def test_each_distribution_stands_in_the_contracts_of_imports():
    """Libraries, by their keyword, in the order of layers; plugins in the list of those that import no other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    order, apart, _, plugins = contracts["contracts"]
    layers = {name for layer in order["layers"] for name in layer.split(" | ")} - {"maze_core"}
    keywords = {folder.name: _project(folder)["keywords"] for folder in folders()}
    assert layers == {name for name, words in keywords.items() if "maze-library" in words} == set(LIBRARIES)
    assert set(plugins["modules"]) == set(apart["forbidden_modules"]) == keywords.keys() - layers
    assert set(apart["source_modules"]) == layers | {"maze_core"}
    assert set(contracts["root_packages"]) == keywords.keys() | {"maze_core"}


def _project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def nothing_but_the_core(monkeypatch):
    core = tuple(each for each in discovery.declared() if each.distribution == discovery.CORE)
    monkeypatch.setattr(discovery, "declared", lambda: core)


@pytest.mark.parametrize(
    ("kind", "name", "distribution"),
    [
        ("algorithm", "rllib-ppo", "maze-rllib"),
        ("algorithm", "PPO", "maze-ppo"),
        ("runner", "ray", "maze-ray"),
        ("wrapper", "stack", "maze-wrappers"),
        ("searcher", "optuna", "maze-optuna"),
    ],
)
def test_what_is_missing_is_named(nothing_but_the_core, kind, name, distribution):
    with pytest.raises(ConfigError, match=f"unknown {kind} {name!r}") as caught:
        discovery.load(kind, name)
    assert how_to_install(distribution) in str(caught.value)
    assert "Did you mean" not in str(caught.value)


def test_from_the_command_line(nothing_but_the_core):
    for command in (["train", "rllib-ppo", "--env", "CartPole-v1"], ["plugins", "info", "rllib-ppo"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2
        assert (
            f"It comes with maze-rllib, which is not installed. Next: {how_to_install('maze-rllib')}" in result.stderr
        )


def test_a_name_of_another_kind_and_one_of_nobody_are_only_unknown(nothing_but_the_core):
    for kind, name in [("runner", "ppo"), ("algorithm", "ppu"), ("model", "stack")]:
        with pytest.raises(ConfigError) as caught:
            discovery.load(kind, name)
        assert "pip install" not in str(caught.value)


def test_of_an_installed_distribution_nobody_says_that_it_is_missing(monkeypatch):
    """As with a version of it that does not have the name yet."""
    monkeypatch.setattr(discovery, "publisher", lambda kind, name: "maze-ppo")
    with pytest.raises(ConfigError) as caught:
        discovery.load("algorithm", "ppo2")
    assert "pip install" not in str(caught.value)
    assert "Did you mean appo or ppo or trpo?" in str(caught.value)


class Came:
    """A core that pip found somewhere."""

    def __init__(self, said):
        self.said = said

    def read_text(self, name):
        return self.said if name == "direct_url.json" else None


def test_what_installs_it_is_found_where_the_core_came_from(tmp_path, monkeypatch):
    files, folder = tmp_path / "my files", tmp_path / "maze"
    wheel = files / "maze_ppo-0.10.0-py3-none-any.whl"
    for each in (files / "maze_ppo-0.9.0-py3-none-any.whl", wheel, folder / "plugins" / "maze_ppo" / "pyproject.toml"):
        each.parent.mkdir(parents=True, exist_ok=True)
        each.touch()
    url = (files / "maze_core-0.1.0-py3-none-any.whl").as_uri()
    editable = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    for said, expected in (
        (json.dumps({"url": url, "archive_info": {}}), f"pip install '{wheel}'"),
        (json.dumps(editable), f"pip install -e {folder}/plugins/maze_ppo"),
        (json.dumps({**editable, "dir_info": {}}), f"pip install {folder}/plugins/maze_ppo"),
        (json.dumps({"url": "https://x.org/maze_core-0.1.0.whl", "archive_info": {}}), "pip install maze-ppo"),
        (None, "pip install maze-ppo"),
        ("[]", "pip install maze-ppo"),
        (json.dumps({**editable, "dir_info": None}), "pip install maze-ppo"),
        ("{", "pip install maze-ppo"),
    ):
        monkeypatch.setattr(metadata, "distribution", lambda name, said=said: Came(said))
        assert how_to_install("maze-ppo") == expected
    monkeypatch.setattr(metadata, "distribution", lambda name: Came(json.dumps(editable)))
    assert how_to_install("maze-rllib") == "pip install maze-rllib"  # what is not there
    monkeypatch.chdir(folder)
    assert how_to_install("maze-ppo") == "pip install -e ./plugins/maze_ppo"


def test_what_it_needs_is_installed_with_it(tmp_path, monkeypatch):
    """Libraries of libraries, too; but nothing that is installed, and nothing of others."""
    needed = {"maze-sac": ["maze-offpolicy>=0.1", "numpy"], "maze-offpolicy": ["maze-core>=0.1", "maze-recordings<2"]}
    needed["maze-recordings"] = ["maze-offpolicy", 'maze-td3; extra == "more"']
    needed["maze-td3"] = []  # it is there, but only an extra asks for it
    for name in needed:
        kind = "libraries" if name == "maze-offpolicy" else "plugins"
        package = name.replace("-", "_")
        folder = tmp_path / kind / package
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(f"[project]\ndependencies = {json.dumps(needed[name])}\n")
        with zipfile.ZipFile(tmp_path / f"{package}-0.1.0-py3-none-any.whl", "w") as wheel:
            lines = "\n".join(f"Requires-Dist: {each}" for each in needed[name])
            wheel.writestr(f"{package}-0.1.0.dist-info/METADATA", f"Name: {name}\n{lines}\n")
    installed = {"maze-core"}

    def distribution(name):
        if name in installed:
            return Came(json.dumps(said))
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    monkeypatch.chdir(tmp_path)
    said = {"url": tmp_path.as_uri(), "dir_info": {}}
    folders = "./plugins/maze_sac ./libraries/maze_offpolicy ./plugins/maze_recordings"
    assert how_to_install("maze-sac") == f"pip install {folders}"
    said = {"url": (tmp_path / "maze_core-0.1.0-py3-none-any.whl").as_uri(), "archive_info": {}}
    files = " ".join(f"./maze_{each}-0.1.0-py3-none-any.whl" for each in ("sac", "offpolicy", "recordings"))
    assert how_to_install("maze-sac") == f"pip install {files}"
    installed |= {"maze-recordings", "maze-offpolicy"}
    assert how_to_install("maze-sac") == "pip install ./maze_sac-0.1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ModuleNotFoundError("x", name="maze_planning"), "Next: pip install maze-planning"),
        (ModuleNotFoundError("x", name="maze_core.base.gone"), ""),
        (ModuleNotFoundError("x", name="maze_planning.planner"), "Next: pip install maze-planning"),
        (ModuleNotFoundError("x", name="numpy"), ""),
        (ImportError("x", name="maze_planning"), ""),
    ],
)
def test_a_plugin_without_its_library_says_what_to_install(monkeypatch, error, advice):
    def distribution(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    assert installs_missing(error).strip() == advice


def test_a_library_that_is_not_installed_is_named_by_the_plugin_that_lacks_it(monkeypatch):
    claim = next(each for each in discovery.declared() if each.name == "alphazero")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("maze_search", "maze_planning")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "maze_planning", None)
    found = metadata.distribution

    def distribution(name):
        if name == "maze-planning":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    with pytest.raises(PluginError, match=r"'alphazero' .* cannot be imported: .*\nNext: pip install -e .*maze_pl"):
        discovery.import_claim(claim)
