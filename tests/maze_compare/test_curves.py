"""Learning curves against numbers worked out by hand."""

from __future__ import annotations

import builtins
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from maze_compare.curves import curves
from maze_compare.groups import group
from maze_compare.records import find_records

from maze_core.base.errors import ConfigError


@pytest.fixture
def groups(make_run):
    """Two seeds of a slow learner, the second ends early; one of a quick one."""
    make_run("a", [0.0, 10.0, 20.0], seed=0)
    make_run("b", [4.0, 12.0], seed=1)
    last = make_run("c", [50.0, None, 70.0], lr=0.1)
    return group(find_records([last.parent], print))


def test_mean_and_band_over_the_seeds(groups):
    slow, quick = curves(groups)
    assert (slow.label, quick.label) == ("lr=0.001 (2)", "lr=0.1 (1)")
    assert slow.x.tolist() == [100, 200]  # as far as both got
    assert slow.mean.tolist() == [2.0, 11.0]
    # The standard deviation of two runs is larger than their distance from the mean: the band ends at the runs.
    assert (slow.low.tolist(), slow.high.tolist()) == ([0.0, 10.0], [4.0, 12.0])
    assert slow.runs[0][0].tolist() == [100, 200, 300]  # the run itself goes on
    assert quick.x.tolist() == [100, 300]  # an epoch without the metric is left out
    assert quick.low.tolist() == quick.high.tolist() == [50.0, 70.0]


def test_the_band_is_a_standard_deviation_within_the_range_of_the_runs(make_run):
    last = [make_run(f"r{seed}", [value], seed=seed) for seed, value in enumerate([0.0, 5.0, 5.0, 10.0, 500.0])][-1]
    (curve,) = curves(group(find_records([last.parent], print)))
    deviation = np.std([0, 5, 5, 10, 500], ddof=1)
    assert curve.low.tolist() == [0.0]
    np.testing.assert_allclose(curve.high - curve.mean, deviation)


def test_seeds_with_other_steps_are_interpolated(make_run):
    make_run("a", [0.0, 10.0], seed=0, every=100)
    last = make_run("b", [5.0, 5.0, 5.0], seed=1, every=50)
    (curve,) = curves(group(find_records([last.parent], print)))
    assert curve.x.tolist() == [100, 150]
    assert curve.mean.tolist() == [2.5, 5.0]


def test_other_axes_and_smoothing(groups):
    slow, _ = curves(groups, axis="seconds", smooth=2)
    assert slow.x.tolist() == [0.5, 1.0]
    assert slow.runs[0][1].tolist() == [0.0, 5.0, 15.0]


@pytest.mark.parametrize("smooth", [1, 2, 3, 1000])
def test_smoothing_loses_no_small_value_after_a_huge_one(make_run, smooth):
    values = [3.0, 1e20, 1.0, 2.0, 4.0]
    last = make_run("a", values)
    (curve,) = curves(group(find_records([last], print)), smooth=smooth)
    means = [np.mean(values[max(0, end - smooth) : end]) for end in range(1, len(values) + 1)]
    np.testing.assert_allclose(curve.mean, means)


def test_a_metric_that_nobody_has(groups):
    with pytest.raises(ConfigError, match="did you mean eval/return_mean"):
        curves(groups, "eval/return_men")


def test_runs_that_have_no_place_in_common(make_run, tmp_path):
    make_run("a", [1.0], seed=0, every=100)
    last = make_run("b", [1.0], seed=1, every=50)
    (curve,) = curves(group(find_records([last.parent], print)))
    assert curve.x.size == curve.mean.size == 0
    assert len(curve.runs) == 2


def test_long_runs_are_thinned_out(make_run):
    make_run("a", [float(i) for i in range(1000)], seed=0)
    last = make_run("b", [float(i) for i in range(1000)], seed=2)
    (curve,) = curves(group(find_records([last.parent], print)))
    assert curve.x.size == 400
    np.testing.assert_allclose(curve.mean, curve.x / 100 - 1)


@pytest.mark.parametrize("name", ["deep/down/curves.png", "curves.svg"])
def test_pictures(groups, tmp_path, name):
    pytest.importorskip("matplotlib")
    from maze_compare.picture import draw

    draw(curves(groups), "eval/return_mean", "env_steps", tmp_path / name, "Slow and quick")
    start = (tmp_path / name).read_bytes()[:300]
    assert b"\x89PNG" in start or b"<svg" in start or b"<?xml" in start


@pytest.mark.parametrize("name", ["long" * 20_000, r"$\frac{", "$_$ and $"])
def test_names_are_drawn_as_they_are(make_run, tmp_path, name):
    """They may come from anyone; a very long one took a minute, and one with a dollar was no formula."""
    pytest.importorskip("matplotlib")
    from maze_compare.picture import draw

    make_run("a", [1.0], algorithm=name)
    lines = curves(group(find_records([make_run("b", [2.0]).parent], print)))
    draw(lines, name, "env_steps", tmp_path / "curves.svg", name, {name: 1.0})
    assert (tmp_path / "curves.svg").stat().st_size < 1_000_000


def test_a_matplotlibrc_lets_no_program_run(groups, tmp_path, monkeypatch):
    """That of the current folder may come from others."""
    matplotlib = pytest.importorskip("matplotlib")
    from maze_compare.picture import draw

    monkeypatch.setenv("PATH", str(tmp_path))
    with matplotlib.rc_context({"text.usetex": True}):
        draw(curves(groups), "eval/return_mean", "env_steps", tmp_path / "curves.png", "Slow")


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_settings_of_the_current_folder_are_not_read(groups, tmp_path, monkeypatch, make):
    """matplotlib would read them when it is imported, whatever they are: a pipe would keep it waiting."""
    from maze_compare.picture import draw

    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    make(tmp_path / "matplotlibrc")
    with pytest.raises(ConfigError, match=r"matplotlib would take settings from matplotlibrc.*\nNext: move that file"):
        draw(curves(groups), "eval/return_mean", "env_steps", tmp_path / "curves.png", "Slow")


def test_a_picture_of_a_kind_that_there_is_not(groups, tmp_path):
    pytest.importorskip("matplotlib")
    from maze_compare.picture import draw

    with pytest.raises(ConfigError, match=r"(?s)cannot write.*curves\.png") as caught:
        draw(curves(groups), "eval/return_mean", "env_steps", tmp_path / "a.mp3")
    assert caught.value.__cause__ is None, "the command line would print matplotlib's traceback"


def test_without_matplotlib_the_message_says_how_to_install_it(groups, tmp_path, monkeypatch):
    from maze_compare.picture import draw

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return real(name, *args, **kwargs)

    lines = curves(groups)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match="pip install matplotlib"):
        draw(lines, "eval/return_mean", "env_steps", tmp_path / "a.png")
