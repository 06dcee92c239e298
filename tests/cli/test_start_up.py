"""Imports of commands that need torch: not searched by garbage collection, which goes on afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from maze_core.cli.group import lasting_imports

PROGRAM = """
import gc, sys
from maze_core.cli.group import lasting_imports
{before}
with lasting_imports():
    print(gc.isenabled())
    sys.modules["torch"] = None
print(gc.isenabled(), gc.get_freeze_count() > 0)
with lasting_imports():
    print(gc.isenabled())
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [("", ["False", "True True", "True"]), ("gc.disable()", ["False", "False False", "False"])],
    ids=["usually", "switched off before"],
)
def test_collection_pauses_once_and_goes_on(before, expected):
    program = [sys.executable, "-c", PROGRAM.format(before=before)]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == expected


def import_what_is_missing():
    assert not gc.isenabled()
    raise ImportError


def test_collection_goes_on_after_an_import_that_fails(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(gc, "freeze", lambda: None)  # the objects of other tests are to be collected
    with pytest.raises(ImportError), lasting_imports():
        import_what_is_missing()
    assert gc.isenabled()
