import shutil
import subprocess
import sys

import pytest

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery


def test_names_are_listed_without_importing_plugins():
    code = """
import sys
from maze_core.plugins import discovery
assert "console" in discovery.names("callback")
assert not [m for m in sys.modules if m.startswith(("torch", "maze_core.cli.", "maze_core.run.", "gymnasium"))]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean tensorboard") as caught:
        discovery.load("callback", "Tensorbord")
    assert caught.value.where == "callback"
    assert caught.value.exit_code == 2


def test_a_name_far_from_all_lists_what_is_installed():
    with pytest.raises(ConfigError, match=r"Installed: .*console.*`maze plugins list`"):
        discovery.load("callback", "zzzzzz")


@pytest.mark.parametrize("name", ["os.path", "os:system", "maze_core.cli.console:Console", "../x", ""])
def test_a_dotted_path_is_no_name(name):
    with pytest.raises(ConfigError, match="unknown callback"):
        discovery.load("callback", name)


def test_an_overlay_answers_first():
    class Mine:
        pass

    load = discovery.overlay({("callback", "mine"): Mine})
    assert load("callback", "mine") is Mine
    assert load("callback", "console").__name__ == "Console"


def test_what_is_installed_and_removed_meanwhile_counts(installation, monkeypatch):
    """As in a notebook, where `pip install` runs beside the kernel."""
    monkeypatch.syspath_prepend(str(installation.site))
    assert "good" not in discovery.names("wrapper")
    installation.add("maze-good")
    assert discovery.load("wrapper", "good").__doc__ == "Does nothing, well."
    shutil.rmtree(installation.site / "maze_good-1.0.dist-info")
    assert "good" not in discovery.names("wrapper")
