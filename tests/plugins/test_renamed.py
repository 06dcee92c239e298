"""An import of an earlier name fails with what to write instead."""

from pkgutil import resolve_name

import pytest

from maze_core.collect.agents.planner import Decision
from maze_core.data.replay.buffer import ReplayBuffer
from maze_core.plugins.discovery import describe
from maze_core.plugins.renamed import _RENAMED, instead


def failed(statement):
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    return caught.value


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("from maze_core.testing import check", "maze_devkit of the distribution maze-devkit"),
        ("import maze_core.sweep.plan", "maze_sweep of the distribution maze-sweep"),
        ("from maze_core import run_sweep", "maze_sweep.api.run_sweep of the distribution maze-sweep"),
        ("from maze_core.training.seeding import draw_seed", "maze_core.base.seeding now"),
        (
            "from maze_core.training.process_state import signal_handlers_kept",
            "maze_core.base.interruption.signal_handlers",
        ),
        ("from maze_core.data.rollout import Sampler", "maze_core.collect.rollouts.sampler.Sampler now"),
    ],
)
def test_an_import_of_an_earlier_name_says_what_it_is_now(statement, new):
    error = failed(statement)
    assert new in instead(error)
    assert describe(error).endswith(instead(error))


def test_earlier_attributes_and_arguments_say_what_they_are_called_now():
    with pytest.raises(AttributeError) as attribute:
        Decision(0, None, 0, None).lane  # noqa: B018
    assert describe(attribute.value).endswith("; lane of Decision is agent_row now")
    with pytest.raises(TypeError) as argument:
        ReplayBuffer(None, None, 1, lanes=2)
    assert describe(argument.value).endswith("; lanes of ReplayBuffer is agent_rows now")
    for error in (AttributeError("no such name"), TypeError("another"), ValueError()):
        assert instead(error) == ""


@pytest.mark.parametrize("statement", ["import maze_core.nothing", "from maze_core import nothing", "import no_such"])
def test_of_other_names_nothing_is_said(statement):
    assert instead(failed(statement)) == ""


def test_where_a_folder_is_gone_the_statement_says_which_module_was_meant(monkeypatch):
    monkeypatch.setitem(_RENAMED, "maze_core.gone.loop", "maze_core.base.averages")
    monkeypatch.setitem(_RENAMED, "maze_core.gone.loop.Moved", "maze_core.base.errors.MazeError")
    monkeypatch.setitem(_RENAMED, "maze_core.gone.folder", "maze_core.base.files")
    assert instead(failed("import maze_core.gone.loop")) == "; maze_core.gone.loop is maze_core.base.averages now"
    assert instead(failed("from maze_core.gone.loop import Kept")).endswith("maze_core.base.averages now")
    assert instead(failed("from maze_core.gone.loop import Kept, Moved")).endswith(
        "maze_core.base.errors.MazeError now"
    )
    assert instead(failed("from maze_core.gone import folder")).endswith("maze_core.base.files now")
    assert instead(failed("def act():\n    from maze_core.gone.loop import Kept\nact()")).endswith("averages now")
    assert instead(failed("import maze_core.gone.other")) == ""


def test_what_is_said_is_there():
    for new in _RENAMED.values():
        assert resolve_name(new) is not None, new
