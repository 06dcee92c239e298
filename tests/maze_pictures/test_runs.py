"""A run draws its network where something that draws is installed, and does without it elsewhere."""

import dataclasses
from importlib.metadata import EntryPoint

import pytest

from maze_core.plugins import discovery


@pytest.fixture
def drawn_by(monkeypatch):
    """`drawn_by(value)`: the entry point that draws; None: there is none."""

    def change(value):
        others = [each for each in discovery.declared() if each.kind != "maze.pictures"]
        (ours,) = discovery.entries("maze.pictures", "network")
        if value is not None:
            others.append(dataclasses.replace(ours, entry_point=EntryPoint("network", value, "maze.pictures")))
        monkeypatch.setattr(discovery, "declared", lambda: tuple(others))

    return change


def test_the_picture_is_in_the_run_directory(quick):
    context = quick()
    context.train()
    assert (context.run_dir / "network.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("value", [None, "nowhere_at_all:draw", "math:sqrt"])
def test_a_run_needs_no_picture(drawn_by, quick, capsys, value):
    drawn_by(value)
    context = quick()
    context.train()
    assert not (context.run_dir / "network.svg").exists()
    assert (context.run_dir / "run.json").exists()
    said = capsys.readouterr().err
    assert ("could not draw the network" in said) == (value is not None)


def test_a_run_that_two_distributions_would_draw_trains_without_a_picture(monkeypatch, quick, capsys):
    (ours,) = discovery.entries("maze.pictures", "network")
    both = (*discovery.declared(), dataclasses.replace(ours, distribution="maze-other"))
    monkeypatch.setattr(discovery, "declared", lambda: both)
    context = quick()
    context.train()
    assert not (context.run_dir / "network.svg").exists()
    assert "could not draw the network" in (said := capsys.readouterr().err)
    assert "maze.pictures entry 'network' is claimed by maze-other" in said
