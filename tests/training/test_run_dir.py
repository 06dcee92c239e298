"""Run directories: one run each, whatever is started at the same time, and nothing half made."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace

import pytest
import yaml
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Workshop

from maze_core.base.errors import CheckpointError, ConfigError, MazeError
from maze_core.run.building import load_parameters
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from maze_core.run.saved import run_dir, saved_run
from maze_core.run.saved.found_run import find_run
from maze_core.run.saved.run_dir import create_run_dir, lock
from tests.assemblies import assembly_of
from tests.training.dying import dying


def at_once(count, function):
    """The results, or the errors, of a function called by many threads in the same instant."""
    barrier = Barrier(count)

    def call(number):
        barrier.wait()
        try:
            return function(number)
        except ConfigError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def test_runs_started_in_the_same_instant_have_directories_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = at_once(12, lambda _: create_run_dir(None, "ALE/Pong-v5", "ppo", 3))
    assert len(set(folders)) == 12
    for folder in folders:
        assert folder.is_dir()
        assert folder.parent == tmp_path / "runs" / "ALE-Pong-v5" / "ppo"
        assert "-s3" in folder.name
    assert Path.cwd() == tmp_path


def test_a_directory_that_is_named_goes_to_one_run_only(tmp_path, monkeypatch):
    """Even where all of them have looked into it before the first one writes."""
    barrier, original = Barrier(6), run_dir._first_in

    def first_in(folder):
        barrier.wait()
        return original(folder)

    monkeypatch.setattr(run_dir, "_first_in", first_in)
    results = at_once(6, lambda _: create_run_dir(tmp_path / "mine", "x", "ppo", 3))
    assert sum(isinstance(each, Path) for each in results) == 1
    assert all("is not empty" in str(each) for each in results if isinstance(each, ConfigError))


def test_a_directory_must_be_new_or_empty(quick, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert quick(run_dir=empty).run_dir == empty
    with pytest.raises(ConfigError, match=rf'is not empty\n.*RunContext.reopen\("{empty}"\)'):
        _ = quick(run_dir=empty).run
    file = tmp_path / "file"
    file.touch()
    for wrong in (file, file / "below"):
        with pytest.raises(ConfigError, match="run_dir: cannot create"):
            _ = quick(run_dir=wrong).run
    with pytest.raises(ConfigError, match="run_dir: cannot create /proc/nowhere"):
        _ = quick(run_dir="/proc/nowhere/run").run


def test_a_full_disk_is_noticed_before_anything_is_stepped(quick, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=10**9, free=1_000_000))
    context = quick(run_dir=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"the disk is full: 1\.0 MB free at .*, and this run needs \d\.\d MB"):
        _ = context.run
    assert not (tmp_path / "run").exists()


class Undeclared(SeededWalk):
    """Its observation is not what it declares."""

    def reset(self, **options):
        observation, info = super().reset(**options)
        return observation[:1], info


def test_a_first_observation_unlike_its_space_is_found_before_there_is_a_folder(quick, tmp_path):
    with pytest.raises(ConfigError, match="the first observation does not match") as caught:
        quick(Undeclared, run_dir=tmp_path / "run").train()
    assert not (tmp_path / "run").exists()
    assert "reopen" not in "".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


BEGUN = ([".lock"], [".lock", "network.svg"], [".lock", "network.svg", "config.yaml"],
         [".lock", ".config.yaml.0123abcd.new"], [".lock", "config.yaml", "run.json"],
         [".lock", "config.yaml", "run.json", "checkpoints/.last.0123abcd.new/model.safetensors"],
         [".lock", "config.yaml", "run.json", "replay/000001.rows"])  # fmt: skip


@pytest.mark.parametrize("there", BEGUN)
def test_a_run_that_was_killed_before_its_first_checkpoint_is_said_so(quick, tmp_path, there):
    """By those who would go on with it, and by who would begin another in the same folder."""
    whole = quick("CartPole-v1").run_dir
    begun = tmp_path / "begun"
    for name in there:
        (begun / name).parent.mkdir(parents=True, exist_ok=True)
        (begun / name).write_bytes((whole / name).read_bytes() if (whole / name).is_file() else b"")
    said = "a run without a checkpoint, which was killed before its first one or has just started"
    for use in (saved_run.resume, evaluate_saved, lambda path: load_parameters(None, path)):
        with pytest.raises(MazeError, match=f"{begun} holds {said}") as caught:
            use(begun)
        assert caught.value.exit_code == 2
        assert "Next: delete that folder and train again." in str(caught.value)
    with pytest.raises(ConfigError, match=f"{begun} is not empty: it holds {said}") as caught:
        create_run_dir(begun, "x", "ppo", 3)
    assert "maze resume" not in str(caught.value)


def test_every_moment_of_a_start_is_one_to_begin_anew_or_to_go_on_from(quick, tmp_path, monkeypatch):
    """Killed at each file operation: what train says next is true."""
    for at in count():
        run_dir = tmp_path / f"run-{at}"
        context = quick("CartPole-v1", run_dir=run_dir)
        with dying(at) as disk:
            _ = context.run
        try:
            create_run_dir(run_dir, "x", "ppo", 3)
            assert [path.name for path in run_dir.iterdir()] == [".lock"]
        except ConfigError as error:
            outcome = "maze resume" in str(error)
            if outcome:
                saved_run.reopen(run_dir, assembly=context._assembly).close()
            else:
                with pytest.raises(MazeError, match="it cannot be resumed"):
                    saved_run.reopen(run_dir, assembly=context._assembly)
        if not disk.dead:
            break
    assert at > 20
    assert outcome


def test_a_folder_of_other_things_is_no_run_to_go_on_with(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match="is not empty\nName a new folder") as caught:
        create_run_dir(tmp_path, "x", "ppo", 3)
    assert "resume" not in str(caught.value)
    with pytest.raises(ConfigError, match="is not a run directory"):
        find_run(tmp_path)


def test_what_was_in_the_folder_of_a_failed_start_stays(tmp_path):
    (tmp_path / "notes.txt").touch()
    for name in ("config.yaml", ".lock"):
        (tmp_path / name).touch()
    run_dir.discard_run_dir(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_run_describes_itself(quick):
    """Step 3 and 5 of the workflow: the configuration with the drawn seed, versions, a picture, parameter counts."""
    context = quick(Workshop, seed=None, model="template", overrides={"algorithm.lr": 0.01})
    config = assembly_of(context.run).load_run_config(context.run_dir / "config.yaml")
    assert config == context.config
    assert isinstance(config.seed, int)
    assert config.env.factory == "maze_devkit.probes:Workshop"
    text = (context.run_dir / "config.yaml").read_text()
    for name in ("python", "maze-core", "torch", "gymnasium", "maze-ppo"):
        assert f"# {name} " in text
    record = json.loads((context.run_dir / "run.json").read_text())
    assert record["parameters"]["total"] == sum(p.numel() for p in context.policy.parameters())
    assert record["versions"].keys() >= {"python", "maze-core", "torch", "gymnasium", "maze-ppo"}
    assert (context.run_dir / "network.svg").read_text().startswith("<svg")
    assert (context.run_dir / "checkpoints" / "last" / "model.safetensors").is_file()


def test_how_a_run_ended_is_kept(quick):
    context = quick()
    summary = context.train()
    record = json.loads((context.run_dir / "run.json").read_text())["summary"]
    assert (record["outcome"], record["epochs"], record["env_steps"]) == ("finished", 2, summary.env_steps)


def test_one_process_at_a_time(quick):
    context = quick(overrides={"algorithm.n_epochs": 3})
    context.train(1)
    before = (context.run_dir / "config.yaml").read_text()
    with lock(context.run_dir):
        for _ in range(2):
            with pytest.raises(ConfigError, match=f"another process is training in {context.run_dir}"):
                quick().resume(context.run_dir)
        with pytest.raises(ConfigError, match="another process"):
            context.train()
        with pytest.raises(ConfigError, match="another process"):
            saved_run.reopen(context.run_dir, ["algorithm.n_epochs=9"], assembly=assembly_of(context.run))
        assert (context.run_dir / "config.yaml").read_text() == before
        with closing(
            saved_run.open_policy(context.run_dir, assembly=assembly_of(context.run))
        ) as run:  # looking on is allowed
            assert run.epoch == 1
    assert context.train().epochs == 3


def test_no_run_is_said_so(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(ConfigError, match=f"{path} is not a run directory"):
            find_run(path)
        with pytest.raises(ConfigError, match="is not a run directory"):
            saved_run.resume(path)
        with pytest.raises(ConfigError, match="is not a run directory"):
            evaluate_saved(path)


def test_a_checkpoint_that_is_not_there(quick):
    context = quick()
    run_dir = context.run_dir
    context.close()
    with pytest.raises(CheckpointError, match="has no checkpoint best; it has last"):
        saved_run.reopen(run_dir, checkpoint="best", assembly=assembly_of(context.run))
    with pytest.raises(CheckpointError, match=r"has no checkpoint \.\./\.\./x"):
        saved_run.reopen(run_dir, checkpoint="../../x", assembly=assembly_of(context.run))


def test_a_configuration_that_was_edited_by_hand(quick):
    context = quick("CartPole-v1")
    path = context.run_dir / "config.yaml"
    context.close()
    data = yaml.safe_load(path.read_text())
    data["algorithm"]["lrr"] = 1
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError, match=r"algorithm\.lrr: unknown key; did you mean lr"):
        saved_run.resume(context.run_dir)
    path.write_text("algorithm: [")
    with pytest.raises(ConfigError, match=r"config\.yaml: not valid YAML, line 1"):
        saved_run.resume(context.run_dir)
