"""Runs logged with MLflow, read back with its client: from a store in a file, and from a server."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from importlib.util import find_spec
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app
from tests.attack.settings import names_a_victim
from tests.killed import SMALL, STEPS, arguments, train_until_killed

# Asked without importing it, which takes a second in every process that collects.
pytestmark = pytest.mark.skipif(find_spec("mlflow") is None, reason="MLflow is not installed: pip install maze-mlflow")


def maze(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result


INTERRUPTED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for command in ("pragma cache_size=1", "begin immediate", "create table more (x)"):
    database.execute(command)
database.executemany("insert into more values (?)", [("x" * 1000,)] * 100)
os._exit(9)
"""
"""Leaves the journal of a write behind, as a kill does."""


def resume(run_dir, uri, *words):
    """A store elsewhere needs the permission of the command that resumes."""
    return maze("resume", run_dir, "--set", f"callbacks.mlflow.tracking_uri={uri}", *words)


def written(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


class Logged:
    """What a store holds of a run directory's run."""

    def __init__(self, run_dir, uri=None):
        from mlflow.tracking import MlflowClient

        self.run_dir = run_dir
        self.client = MlflowClient(tracking_uri=uri or f"sqlite:///{run_dir}/mlflow/mlflow.db")
        self.id = json.loads((run_dir / "mlflow.json").read_text())["run_id"]
        self.run = self.client.get_run(self.id)

    def curve(self, name):
        return [(each.step, each.value) for each in self.client.get_metric_history(self.id, name)]

    def assert_whole(self, epochs=5):
        lines = written(self.run_dir)
        assert [line["epoch"] for line in lines] == list(range(1, epochs + 1))
        assert self.curve("epoch") == list(zip(STEPS[:epochs], range(1, epochs + 1), strict=True))
        names = {name for line in lines for name in line} - {"epoch", "env_steps", "updates", "seconds"}
        assert len(names) > 8
        for name in names:
            told = [(line["env_steps"], line[name]) for line in lines if line.get(name) is not None]
            curve = self.curve(name)
            assert sorted(step for step, _ in curve) == [step for step, _ in told], name
            assert dict(curve) == pytest.approx(dict(told)), name


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store in a file, shared: it takes seconds to make one."""
    from mlflow.tracking import MlflowClient

    folder = tmp_path_factory.mktemp("store")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    # Else MLflow puts artefacts into the working directory.
    MlflowClient(tracking_uri=uri).create_experiment("maze", artifact_location=(folder / "files").as_uri())
    return uri


def test_by_default_everything_is_in_the_run_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    run_dir = tmp_path / "run"
    maze(*arguments(run_dir, {"callbacks.mlflow.tags.team": "red"}))
    logged = Logged(run_dir)
    logged.assert_whole()
    assert logged.run.info.status == "FINISHED"
    assert logged.run.info.run_name == "run"
    assert logged.run.data.tags["team"] == "red"
    assert logged.run.data.params["algorithm.num_envs"] == str(SMALL["algorithm.num_envs"])
    assert logged.run.data.params["env.id"] == "CartPole-v1"
    assert [step for step, _ in logged.curve("final/return_mean")] == STEPS[-1:]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    best = run_dir / "mlflow" / "artifacts" / logged.id / "artifacts" / "best"
    mine = run_dir / "checkpoints" / "best" / "model.safetensors"
    assert (best / "checkpoints" / "best" / "model.safetensors").read_bytes() == mine.read_bytes()
    maze("eval", best, "--episodes", 1)


@pytest.mark.slow
def test_a_killed_run_continues_under_its_id_without_a_gap_or_a_double_point(tmp_path, store):
    run_dir = tmp_path / "run"
    train_until_killed(run_dir, {"callbacks.mlflow.tracking_uri": store}, "before")
    before = Logged(run_dir, store)
    assert before.run.info.status == "RUNNING"
    assert [step for step, _ in before.curve("epoch")] == STEPS[:2]
    resume(run_dir, store)
    after = Logged(run_dir, store)
    assert after.id == before.id
    after.assert_whole()
    assert after.run.info.status == "FINISHED"


def test_a_run_that_goes_on_keeps_its_parameters_and_tags_what_changed(tmp_path, store):
    run_dir = tmp_path / "run"
    maze(*arguments(run_dir, {"callbacks.mlflow.tracking_uri": store, "algorithm.n_epochs": 2}))
    resume(run_dir, store, "--set", "algorithm.n_epochs=4")
    logged = Logged(run_dir, store)
    logged.assert_whole(4)
    assert logged.run.data.params["algorithm.n_epochs"] == "2"
    assert logged.run.data.tags["algorithm.n_epochs"] == "4"
    assert [step for step, _ in logged.curve("final/return_mean")] == [STEPS[1], STEPS[3]]


def test_a_server_that_is_away_does_not_stop_a_run(tmp_path):
    values = {"callbacks.mlflow.tracking_uri": "http://127.0.0.1:9", "algorithm.n_epochs": 2}
    started = time.monotonic()
    result = maze(*arguments(tmp_path / "run", values))
    assert "mlflow" in result.stderr
    assert "no longer called" in result.stderr
    assert len(written(tmp_path / "run")) == 2
    assert time.monotonic() - started < 100  # MLflow's own patience is minutes


def test_what_a_run_logged_without_the_server_lacks_is_logged_when_it_resumes(tmp_path, store):
    run_dir = tmp_path / "run"
    values = {"callbacks.mlflow.tracking_uri": "http://127.0.0.1:9", "algorithm.n_epochs": 2}
    maze(*arguments(run_dir, values))
    assert not (run_dir / "mlflow.json").exists()
    resume(run_dir, store, "--set", "algorithm.n_epochs=3")
    Logged(run_dir, store).assert_whole(3)


@pytest.mark.slow
def test_a_database_of_someone_else_writes_no_artefact_elsewhere(tmp_path):
    run_dir = tmp_path / "run"
    maze(*arguments(run_dir, {"callbacks.mlflow.run_name": "r", "algorithm.n_epochs": 2}))
    away = (tmp_path / "away").as_uri()
    with closing(sqlite3.connect(run_dir / "mlflow" / "mlflow.db")) as database, database:
        database.execute("UPDATE runs SET artifact_uri = ?", (f"{away}/x",))
    result = maze("resume", run_dir, "--set", "algorithm.n_epochs=3")
    assert "for artefacts, which is not in this run: none is written" in result.stderr
    assert not (tmp_path / "away").exists()
    Logged(run_dir).assert_whole(3)
    (run_dir / "mlflow" / "mlflow.db").rename(tmp_path / "other.db")
    (run_dir / "mlflow" / "mlflow.db").symlink_to(tmp_path / "other.db")
    assert "links are not followed here" in maze("resume", run_dir, "--set", "algorithm.n_epochs=4").stderr


@pytest.mark.slow
def test_a_journal_of_someone_else_deletes_no_file(tmp_path, monkeypatch):
    """SQLite deletes the file that a journal names at its end. One without a name is rolled back."""
    monkeypatch.chdir(tmp_path)
    victim, database = tmp_path / "victim", tmp_path / "run" / "mlflow" / "mlflow.db"
    journal = database.with_name("mlflow.db-journal")
    victim.write_text("precious")
    maze(*arguments(tmp_path / "run", {"callbacks.mlflow.run_name": "r", "algorithm.n_epochs": 1}))
    for number, written in enumerate((lambda journal: journal, lambda journal: names_a_victim(journal, victim))):
        subprocess.run([sys.executable, "-c", INTERRUPTED, database], check=False)
        journal.write_bytes(written(journal.read_bytes()))
        result = CliRunner().invoke(app, ["resume", "run", "--set", f"algorithm.n_epochs={number + 2}"])
        assert ("SQLite would delete the file that it names" in result.stderr) == bool(number)
        assert (result.exit_code, journal.exists()) == (2 * number, bool(number))
    assert victim.read_text() == "precious"


@pytest.fixture
def server(tmp_path):
    pytest.importorskip("flask_cors", reason="MLflow's server is not installed: pip install mlflow")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{tmp_path}/server.db", "--artifacts-destination", f"{tmp_path}/kept"]
    variables = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **variables}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield _answering(process, f"http://127.0.0.1:{port}", tmp_path / "server.log")
    finally:
        os.killpg(process.pid, 15)
        process.wait(60)


def _answering(process, uri, log):
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urlopen(f"{uri}/health", timeout=5):
                return uri
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"MLflow's server does not start: {log.read_text()[-2000:]}")


@pytest.mark.slow
def test_a_server_receives_metrics_parameters_and_the_best_checkpoint(tmp_path, server):
    run_dir = tmp_path / "run"
    maze(*arguments(run_dir, {"callbacks.mlflow.tracking_uri": server, "algorithm.n_epochs": 2}))
    before = Logged(run_dir, server).id
    maze("resume", run_dir, "--set", "algorithm.n_epochs=3")  # the server is on this machine
    logged = Logged(run_dir, server)
    assert logged.id == before
    logged.assert_whole(3)
    assert logged.run.data.params["algorithm.name"] == "ppo"
    folder = logged.client.download_artifacts(logged.id, "best", str(tmp_path))
    maze("eval", folder, "--episodes", 1)
