"""Runs logged with wandb's off-line mode, read back from the file that `wandb sync` uploads."""

import json
import os
import shutil
import struct
from importlib.util import find_spec

import pytest
from maze_wandb.logger import SETTINGS, Wandb, WandbConfig
from typer.testing import CliRunner

from maze_core import ConfigError
from maze_core.cli.main import app
from tests.killed import SMALL, STEPS, arguments, train_until_killed

pytestmark = pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed: pip install maze-wandb")

BLOCK, HEADER = 32768, struct.Struct("<IHB")


def records(path):
    """Yield the records of a .wandb file: LevelDB's log format behind a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2 as pb

    data, position, parts = path.read_bytes(), 7, b""
    while position + HEADER.size <= len(data):
        if BLOCK - position % BLOCK < HEADER.size:
            position += BLOCK - position % BLOCK
            continue
        _, length, kind = HEADER.unpack_from(data, position)
        parts += data[position + HEADER.size : position + HEADER.size + length]
        position += HEADER.size + length
        if kind in (1, 4):  # whole, or its last part
            yield pb.Record.FromString(parts)
            parts = b""


def items(update):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in update}


class Logged:
    """What the offline runs of a run directory would upload."""

    def __init__(self, run_dir):
        self.folders = sorted((run_dir / "wandb").glob("offline-run-*"))
        self.ids, self.points, self.config, self.summary, self.artifacts = set(), [], {}, {}, []
        for file in (run_dir / "wandb").glob("offline-run-*/*.wandb"):
            for record in records(file):
                self._add(record)

    def _add(self, record):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            self.ids.add(record.run.run_id)
            self.config |= items(record.run.config.update)
        elif kind == "history":
            self.points.append(items(record.history.item))
        elif kind == "summary":
            self.summary |= items(record.summary.update)
        elif kind in ("artifact", "request"):
            artifact = record.artifact if kind == "artifact" else record.request.log_artifact.artifact
            if artifact.name:
                self.artifacts.append(artifact)

    @property
    def curve(self):
        return [(point["_step"], point["epoch"]) for point in self.points]


def written(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def maze(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result


def assert_equal_to_metrics(points, run_dir):
    for point, line in zip(points, written(run_dir), strict=True):
        finite = {key: value for key, value in line.items() if value is not None}
        for key in finite.keys() - {"env_steps", "updates", "seconds"}:
            assert point[key] == pytest.approx(finite[key]), key


def test_a_run_is_written_for_a_later_sync_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run_dir = tmp_path / "run"
    maze(*arguments(run_dir, {"callbacks.wandb.tags": "[small]"}))
    logged = Logged(run_dir)
    assert logged.ids == {json.loads((run_dir / "wandb.json").read_text())["id"]}
    assert logged.curve == list(zip(STEPS, range(1, 6), strict=True))
    assert_equal_to_metrics(logged.points, run_dir)
    assert logged.config["algorithm.num_envs"] == SMALL["algorithm.num_envs"]
    assert logged.config["env.id"] == "CartPole-v1"
    assert logged.summary["outcome"] == "finished"
    assert logged.summary["final/return_mean"] > 0
    [artifact] = logged.artifacts
    paths = {entry.path for entry in artifact.manifest.contents}
    assert {"config.yaml", "run.json", "checkpoints/best/model.safetensors"} <= paths
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_a_killed_run_continues_under_its_id_without_a_gap_or_a_double_point(tmp_path):
    run_dir = tmp_path / "run"
    train_until_killed(run_dir, {"callbacks.wandb.project": "p"}, "after")
    before = json.loads((run_dir / "wandb.json").read_text())
    maze("resume", run_dir)
    logged = Logged(run_dir)
    assert logged.ids == {before["id"]}
    assert len(logged.folders) == 1
    assert logged.curve == list(zip(STEPS, range(1, 6), strict=True))
    assert_equal_to_metrics(logged.points, run_dir)


def test_a_finished_run_that_trains_on_has_each_point_once(tmp_path):
    run_dir = tmp_path / "run"
    maze(*arguments(run_dir, {"callbacks.wandb.project": "p", "algorithm.n_epochs": 2}))
    maze("resume", run_dir, "--set", "algorithm.n_epochs=4")
    assert Logged(run_dir).curve == list(zip(STEPS[:4], range(1, 5), strict=True))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("mode", ["offline", "online"])
def test_nothing_is_set_by_files_of_the_current_folder(tmp_path, monkeypatch, name, mode):
    """A server, folders to write to, values to log: links and pipes with these names are not opened either."""
    monkeypatch.chdir(tmp_path)
    Wandb(WandbConfig(mode="offline"))
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path) if mode == "online" else path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=f"wandb would take settings from {name} of the current folder"):
        Wandb(WandbConfig(mode=mode))


def test_a_run_of_someone_else_leads_wandb_nowhere(tmp_path, monkeypatch):
    """By the suffix of a folder, by a link in the place of the folder that wandb prefers, or in its cache."""
    run_dir, away = tmp_path / "run", tmp_path / "away"
    away.mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(f"[core]\n\tfsmonitor = touch {away}/git\n\tpager = touch {away}/git\n")
    maze(*arguments(run_dir, {"callbacks.wandb.project": "p", "algorithm.n_epochs": 1}))
    (run_dir / ".wandb").symlink_to(away)
    shutil.rmtree(run_dir / "wandb" / "cache")
    (run_dir / "wandb" / "cache").symlink_to(away)
    maze("resume", run_dir, "--set", "algorithm.n_epochs=2")
    assert list(away.iterdir()) == []
    assert Logged(run_dir).curve == list(zip(STEPS[:2], range(1, 3), strict=True))


def test_a_server_that_is_away_does_not_stop_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    values = {"callbacks.wandb.mode": "online", "callbacks.wandb.timeout": 1, "algorithm.n_epochs": 2}
    result = maze(*arguments(tmp_path / "run", values))
    assert "wandb" in result.stderr
    assert "no longer called" in result.stderr
    assert len(written(tmp_path / "run")) == 2
