"""What left the core is found where it is now, or an import says where that is."""

import importlib
import pkgutil
import sys

import pytest

import maze_core
from maze_core import moved


@pytest.mark.parametrize("name", moved.NAMES)
def test_moved_names_can_still_be_imported_from_the_core(name):
    assert getattr(maze_core, name) is getattr(importlib.import_module(moved.NAMES[name]), name)


@pytest.mark.parametrize("name", moved.NAMES)
def test_without_their_distribution_an_import_says_what_to_install(name, monkeypatch):
    package = moved.NAMES[name].partition(".")[0]
    for each in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"maze_core.{name} is {package}\.\S+ now. Next: pip install maze-"):
        getattr(maze_core, name)


@pytest.mark.parametrize("old", moved._MODULES)
@pytest.mark.parametrize("below", ["", ".anything"])
def test_an_import_of_a_moved_module_says_where_it_is(old, below):
    importlib.import_module(moved._MODULES[old])
    with pytest.raises(ImportError, match=rf"^{old} is {moved._MODULES[old]} now: import from there"):
        importlib.import_module(old + below)


def test_every_signpost_is_in_the_table():
    found = {
        f"maze_core.{each.name}"
        for each in pkgutil.iter_modules(maze_core.__path__)
        if each.ispkg and "moved_module" in (importlib.util.find_spec(f"maze_core.{each.name}").loader.get_data(
            f"{maze_core.__path__[0]}/{each.name}/__init__.py").decode())
    }  # fmt: skip
    assert found == {old for old in moved._MODULES if old.count(".") == 1}


@pytest.mark.parametrize("old", moved._MEMBERS)
def test_an_import_of_a_moved_member_says_where_it_is(old):
    module, _, name = old.rpartition(".")
    with pytest.raises(ImportError, match=f"^{old} is {moved._MEMBERS[old]} now"):
        getattr(importlib.import_module(module), name)
    home, _, member = moved._MEMBERS[old].rpartition(".")
    assert hasattr(importlib.import_module(home), member)
    assert not hasattr(importlib.import_module(module), "nothing")
