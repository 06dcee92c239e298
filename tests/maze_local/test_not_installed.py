"""Where the distribution is not installed, what needs its processes says what to install, and all else works."""

import subprocess
import sys

import pytest
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install

_WITHOUT = "import sys; sys.modules['maze_local'] = None\nfrom maze_core.cli.main import main; main()"
"""The command line, where any import of the package fails."""


@pytest.fixture
def advice(monkeypatch, known_plugins):
    """The distribution is not installed; the end of an error that says so."""
    for found in ("declared", "declarations"):
        others = [each for each in getattr(discovery, found)() if each.distribution != "maze-local"]
        monkeypatch.setattr(discovery, found, lambda others=others: others)
    return f"It comes with maze-local, which is not installed. Next: {how_to_install('maze-local')}"


def test_ppo_trains_and_is_evaluated_without_it(tmp_path):
    few = (
        "--num-envs=2",
        "--n-rollout-steps=16",
        "--batch-size=16",
        "--epoch-length=1",
        "--set=callbacks.tensorboard=null",
    )
    words = ["train", "ppo", "--env=CartPole-v1", "--preset=none", "--steps=32", *few, f"--run-dir={tmp_path / 'run'}"]
    subprocess.run([sys.executable, "-c", _WITHOUT, *words], check=True)
    assert (tmp_path / "run" / "metrics.jsonl").is_file()


def test_its_runner_is_refused(quick, advice):
    with pytest.raises(ConfigError) as refusal:
        _ = quick(SeededWalk, "ppo", runner="local").run
    assert str(refusal.value).splitlines() == ["runner.name: unknown runner 'local'", advice]


@pytest.mark.parametrize(("algorithm", "number"), [("impala", "algorithm.num_actors"), ("es", "algorithm.n_workers")])
def test_workers_of_the_runner_dev_need_no_processes(quick, advice, algorithm, number):
    with quick(SeededWalk, algorithm, {number: 2, "algorithm.epoch_length": 1, "algorithm.n_epochs": 1}) as context:
        assert context.train().epochs == 1


def test_further_learners_of_the_runner_dev_are_its_processes(quick, advice):
    with pytest.raises(ConfigError) as refusal:
        _ = quick(SeededWalk, "ppo", {"learners": 2}).run
    assert str(refusal.value).splitlines() == ["runner: unknown runner 'local'", advice]
