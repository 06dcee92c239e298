"""The faults that `benchmarks/mutants.py` plants can be planted in the code of today."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("mutants_by_room")


def test_each_fault_has_its_place_and_changes_it(planted):
    for mutant in planted.MUTANTS:
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        changed = mutant.applied(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutant.name


def test_each_room_has_tests(planted):
    assert {mutant.room for mutant in planted.MUTANTS} <= planted.ROOMS.keys()
    assert [file for files in planted.ROOMS.values() for file in files if not (ROOT / file).is_file()] == []
