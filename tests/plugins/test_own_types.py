"""Plugins with types of their own pass `mypy --strict`."""

from pathlib import Path

import pytest


@pytest.mark.slow
def test_policies_and_distributions_of_ones_own_need_no_casts(monkeypatch):
    api = pytest.importorskip("mypy.api")
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    # The cache of the repository, where there is one: the core is not looked at again.
    said, errors, _ = api.run(["--strict", str(root / "tests" / "plugins" / "own_types.py")])
    assert said.startswith("Success"), said + errors
