"""A browser for all tests here, a small run, and pages of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.run.context import RunContext
from tests.conftest import QUICK
from tests.maze_compare.made_runs import make_run
from tests.maze_view import browser as browsers

__all__ = ["make_run"]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: Any) -> Iterator[browsers.Browser]:
    """A headless browser with the network off."""
    program = browsers.find()
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    browser = browsers.Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def cart(tmp_path_factory: Any) -> Path:
    """A run of a few updates on CartPole."""
    folder: Path = tmp_path_factory.mktemp("cart") / "run"
    with RunContext(
        "CartPole-v1", "ppo", overrides=QUICK, preset="none", seed=1, silent=True, run_dir=folder
    ) as context:
        context.train()
    return folder


@pytest.fixture
def view(tmp_path: Path) -> Any:
    """`view(*arguments)`: call `maze view`; return the file and the data in it, or its output if it fails."""

    def call(*arguments: Any, code: int = 0) -> Any:
        file = tmp_path / "view.html"
        result = CliRunner().invoke(app, ["view", *map(str, arguments), "--no-open", "--out", str(file)])
        assert result.exit_code == code, result.output
        return (file, data_of(file)) if code == 0 else result.output

    return call


def data_of(file: Path) -> Any:
    """The data in a page."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', file.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])
