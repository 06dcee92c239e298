"""Under which id a logger knows a run: what is damaged is said, and never used."""

import json
import shutil

import pytest
from maze_loggers.points import read_identity, write_identity

VALUES = {"run_id": "0a1b2c", "tracking_uri": "local"}


def test_what_was_written_is_read(tmp_path, recwarn):
    assert read_identity(tmp_path, "x.json") == {}
    write_identity(tmp_path, "x.json", VALUES)
    assert read_identity(tmp_path, "x.json") == VALUES
    assert not recwarn.list
    (tmp_path / "x.json").write_text(json.dumps(VALUES))
    with pytest.warns(RuntimeWarning, match=r"x\.json is damaged \(its checksum is missing\): the run gets a new id"):
        assert read_identity(tmp_path, "x.json") == {}


def test_a_flipped_bit_changes_no_id_in_silence(tmp_path):
    path = tmp_path / "x.json"
    write_identity(tmp_path, "x.json", VALUES)
    data = path.read_bytes()
    for bit in range(8 * data.index(b'"sha256"')):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.warns(RuntimeWarning, match=r"x\.json is damaged .*: the run gets a new id"):
            assert read_identity(tmp_path, "x.json") == {}


def test_the_id_of_another_run_is_not_used(quick, tmp_path, recwarn):
    mine, other = (quick("CartPole-v1").run_dir for _ in range(2))
    write_identity(mine, "x.json", VALUES)
    assert read_identity(mine, "x.json") == VALUES
    shutil.copytree(mine, tmp_path / "copied")  # it is the same run
    assert read_identity(tmp_path / "copied", "x.json") == VALUES
    assert not recwarn.list
    shutil.copy(mine / "x.json", other)
    with pytest.warns(RuntimeWarning, match=r"x\.json belongs to another run: this run gets a new id"):
        assert read_identity(other, "x.json") == {}
