"""The exams that others set: what is logged of a run, and how it is scored, where their packages are installed."""

import importlib
import math
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """`script(name)`: a benchmark as a module, which imports its neighbours."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


def test_bsuite_logs_the_environment_that_trains_up_to_the_last_episode(script, tmp_path):
    pytest.importorskip("bsuite")
    exam = script("bsuite_run").Exam("umbrella_length/0", tmp_path, seed=1)
    exam.episodes = 3
    training, evaluating = exam.environment(), exam.environment()
    for env in (training, evaluating, training, training, training, training, evaluating):
        env.reset()
        env.step(0)
        assert exam.is_finished == (training.played == 3)
    assert (training.played, evaluating.played) == (3, 0)
    assert [line.split(",")[:2] for line in exam.log.splitlines()] == [
        ["steps", "episode"],
        ["1", "1"],
        ["2", "2"],
        ["3", "3"],
    ]


def log(**last):
    """A log of bsuite: 10,000 episodes whose last line has these numbers."""
    columns = {"steps": 100_000, "episode": 10_000, "total_return": 0.0, "episode_len": 10, "episode_return": 0.0}
    line = {**columns, **last}
    return f"{','.join(line)}\n{','.join(str(value) for value in line.values())}\n"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what bsuite calls of pandas
def test_bsuite_scores_the_experiments_that_were_played_by_its_own_code(script):
    pytest.importorskip("bsuite")
    scores = script("bsuite_scores")
    runs = {
        "deep_sea/0": {"log": log(total_bad_episodes=10_000, denoised_return=0.0)},
        "deep_sea/2": {"log": log(total_bad_episodes=100, denoised_return=0.0)},
        "catch/0": {"log": log(total_regret=4_000.0)},
    }
    found = scores.by_experiment(runs).set_index("bsuite_env")["score"]
    assert found.to_dict() == pytest.approx({"deep_sea": 0.5, "catch": 0.75})
    lines = {line[0]: line for line in scores.cells_of({"ppo": {"runs": runs}})}
    assert lines["deep_sea"][:4] == ["deep_sea", "10,000", "21", "0.50 (2)"]
    assert lines["mnist"][3:] == ["-", "-", "-"]
    tags = {line[0]: line[1:] for line in scores.tag_cells({"ppo": {"runs": runs}})}
    assert tags["exploration"] == ["0.50 (1)", "-", "-"]
    assert tags["noise"] == ["-", "-", "-"]


def test_popgym_takes_the_best_epoch_of_those_with_episodes(script):
    pytest.importorskip("popgym")
    scores = script("popgym_scores")
    assert scores.mmer({"returns": [math.nan, -0.5, 0.25, 0.125]}) == 0.25
    assert scores.score({"1": {"returns": [0.5]}, "2": {"returns": [-1.0, 0.25]}}) == "0.38 (0.50, 0.25)"
    assert scores.score({}) == "-"
