"""Every command on terminals of every width: whole keys, whole words, and nothing that ends in dots."""

from __future__ import annotations

import re
from functools import cache

import pytest
import typer
from maze_sweep.plan import make_plan, write_plan
from maze_sweep.trials import new_trial, write_trials
from rich.cells import cell_len
from typer.testing import CliRunner

from maze_core import RunContext
from maze_core.cli import group, output
from maze_core.cli.main import app
from maze_core.cli.table_layout import lay_out
from maze_core.plugins import probe
from tests.conftest import QUICK

WIDTHS = (60, 80, 120, 200)


def paths() -> list[tuple[str, ...]]:
    """The commands, each with those below it."""
    found = []
    for name in typer.main.get_command(app).list_commands(None):
        found.append((name,))
        real = group.command(name)
        found += [(name, below) for below in getattr(real, "commands", {})]
    return found


@pytest.mark.usefixtures("known_plugins")
@pytest.mark.parametrize("width", [60, 80])
def test_help_is_whole(width):
    for path in [(), *paths(), ("train", "ppo")]:
        shown = helped(path, width)
        assert not re.search(r"\w\.\.\.$", shown, re.MULTILINE), (path, shown)
        unbroken = re.sub(r"(?<!\S)([^\s-]\S*-)\n\s+", r"\1", shown)  # a word may break behind its hyphen
        assert unbroken.split() == words_of(path), path
        long = [line for line in shown.splitlines() if cell_len(line) > width and not _is_example(line, width)]
        assert not long, (path, long)
        assert "Commands:" in shown or "\n  Examples:\n" in shown, path


def _is_example(line: str, width: int) -> bool:
    """Return True for what is typed as it stands; on 80 characters each example fits."""
    return width < 80 and line.startswith("    maze ")


@cache
def words_of(path: tuple[str, ...]) -> list[str]:
    """Return the words of a help that no terminal breaks."""
    return helped(path, 1000).split()


def helped(path: tuple[str, ...], width: int) -> str:
    result = CliRunner().invoke(app, [*path, "-h"], terminal_width=width)
    assert result.exit_code == 0, result.output
    return result.output


TABLES = (
    *("plugins list ppo", "plugins info ppo", "plugins info sac", "eval run --episodes 1"),
    *("rollout run --episodes 1 --record demos", "trajectories info demos", "runs list .", "runs compare run other"),
    *("profile ppo --env CartPole-v1 --seconds 0.1", "sweep --dir swept --rank"),
    *(pytest.param(each, marks=pytest.mark.slow) for each in ("plugins list", "plugins check random")),
)
"""Commands that print tables, in an order in which each finds what it reads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("widths")
    plan = make_plan({"algorithm": "ppo", "env": "CartPole-v1", "over": {"algorithm.lr": [1e-3, 1e-4]}})
    (place / "swept").mkdir()
    write_plan(place / "swept", plan)
    write_trials(place / "swept", [new_trial(place / "swept", k, {"algorithm.lr": 1e-3}, plan) for k in range(2)])
    for name, lr in (("run", 1e-3), ("other", 1e-4), ("swept/runs/t000-s0", 1e-3)):
        overrides = {**QUICK, "algorithm.lr": lr, "callbacks.console": None}
        with RunContext("CartPole-v1", "ppo", overrides=overrides, run_dir=place / name) as context:
            context.train()
    return place


@pytest.mark.parametrize("width", WIDTHS)
def test_facts_are_wrapped_between_words(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True, raising=False)
    lines = [
        "a space of texts, which Maze does not support",
        "To drop it: --wrappers drop --set wrappers.0.keys=[mission]",
    ]
    output.say_fact("problems", lines, 20)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("problems:           a space of texts")
    assert all(line.startswith(" " * 20) for line in shown[1:])
    assert max(map(len, shown)) <= width
    assert " ".join(" ".join(shown).split()) == f"problems: {' '.join(lines)}"


@pytest.mark.usefixtures("known_plugins")
@pytest.mark.parametrize("command", TABLES)
def test_tables_are_whole(folder, monkeypatch, command):
    tables = []
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(probe, "examine", lambda claims: [("ok", "")] * len(claims))  # in a process that imports all
    monkeypatch.setattr(output, "print_table", lambda *table, **more: tables.append((table, more)))
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
    assert tables
    for (headers, rows, *least), more in tables:
        keys = [row[0] for row in (headers, *rows)]
        widest = max(map(cell_len, keys))
        longest = max(cell_len(word) for row in rows for cell in row for word in cell.split() or [""])
        for width in WIDTHS:
            lines, missing = lay_out(headers, rows, width, *least, **more)
            assert all(any(line.startswith(key) for line in lines) for key in keys), (width, lines)
            assert max(map(cell_len, lines)) <= max(width, widest + 2 + longest), (width, lines)
            shown = set(" ".join(lines).split())
            for number, header in enumerate(headers):
                cut = {word for row in rows for word in row[number].split()} - shown
                short = more.get("paths") and number == len(headers) - 1  # the ends of paths
                assert header in missing or short or not cut, (width, header, cut)
