"""`max_time` ends training with everything saved, and a resumed run goes on as an unbroken one."""

import pytest
from typer.testing import CliRunner

from maze_core import ConfigError
from maze_core.cli.main import app
from maze_core.plugins.config.run import RunConfig
from maze_core.run import progress

SECONDS = {5: 5.0, 0.5: 0.5, "90s": 90.0, "1.5 m": 90.0, "2h": 7200.0, "1d": 86_400.0}
MORE = {"algorithm.n_epochs": 2}


@pytest.fixture
def clock(monkeypatch):
    """Each look at the clock takes a second."""
    now = [0.0]

    def tick():
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(progress.time, "perf_counter", tick)


@pytest.mark.parametrize("given", SECONDS)
def test_a_time_is_seconds_or_a_text(quick, given):
    assert quick("CartPole-v1", "a2c", {"max_time": given}).config.max_time == SECONDS[given]


@pytest.mark.parametrize("given", [0, -1, "2x", "h", "", "1h30m", float("nan"), float("inf"), [], True, "-1h"])
def test_what_is_no_time_is_refused(quick, given):
    with pytest.raises(ConfigError, match="max_time"):
        quick("CartPole-v1", "a2c", {"max_time": given})


@pytest.mark.parametrize(("env", "algorithm", "values"), [
    ("CartPole-v1", "ppo", {}),
    ("Pendulum-v1", "sac", {"algorithm.initial_buffer_size": 20, "algorithm.batch_size": 8}),
])  # fmt: skip
def test_parts_of_a_run_end_as_the_whole(quick, clock, whole_state, assert_same, env, algorithm, values):
    whole, parts = (quick(env, algorithm, MORE | values | more) for more in ({}, {"max_time": 1e-9}))
    whole.train()
    first, folder = parts.train(), parts.run_dir
    assert (first.outcome, first.updates, first.reason[:24]) == ("stopped", 1, "it has trained for 0:00:")
    assert first.final_evaluation
    for updates in range(2, 4):
        again = quick(env, algorithm, MORE | values | {"max_time": 1e-9}).resume(folder)
        assert (again.outcome, again.updates) == ("stopped", updates)
    last = quick(env, algorithm, MORE | values | {"max_time": None}).resume(folder)
    assert last.outcome == "finished"
    assert_same(whole_state(folder), whole_state(whole.run_dir))


def test_the_command_takes_it_and_says_how_to_go_on(tmp_path):
    words = (
        "train a2c --env CartPole-v1 --seed 1 --preset none --set callbacks.tensorboard=null --max-time 0.2s --run-dir"
    )
    done = CliRunner().invoke(app, [*words.split(), str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "stopped  it has trained for 0:00:00, as long as max_time lets it" in done.output
    assert f"maze resume {tmp_path / 'run'}" in done.output
    assert RunConfig.model_fields["max_time"].description
