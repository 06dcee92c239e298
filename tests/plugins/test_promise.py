"""What bundled plugins import from the core is promised to all plugins."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from maze_devkit.promise import PROMISED

from maze_core.base.bundled import LIBRARIES
from tests.repository import folder_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "compatibility.md"
HOMES = {name: folder_of(name) for name in ("maze_core", *LIBRARIES, "maze_recordings")}
"""What plugins of this repository build on, and the folder of each."""
TOOLS = (
    "maze_compare",
    "maze_devkit",
    "maze_es",
    "maze_export",
    "maze_foreign_envs",
    "maze_jax",
    "maze_learners",
    "maze_minari",
    "maze_notebook",
    "maze_optuna",
    "maze_pettingzoo",
    "maze_pictures",
    "maze_profile",
    "maze_publish",
    "maze_ray",
    "maze_recordings",
    "maze_rllib",
    "maze_sweep",
    "maze_video",
    "maze_serve",
    "maze_view",
    "maze_wrappers",
    "maze_zoo",
)
"""Commands, tools, bridges to other frameworks and further learners do a part of the core's work and are released
together with it, as libraries are; the promise is for what others write."""
PLUGINS = sorted(path.name for path in (ROOT / "plugins").iterdir() if path.name not in {*TOOLS, *LIBRARIES})


def promised():
    homes = "|".join(HOMES)
    return set(re.findall(rf"`((?:{homes})(?:\.\w+)*)`", PAGE.read_text(encoding="utf-8")))


def imported(plugin):
    """The modules of others that a plugin imports, with the file that does."""
    for file in sorted((ROOT / "plugins" / plugin / plugin).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (home := HOMES.get((node.module or "").partition(".")[0])):
                for each in node.names:
                    path = home.joinpath(*f"{node.module}.{each.name}".split("."))
                    is_module = path.is_dir() or path.with_suffix(".py").is_file()
                    yield f"{node.module}.{each.name}" if is_module else node.module, file.name


@pytest.mark.parametrize("plugin", PLUGINS)
def test_bundled_plugins_build_on_nothing_but_what_is_promised(plugin):
    found = list(imported(plugin))
    assert found
    names = promised() - {"maze_core"}
    missing = {(module, file) for module, file in found if module != "maze_core" and not _covered(module, names)}
    assert not missing, f"not in {PAGE.name}: {sorted(missing)}"


def _covered(module, names):
    parts = module.split(".")
    return any(".".join(parts[:n]) in names for n in range(1, len(parts) + 1))


def test_what_is_promised_is_there():
    missing = []
    for name in promised() - {"maze_core", "maze_core.__all__"}:
        path = HOMES[name.partition(".")[0]].joinpath(*name.split("."))
        if not (path.is_dir() or path.with_suffix(".py").is_file()):
            missing.append(name)
    assert not missing


def test_the_kit_checks_what_the_page_lists():
    listed = re.findall(r"^- `([\w.]+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(PROMISED)
