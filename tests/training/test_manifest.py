"""Every bit of a manifest, of a run's record and of its checksummed configuration counts."""

import json
import random
import shutil

import pytest
import torch

from maze_core.base.errors import CheckpointError, ConfigError
from maze_core.base.plain_json import checksummed as with_checksum
from maze_core.base.plain_json import unsealed
from maze_core.plugins.config.checksummed_yaml import checksummed, read_checksummed
from maze_core.plugins.config.plain_yaml import to_yaml
from maze_core.plugins.config.record import read_record, run_id, write_record
from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from maze_core.run.saved.manifest import Extent, is_whole, read_manifest
from tests.run_records import record_of

EXTENTS = {"metrics.jsonl": Extent(1234, "a" * 64)}


@pytest.fixture
def folder(tmp_path):
    checkpoint = Checkpoint({"w": torch.ones(2)}, {"epoch": 3, "env_steps": 7}, EXTENTS)
    write_checkpoint(tmp_path / "checkpoints" / "last", checkpoint)
    return tmp_path / "checkpoints" / "last"


def flips(data, count, seed=1):
    """The data with one bit changed: some of all the cases."""
    for bit in random.Random(seed).sample(range(8 * len(data)), min(count, 8 * len(data))):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def test_a_flipped_bit_in_a_manifest_is_noticed(folder):
    path = folder / "manifest.json"
    data = path.read_bytes()
    for changed in flips(data, 10**9):
        path.write_bytes(changed)
        with pytest.raises(ValueError):
            read_manifest(folder)
    assert not is_whole(folder)
    path.write_bytes(data)
    assert read_manifest(folder).extents == EXTENTS


def test_a_lost_line_of_a_manifest_is_noticed(folder):
    path = folder / "manifest.json"
    lines = path.read_bytes().splitlines(True)
    for number in range(len(lines)):
        for changed in (lines[:number] + lines[number + 1 :], lines[:number]):
            path.write_bytes(b"".join(changed))
            with pytest.raises(ValueError):
                read_manifest(folder)


def lose(path, name):
    """Rewrite a file without one of its values; its checksum is that of the others."""
    values = unsealed(json.loads(path.read_bytes()))
    if name != "sha256":
        del values[name]
        values = with_checksum(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize("name", ["sequence", "beside", "files", "run", "format", "sha256"])
def test_a_manifest_without_one_of_its_values_is_damaged(folder, name):
    lose(folder / "manifest.json", name)
    damaged = {"format": "it has format null", "sha256": r"manifest\.json is damaged: its checksum is missing"}
    problem = damaged.get(name, rf"manifest\.json is damaged: it has no '{name}'")
    with pytest.raises(CheckpointError, match=f"cannot be used: {problem}"):
        read_checkpoint(folder)


def test_a_flipped_bit_in_a_record_is_noticed(tmp_path):
    write_record(tmp_path, record_of(versions={"torch": "2.6"}))
    path = tmp_path / "run.json"
    data = path.read_bytes()
    for changed in flips(data, 10**9):
        path.write_bytes(changed)
        with pytest.raises(ConfigError, match=r"run\.json is damaged"):
            read_record(tmp_path)


@pytest.mark.parametrize("name", sorted({*record_of(), "format", "sha256"} - {"summary"}))
def test_a_record_without_one_of_its_values_is_damaged(tmp_path, name):
    write_record(tmp_path, record_of())
    lose(tmp_path / "run.json", name)
    problem = {"format": "it has another format", "sha256": "its checksum is missing"}.get(name, f"it has no '{name}'")
    with pytest.raises(ConfigError, match=rf"run\.json is damaged: {problem}"):
        read_record(tmp_path)
    assert run_id(tmp_path) is None


def test_a_flipped_bit_in_a_configuration_is_noticed(tmp_path):
    path = tmp_path / "config.yaml"
    data = checksummed(to_yaml({"seed": 1, "env": {"name": "gymnasium", "id": "CartPole-v1"}})).encode()
    for changed in flips(data, 10**9):
        path.write_bytes(changed)
        with pytest.raises(ConfigError):
            read_checksummed(path)
    path.write_bytes(data.partition(b"\n")[2])  # as its user is told to do
    assert read_checksummed(path)["seed"] == 1


@pytest.mark.parametrize("checkpoint", ["last", "best", "previous"])
def test_a_checkpoint_of_another_run_is_refused(quick, checkpoint):
    own, other = (quick() for _ in range(2))
    for context in (own, other):
        context.train()
    folder = own.run_dir / "checkpoints" / checkpoint
    shutil.rmtree(folder)
    shutil.copytree(other.run_dir / "checkpoints" / checkpoint, folder)
    with pytest.raises(CheckpointError, match="it is a checkpoint of another run"):
        read_checkpoint(folder)
    moved = own.run_dir.with_name("moved")
    own.run_dir.rename(moved)  # a whole run may move, and be copied
    rest = {"last", "best", "previous"} - {checkpoint}
    assert all(read_checkpoint(moved / "checkpoints" / name).state for name in rest)


def test_a_record_of_another_run_is_noticed(quick):
    own, other = (quick() for _ in range(2))
    for context in (own, other):
        context.train()
    shutil.copy(other.run_dir / "run.json", own.run_dir / "run.json")
    with pytest.raises(CheckpointError, match=r"or run\.json is"):
        read_checkpoint(own.run_dir / "checkpoints" / "last")
