"""A run directory of a stranger's: links lead nowhere, pipes and devices hang nothing, and each is one line."""

import os
import shutil

import numpy as np
import pytest
from gymnasium import spaces
from maze_recordings.loader import load_trajectories
from maze_recordings.writer import TrajectoryWriter
from typer.testing import CliRunner

from maze_core.base.errors import MazeError
from maze_core.cli.main import app
from maze_core.data.rollout import Trajectory
from maze_core.plugins.config.assembly import assemble
from maze_core.run import api

pytestmark = [pytest.mark.usefixtures("known_plugins"), pytest.mark.timeout(100)]

FEW = {"algorithm.n_epochs": 2, "evaluation.n_episodes": 1, "callbacks.console": None, "seed": 1}
SMALL = {
    "ppo": {"algorithm.epoch_length": 1, "algorithm.n_rollout_steps": 4, "algorithm.n_optimization_epochs": 2},
    "sac": {
        "algorithm.epoch_length": 2,
        "algorithm.initial_buffer_size": 20,
        "algorithm.replay_buffer_size": 100,
        "algorithm.batch_size": 8,
    },
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    for name, small in SMALL.items():
        api.train(assemble(name, "CartPole-v1", "none", flags=FEW | small), folder / name)
    return folder


@pytest.fixture
def maze(tmp_path, monkeypatch):
    """`maze(*arguments)`: the exit code and what was said, which is never a traceback."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
        return result.exit_code, result.output

    return invoke


def everything(folder):
    """All that is in a folder, with what the files hold and when they changed."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }


def resumed(run):
    return ["resume", run, "--set", "algorithm.n_epochs=3"]


def members(run):
    """The names of all files and folders of a run."""
    return sorted(str(path.relative_to(run)) for path in run.rglob("*"))


PLANTED = (
    ".run.json.0123abcd.new", ".config.yaml.0123abcd.new", ".network.svg.0123abcd.new", ".metrics.jsonl.0123abcd.new",
    "metrics.tmp", ".checkpoints.0123abcd.new", "checkpoints/.last.0123abcd.new", "checkpoints/.last.0123abcd.old",
    "checkpoints/.previous.0123abcd.new", "checkpoints/.best.0123abcd.new",
    "checkpoints/last/.manifest.json.0123abcd.new", "replay/000001.rows", "replay/000009.rows", "tensorboard/x",
)  # fmt: skip


@pytest.mark.parametrize("algorithm", SMALL)
def test_a_link_in_the_place_of_anything_leads_nowhere(trained, tmp_path, maze, algorithm):
    """It leads to what was there before, outside: if it were followed, training would go on, and change it."""
    source, run, outside = trained / algorithm, tmp_path / "run", tmp_path / "outside"
    shutil.copytree(source, outside)
    before = everything(outside)
    for name in members(source) if algorithm == "ppo" else ["replay", "replay/000001.rows"]:
        shutil.copytree(source, run)
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
        (run / name).symlink_to(outside / name)
        code, said = maze(*resumed(run))
        needed = name.startswith(("config", "run.json", "checkpoints/last", ".lock", "metrics", "replay"))
        assert code == (2 if needed or name == "checkpoints" else 0), (name, said)
        assert code == 0 or "is a link" in said, (name, said)
        assert everything(outside) == before, name
        shutil.rmtree(run)


def test_links_planted_under_the_names_of_what_is_to_come_are_not_followed(trained, tmp_path, maze):
    outside = tmp_path / "outside"
    shutil.copytree(trained / "ppo", outside / "run")
    (outside / "file").write_text("mine")
    before = everything(outside)
    for target in ("file", "run/checkpoints/last", "run", "nothing"):
        run = tmp_path / f"run-{target.replace('/', '-')}"
        shutil.copytree(trained / "sac", run)
        for name in PLANTED:
            (run / name).unlink(missing_ok=True)
            (run / name).symlink_to(outside / target)
        code, said = maze(*resumed(run))
        assert (code, "is a link" in said) == (2, True), said
        (run / "replay/000001.rows").unlink()
        shutil.copyfile(trained / "sac/replay/000001.rows", run / "replay/000001.rows")
        code, said = maze(*resumed(run))
        assert code == 0, said
        assert everything(outside) == before


def test_what_a_broken_off_write_left_goes_with_the_next_one(trained, tmp_path, maze):
    run = tmp_path / "run"
    shutil.copytree(trained / "ppo", run)
    names = (".run.json.0123abcd.new", ".config.yaml.89abcdef.new", ".metrics.jsonl.01234567.new")
    for name in (*names, "checkpoints/.last.0123abcd.new", "checkpoints/.last.89abcdef.new"):
        (run / name).write_text("torn")
    (run / "checkpoints/.last.01234567.old").mkdir()
    assert maze(*resumed(run))[0] == 0
    assert [name for name in members(run) if "/." in name or name.startswith(".")] == [".lock"]


def pipe(path):
    os.mkfifo(path)


def sparse(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def device(path):
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root may make devices")


def folder(path):
    path.mkdir()


KINDS = (pipe, sparse, device, folder)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_in_the_place_of_one_is_refused_at_once(trained, tmp_path, maze, kind):
    """Neither read to its end, nor waited for."""
    source, run = trained / "ppo", tmp_path / "runs" / "run"
    files = [name for name in members(source) if (source / name).is_file() and not name.startswith("tensorboard/")]
    commands = (resumed(run), ["eval", run, "-n", "1"], ["runs", "compare", run])
    # Each kind begins with another one: together they try two commands on every file.
    for number, name in [*enumerate(files)][KINDS.index(kind) % 2 :: 2]:
        shutil.copytree(source, run)
        (run / name).unlink()
        kind(run / name)
        command = commands[(number // 2 + KINDS.index(kind)) % 3]
        code, said = maze(*command)
        assert code in (0, 2), (name, command, said)
        if name.startswith(NEEDED[command[0]]) and not (kind is sparse and name == ".lock"):
            assert code == 2, (name, command, said)
            assert len(said.splitlines()) <= 3, said
        shutil.rmtree(run)


NEEDED = {
    "resume": ("config.yaml", "run.json", ".lock", "metrics.jsonl", "checkpoints/last/"),
    "eval": ("config.yaml", "run.json", "checkpoints/best/"),
    "runs": ("config.yaml", "run.json", "metrics.jsonl"),
}
"""What a command cannot do without."""


@pytest.mark.parametrize("kind", KINDS)
def test_configurations_and_plans_that_are_no_files(tmp_path, maze, kind):
    kind(tmp_path / "odd.yaml")
    assert maze("train", "ppo", "--config", "odd.yaml")[0] == 2
    assert maze("train", "ppo", "--env", "CartPole-v1", "--init-from", "odd.yaml")[0] == 2
    (tmp_path / "sweep").mkdir()
    for name in ("sweep.yaml", "trials.json"):
        kind(tmp_path / "sweep" / name)
        assert maze("sweep", "--dir", "sweep")[0] == 2


def test_a_configuration_that_the_user_names_may_be_a_link_and_no_device(trained, tmp_path, maze):
    (tmp_path / "mine.yaml").symlink_to(trained / "ppo" / "config.yaml")
    limits = ["--epochs", "1", "--run-dir", tmp_path / "run"]
    assert maze("train", "ppo", "--config", "mine.yaml", "--preset", "none", *limits)[0] == 0
    reading, writing = os.pipe()
    for path in ("/dev/zero", f"/dev/fd/{reading}"):
        code, said = maze("train", "ppo", "--config", path)
        assert code == 2
        assert said == f"error: {path}: cannot be read: it is not a regular file\n"
    os.close(reading)
    os.close(writing)


def test_a_run_directory_may_itself_be_reached_through_a_link(trained, tmp_path, maze):
    shutil.copytree(trained / "ppo", tmp_path / "real")
    (tmp_path / "run").symlink_to(tmp_path / "real")
    assert maze(*resumed(tmp_path / "run"))[0] == 0
    assert maze("eval", tmp_path / "run", "-n", "1")[0] == 0


@pytest.fixture
def recording(tmp_path):
    box = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Dict({"c": spaces.Discrete(3)})})
    with TrajectoryWriter(tmp_path / "demos", box, spaces.Discrete(2)) as writer:
        obs = {"a": np.zeros((3, 2), np.float32), "b/c": np.zeros(3, np.int64)}
        actions = {"action": np.zeros(2, np.int64)}
        writer.add(Trajectory(obs, actions, np.zeros(2, np.float32), True, False, 0.0, 1))
    return tmp_path / "demos"


@pytest.mark.parametrize("kind", [*KINDS, "link", "link to a device"])
def test_recordings_are_read_from_files_of_their_own(recording, tmp_path, maze, kind):
    assert len(load_trajectories(recording)) == 1
    whole = tmp_path / "whole"
    shutil.copytree(recording, whole)
    for name in members(recording):
        path = recording / name
        if path.is_dir() and not isinstance(kind, str):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if isinstance(kind, str):
            path.symlink_to(whole / name if kind == "link" else "/dev/zero")
        else:
            kind(path)
        with pytest.raises(MazeError):
            load_trajectories(recording)
        code, said = maze("trajectories", "info", recording)
        assert code == 2, name
        assert len(said.splitlines()) <= 2, said
        shutil.rmtree(recording)
        shutil.copytree(whole, recording)


def test_the_folders_of_a_sweep_lead_nowhere(tmp_path, maze):
    outside = tmp_path / "outside"
    outside.mkdir()
    options = ["--env", "CartPole-v1", "--over", "algorithm.lr=0.1", "--dir", "sweep"]
    for name in ("runs", "logs"):
        (tmp_path / "sweep").mkdir()
        (tmp_path / "sweep" / name).symlink_to(outside)
        code, said = maze("sweep", "ppo", *options)
        assert code == 2, said
        assert "is a link" in said
        assert not list(outside.iterdir())
        shutil.rmtree(tmp_path / "sweep")
