"""Damage in any file of a run is found before it decides anything, and told in one line."""

import json
import re
import shutil
import warnings
from contextlib import closing
from itertools import count

import pytest
import torch
from typer.testing import CliRunner

from maze_core.base import files
from maze_core.base.plain_json import checksummed
from maze_core.base.saved_state import check_state
from maze_core.cli.main import app
from maze_core.plugins.config import checksummed_yaml
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.record import read_record, write_record
from maze_core.run import api
from maze_core.run.saved import run_record, saved_run
from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from tests.run_records import record_of

pytestmark = pytest.mark.usefixtures("known_plugins")

FLAGS = {
    "algorithm.n_epochs": 4,
    "algorithm.epoch_length": 1,
    "algorithm.n_rollout_steps": 4,
    "algorithm.n_optimization_epochs": 2,
    "evaluation.n_episodes": 1,
    "callbacks.console": None,
    "callbacks.tensorboard": None,
    "seed": 1,
    "model.normalize_observations": True,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    api.train(assemble("ppo", "CartPole-v1", "none", flags=FLAGS), folder)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def maze(*arguments):
    """The exit code, and the lines that were said."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output.splitlines()


def commands(run):
    small = {path: value for path, value in FLAGS.items() if path != "algorithm.n_epochs"}
    sets = [part for path, value in small.items() for part in ("--set", f"{path}={json.dumps(value)}")]
    new = ["--preset", "none", "--run-dir", run.parent / "new", "--epochs", "1", *sets]
    return {
        "resume": ["resume", run, "--set", "algorithm.n_epochs=5"],
        "eval": ["eval", run, "-n", "1"],
        "rollout": ["rollout", run, "-n", "1"],
        "init-from": ["train", "ppo", "--env", "CartPole-v1", "--init-from", run, *new],
        "show": ["config", "show", run],
        "compare": ["runs", "compare", run],
    }


@pytest.mark.parametrize("share", [0.2, 0.999])
def test_a_configuration_that_was_cut_anywhere_is_not_taken_up(run, share):
    path = run / "config.yaml"
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    for name, command in commands(run).items():
        code, said = maze(*command)
        assert code == 2, (name, said)
        assert any(f"{path}: is damaged, or was edited by hand" in line for line in said), (name, said)


def test_a_configuration_that_was_edited_by_hand_is_told_from_a_damaged_one_by_its_user(run):
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("n_epochs: 4", "n_epochs: 8"))
    code, said = maze(*commands(run)["resume"])
    assert code == 2
    assert f"To change a run: maze resume {run} --set PATH=VALUE. To use the file as it is: delete" in said[-1]
    path.write_text(path.read_text().partition("\n")[2])
    for name, command in commands(run).items():
        assert maze(*command)[0] == 0, name


@pytest.fixture(scope="module")
def trained_otherwise(tmp_path_factory):
    """The folder of a run with another seed."""
    other = tmp_path_factory.mktemp("trained") / "other"
    api.train(assemble("ppo", "CartPole-v1", "none", flags=FLAGS | {"seed": 2}), other)
    return other


def test_the_whole_configuration_of_another_run_is_not_taken_up(run, trained_otherwise):
    path = run / "config.yaml"
    shutil.copy(trained_otherwise / "config.yaml", path)
    for name, command in commands(run).items():
        code, said = maze(*command)
        assert code == 2, (name, said)
        assert any(f"{path}: is not the configuration of this run" in line for line in said), (name, said)
    path.write_text(path.read_text().partition("\n")[2])  # which says that the file is meant
    assert maze(*commands(run)["show"])[0] == 0


@pytest.mark.parametrize("writes", [1, 2])
def test_a_resume_that_is_killed_while_it_changes_the_configuration(run, trained_otherwise, monkeypatch, writes):
    """It writes `run.json`, `config.yaml` and `run.json`; whatever was written, the run is read and goes on."""
    done, write = count(), files.write_bytes

    def killed(*given):
        if next(done) == writes:
            raise KeyboardInterrupt
        write(*given)

    for module in (files, run_record):
        monkeypatch.setattr(module, "write_bytes", killed)
    with pytest.raises(KeyboardInterrupt):
        saved_run.resume(run, ["algorithm.n_epochs=5"])
    monkeypatch.undo()
    assert len(read_record(run)["config_sha256"]) == 2
    for name, command in commands(run).items():
        assert maze(*command)[0] == 0, name
    assert len(read_record(run)["config_sha256"]) == 1
    shutil.copy(trained_otherwise / "config.yaml", run)
    assert maze(*commands(run)["eval"])[0] == 2


def test_a_reader_meets_a_resume_that_replaces_configuration_and_record(run, trained_otherwise, monkeypatch):
    found = iter([(trained_otherwise / "config.yaml").read_text(), (run / "config.yaml").read_text()])
    monkeypatch.setattr(checksummed_yaml, "read_text", lambda path: next(found))
    assert checksummed_yaml.read_checksummed(run / "config.yaml")["seed"] == 1


def test_the_configuration_of_a_run_is_one_that_another_may_begin_with(run):
    copy = run.parent / "mine.yaml"
    copy.write_text((run / "config.yaml").read_text().replace("n_epochs: 4", "n_epochs: 8"))
    command = ["train", "ppo", "--config", copy, "--preset", "none", "--run-dir", run.parent / "new", "--epochs", "1"]
    assert maze(*command)[0] == 0


def test_a_run_without_its_record_is_none(run):
    (run / "run.json").unlink()
    for name in ("resume", "eval", "rollout", "compare"):
        code, said = maze(*commands(run)[name])
        assert code == 2, name
        assert f"there is no {run / 'run.json'}, which every run needs" in said[0]


def test_a_changed_record_is_damaged_and_one_without_checksum_or_format_too(run):
    path = run / "run.json"
    text = path.read_text()
    path.write_text(text.replace("Discrete(2)", "Discrete(3)"))
    for name in ("resume", "eval", "rollout", "compare"):
        code, said = maze(*commands(run)[name])
        assert code == 2, name
        assert f"{path} is damaged: its checksum does not match" in said[0]
    unsealed = {key: value for key, value in json.loads(text).items() if key != "sha256"}
    path.write_text(json.dumps(unsealed))
    assert "its checksum is missing" in maze(*commands(run)["resume"])[1][0]
    del unsealed["format"]
    for written, problem in ((unsealed, "its checksum is missing"), (checksummed(unsealed), "it has another format")):
        path.write_text(json.dumps(written))
        code, said = maze(*commands(run)["resume"])
        assert code == 2
        assert problem in said[0]


def test_a_record_is_what_was_written(tmp_path):
    record = record_of(a=[1, 2.5, None], b={"nan": float("inf"), "ä": "\u2028"})
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record


def without_times(lines):
    return [{k: v for k, v in json.loads(line).items() if k != "seconds" and "time/" not in k} for line in lines]


CHANGED = "is damaged: its beginning has changed since the last checkpoint"
DAMAGED_METRICS = {
    "no JSON": (lambda lines: [lines[0], lines[1][:40], *lines[2:]], "line 2 is damaged and skipped"),
    "two lines": (lambda lines: ["{", *lines[1:3], "[]"], "line 1, 4 is damaged and skipped"),
    "a digit": (
        lambda lines: [lines[0].replace('"updates": 1', '"updates": 2'), *lines[1:]],
        CHANGED,
    ),
    "cut at its end": (lambda lines: lines[:2], CHANGED),
}


@pytest.mark.parametrize("case", DAMAGED_METRICS)
def test_damage_in_the_metrics_is_said_once_and_keeps_nobody_from_training(run, case):
    damage, words = DAMAGED_METRICS[case]
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in damage(lines)))
    code, said = maze("runs", "compare", run)
    assert code == 0
    assert [line for line in said if str(path) in line] == [line for line in said if words in line]
    assert sum(words in line for line in said) == 1
    with pytest.warns(RuntimeWarning, match=f"{path}.*{words}"):
        saved_run.resume(run, ["algorithm.n_epochs=5"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with closing(saved_run.reopen(run, ["algorithm.n_epochs=6"])):
            pass
    assert json.loads(path.read_text().splitlines()[-1])["epoch"] == 5
    assert not any(str(path) in line for line in maze("runs", "compare", run)[1])


def test_metrics_are_nothing_to_speak_of_where_all_is_well(run):
    """Whole, torn by a kill, without a file, and dropped by a resume from an earlier checkpoint."""
    path = run / "metrics.jsonl"
    with path.open("a") as file:
        file.write('{"epoch": 5, "env_')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for checkpoint in ("last", "previous"):
            assert not any(str(path) in line for line in maze("runs", "list", run)[1])
            with closing(saved_run.reopen(run, ["algorithm.n_epochs=9"], checkpoint)):
                pass
        saved_run.resume(run, ["algorithm.n_epochs=5"], "previous")
    assert [each["epoch"] for each in without_times(path.read_text().splitlines())] == [1, 2, 3, 4, 5]
    assert not any(str(path) in line for line in maze("runs", "list", run)[1])


@pytest.mark.parametrize(("kind", "value"), [("weight", float("nan")), ("normalizer", float("inf"))])
def test_parameters_that_are_not_finite_are_refused_with_their_name(run, kind, value):
    for checkpoint in ("best", "last"):
        folder = run / "checkpoints" / checkpoint
        saved = read_checkpoint(folder)
        name = min(name for name, tensor in saved.model.items() if kind in name and tensor.is_floating_point())
        saved.model[name].flatten()[0] = value
        write_checkpoint(folder, Checkpoint(saved.model, saved.state, saved.extents))
    for command in ("resume", "eval", "rollout", "init-from"):
        code, said = maze(*commands(run)[command])
        assert code == 2, command
        assert f"model.safetensors/{name} should be finite numbers" in said[0], said


def test_parameters_of_another_type_are_refused_with_their_name(run):
    for checkpoint in ("best", "last"):
        folder = run / "checkpoints" / checkpoint
        saved = read_checkpoint(folder)
        name = min(name for name in saved.model if "weight" in name)
        saved.model[name] = saved.model[name].to(torch.float8_e4m3fn)
        write_checkpoint(folder, Checkpoint(saved.model, saved.state, saved.extents))
    for command in ("resume", "eval", "init-from"):
        code, said = maze(*commands(run)[command])
        assert code == 2, command
        assert re.search(rf"{name} should be numbers of torch.float32 .*is numbers of torch.float8_e4m3fn", said[0]), (
            said
        )


def test_a_buffer_that_is_infinite_by_design_is_none_of_these(tmp_path):
    class Masked(torch.nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.register_buffer("forbidden", torch.tensor([0.0, float("-inf")]))

    check_state(Masked().state_dict(), Masked().state_dict())
