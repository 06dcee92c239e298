"""The searcher `optuna`: what it keeps, what it goes on with, and that it finds what is good."""

from __future__ import annotations

import random
import statistics

import pytest

optuna = pytest.importorskip("optuna")

from maze_sweep.searchers.base import Search  # noqa: E402
from maze_sweep.searchers.space import parse_space  # noqa: E402

from maze_core.base.errors import ConfigError  # noqa: E402
from maze_core.plugins import discovery  # noqa: E402

SPACE = parse_space({"x": "-4.0..4.0", "lr": "1e-5..1e-1:log", "n": "1..8", "k": [[1, 2], "b", None]})


def searcher(folder, trials=12, maximize=True, seed=0, **parameters):
    plugin = discovery.load("searcher", "optuna")
    built = plugin(plugin.Config(name="optuna", **parameters))
    assert built.setup(Search(SPACE, seed, trials, maximize, folder)) == trials
    return built


def loss(point):
    return (point["x"] - 1) ** 2 + (0 if point["k"] == "b" else 5)


def go_on(built, numbers):
    """Ask for trials and tell their value, one after the other."""
    points = []
    for number in numbers:
        points.append(built.ask(number))
        built.tell(number, points[-1], -loss(points[-1]))
    return points


def test_points_lie_in_the_space(tmp_path):
    for point in go_on(searcher(tmp_path), range(12)):
        assert -4 <= point["x"] <= 4
        assert 1e-5 <= point["lr"] <= 1e-1
        assert point["n"] in range(1, 9)
        assert isinstance(point["n"], int)
        assert point["k"] in ([1, 2], "b", None)


def test_a_sweep_that_was_broken_off_tries_the_same_points(tmp_path):
    for name in ("whole", "parts", "other"):
        (tmp_path / name).mkdir()
    whole = go_on(searcher(tmp_path / "whole", n_startup_trials=4), range(12))
    first = searcher(tmp_path / "parts", n_startup_trials=4)
    parts = go_on(first, range(5))
    asked = first.ask(5)  # killed before its value is known
    again = searcher(tmp_path / "parts", n_startup_trials=4)
    assert again.ask(5) == asked
    for number, point in enumerate(parts):
        again.tell(number, point, 123.0)  # told twice: the first time counts
    assert [*parts, *go_on(again, range(5, 12))] == whole
    assert whole != go_on(searcher(tmp_path / "other", n_startup_trials=4, seed=1), range(12))


def test_a_trial_that_was_killed_as_it_was_asked_for_is_completed(tmp_path, monkeypatch):
    first = searcher(tmp_path)
    real, calls = optuna.Trial.suggest_int, []

    def dies(*args, **kwargs):
        calls.append(args)
        raise KeyboardInterrupt

    monkeypatch.setattr(optuna.Trial, "suggest_int", dies)
    with pytest.raises(KeyboardInterrupt):
        first.ask(0)
    monkeypatch.setattr(optuna.Trial, "suggest_int", real)
    (half,) = optuna.load_study(study_name="sweep", storage=first.study._study._storage).trials
    point = searcher(tmp_path).ask(0)
    assert calls
    assert (point["x"], point["lr"]) == (half.params["x"], half.params["lr"])
    assert set(point) == set(SPACE)
    monkeypatch.setattr(optuna.Trial, "set_user_attr", dies)
    with pytest.raises(KeyboardInterrupt):
        first.ask(1)
    states = [each.state.name for each in searcher(tmp_path).study._study.trials]
    assert states == ["RUNNING", "FAIL"]  # the second has no number: nobody will ever run it


def test_a_line_that_was_torn_by_a_kill_is_dropped(tmp_path):
    points = go_on(searcher(tmp_path), range(3))
    journal = tmp_path / "optuna.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 4, "work')
    again = searcher(tmp_path)
    assert [again.ask(number) for number in range(3)] == points
    again.ask(3)
    assert journal.read_bytes().startswith(whole)
    assert searcher(tmp_path).ask(3) == again.ask(3)


@pytest.mark.parametrize("maximize", [True, False])
def test_it_searches_where_good_points_are(tmp_path, maximize):
    """Half of its later points come from the best twelfth of the space; of random ones few do."""
    built = searcher(tmp_path, trials=40, maximize=maximize)
    points = []
    for number in range(40):
        points.append(built.ask(number))
        built.tell(number, points[-1], -loss(points[-1]) if maximize else loss(points[-1]))
    found = statistics.median(loss(point) for point in points[20:])
    draw = random.Random(0)
    by_chance = statistics.median(
        loss({"x": draw.uniform(-4, 4), "k": draw.choice(["a", "b", "c"])}) for _ in range(1000)
    )
    assert found < 1 < by_chance


def test_failed_trials_do_not_mislead(tmp_path):
    built = searcher(tmp_path, n_startup_trials=1)
    for number in range(4):
        built.tell(number, built.ask(number), None)
    assert [each.state.name for each in built.study._study.trials] == ["FAIL"] * 4
    assert built.ask(4)


def test_the_median_pruner_breaks_off_what_is_worse(tmp_path):
    built = searcher(tmp_path, pruner="median", pruner_startup_trials=2, pruner_warmup_epochs=2)
    for number, level in enumerate([10.0, 12.0, 14.0]):
        built.ask(number)
        assert not any(built.prune(number, epoch, level * epoch) for epoch in range(1, 6))
        built.tell(number, {}, level)
    built.ask(3)
    assert [built.prune(3, epoch, 1.0 * epoch) for epoch in (1, 2)] == [False, False]  # the first epochs are free
    assert not built.prune(3, 2, -50.0)  # heard twice, as after a resume: the first time counts
    assert built.prune(3, 3, 3.0)
    built.tell(3, {}, None)
    assert built.study._study.trials[3].state.name == "PRUNED"
    # The sweep was killed before it could note that: it asks again after the next epoch.
    again = searcher(tmp_path, pruner="median", pruner_startup_trials=2, pruner_warmup_epochs=2)
    assert again.prune(3, 4, 100.0)
    assert not again.prune(0, 6, -100.0)  # complete


def test_nothing_is_pruned_unless_asked_for(tmp_path):
    built = searcher(tmp_path)
    built.ask(0)
    assert not built.prune(0, 1, -1e9)


def test_it_needs_a_number_of_trials(tmp_path):
    plugin = discovery.load("searcher", "optuna")
    with pytest.raises(ConfigError, match="--trials 20"):
        plugin(plugin.Config(name="optuna")).setup(Search(SPACE, 0, None, True, tmp_path))


def test_optuna_speaks_as_before_once_it_is_closed(tmp_path):
    before = optuna.logging.get_verbosity()
    built = searcher(tmp_path)
    assert optuna.logging.get_verbosity() == optuna.logging.WARNING
    built.close()
    built.close()
    assert optuna.logging.get_verbosity() == before


@pytest.mark.parametrize("line", ["xxx", "[" * 100_000, "1", "null", "[]", '{"op_code": 99}', '{"op_code": 4}'])
def test_a_damaged_journal_is_named(tmp_path, line):
    go_on(searcher(tmp_path), range(2))
    with (tmp_path / "optuna.journal").open("a") as journal:
        journal.write(f"{line}\n")
    with pytest.raises(ConfigError, match=r"optuna\.journal is damaged"):
        searcher(tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [('"maze_trial":1', '"maze_trial":[1]'), ('"param_value_internal":', '"param_value_internal":7')],
)
def test_a_changed_journal_is_named(tmp_path, before, after):
    go_on(searcher(tmp_path), range(2))
    journal = tmp_path / "optuna.journal"
    assert before in journal.read_text()
    journal.write_text(journal.read_text().replace(before, after))
    with pytest.raises(ConfigError, match=r"optuna\.journal is damaged"):
        searcher(tmp_path).ask(0)


def test_a_journal_that_was_deleted_is_made_anew_from_the_trials(tmp_path):
    """What was learned is the same: so is the next point."""
    before = searcher(tmp_path, n_startup_trials=4)
    points = go_on(before, range(6))
    following = before.ask(6)
    (tmp_path / "optuna.journal").unlink()
    again = searcher(tmp_path, n_startup_trials=4)
    for number, point in enumerate(points):
        again.tell(number, point, -loss(point))
    assert [again.ask(number) for number in range(7)] == [*points, following]
