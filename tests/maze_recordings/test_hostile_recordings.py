"""Recordings whose JSON says what cannot be: refused in one line, before anything is allocated."""

import json
import random
import shutil

import pytest
from maze_recordings.loader import load_trajectories
from maze_recordings.recording_files import TrajectoryError
from maze_recordings.space_json import space_from_json, space_to_json
from typer.testing import CliRunner

from maze_core.base.plain_json import checksummed, unsealed
from maze_core.cli.main import app

BOX = {"type": "Box", "shape": [4], "dtype": "float32", "low": -1.0, "high": 1.0}
SPACES = [
    {**BOX, "shape": [10**9]}, {**BOX, "shape": [10**5, 10**5]}, {**BOX, "shape": [-4]}, {**BOX, "shape": [True]},
    {**BOX, "shape": [2**70]}, {**BOX, "shape": "44"}, {**BOX, "shape": [4.0]}, {**BOX, "shape": None},
    {**BOX, "dtype": "O"}, {**BOX, "dtype": "(1000000000,)f4"}, {**BOX, "dtype": "f4,f4"}, {**BOX, "dtype": "U9"},
    {**BOX, "dtype": ["f4"]}, {**BOX, "dtype": None}, {**BOX, "low": "x"}, {**BOX, "low": 2.0}, {**BOX, "low": [[]]},
    {"type": "Dict", "spaces": [["a", {**BOX, "shape": [10**7]}], ["b", {**BOX, "shape": [10**7 + 1]}]]},
    {"type": "Tuple", "spaces": [{**BOX, "shape": [10**7]}] * 3}, {"type": "Dict", "spaces": 3}, {"type": "Dict"},
    {"type": "Dict", "spaces": [["a"]]}, {"type": "Dict", "spaces": {"a": BOX}}, {"type": "MultiBinary", "n": 10**9},
    {"type": "MultiBinary", "n": "9"}, {"type": "MultiBinary", "n": None}, {"type": "Discrete", "n": 2**70, "start": 0},
    {"type": "Discrete", "n": 0, "start": 0}, {"type": "Discrete", "n": 2, "start": "x"},
    {"type": "MultiDiscrete", "nvec": [2**70], "start": [0], "dtype": "int64"}, {"type": "Text"}, {"type": []}, [], 3,
    None, "Box",
]  # fmt: skip
RECORDS = {
    "crc32": [None, [], 3, {"rewards": None}, {"rewards": "x"}, {"rewards": -1}, {"rewards": True}, {"rewards": 2**70}],
    "length": [None, 0, -1, True, 1.5, "9", 2**62, 2**70, 10**400],
    "seed": [True, -1, "x", 1.5, []],
    "episode_return": [None, "x", True, 10**400, float("nan"), []],
    "terminated": [None, 1, "true"],
    "surplus": [1],
}
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "demos"
    arguments = ["rollout", "--policy", "random", "--env", "CartPole-v1", "-n", "2", "--record", str(folder)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    return folder


@pytest.fixture
def demos(recorded, tmp_path):
    return shutil.copytree(recorded, tmp_path / "demos")


def changed(text, **values):
    """A mapping with other values, whose checksum a stranger has made to agree."""
    return json.dumps(checksummed(unsealed(json.loads(text)) | values))


def check(demos, *parts):
    with pytest.raises(TrajectoryError) as caught:
        load_trajectories(demos)
    message = str(caught.value)
    assert len(message) < 900
    assert message.count("\n") <= 1  # the hint
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("number", "role"), [*((number, "observation_space") for number in range(len(SPACES))), (0, "action_space")]
)
def test_spaces(demos, number, role):
    path = demos / "trajectories.json"
    path.write_text(changed(path.read_text(), **{role: SPACES[number]}))
    check(demos, "trajectories.json")


@pytest.mark.parametrize("stated", [1e6, -1e300, 0.0, 23.01])
def test_a_return_that_is_not_the_sum_of_the_rewards(demos, stated):
    path = demos / "episodes.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([changed(first, episode_return=stated), *rest, ""]))
    check(demos, "episodes.jsonl", f"episode 0 has a return of {stated:.9g}")


def test_deep_spaces_and_texts(demos):
    deep = BOX
    for _ in range(300):
        deep = {"type": "Tuple", "spaces": [deep]}
    assert space_to_json(space_from_json({"type": "Tuple", "spaces": [BOX]}))["spaces"] == [BOX]
    path = demos / "trajectories.json"
    for text in (changed(path.read_text(), observation_space=deep), DEEP, "3", "[]", "null", "", '{"format": []}'):
        path.write_text(text)
        check(demos, str(demos))


@pytest.mark.parametrize("field", RECORDS)
def test_episodes(demos, field):
    path = demos / "episodes.jsonl"
    lines = path.read_text().splitlines()
    for value in RECORDS[field]:
        path.write_text("\n".join([lines[0], changed(lines[1], **{field: value}), ""]))
        check(demos, "damaged")
    for text in ("[]", "3", "null", DEEP, "{}", '"' + "x" * 10_000 + '"'):
        path.write_text(f"{lines[0]}\n{text}\n")
        check(demos, "line 2")


@pytest.mark.parametrize(
    ("name", "field", "value"), [("trajectories.json", "source", {}), ("episodes.jsonl", "episode_return", 1e6)]
)
def test_a_changed_value_is_damage_and_so_is_a_missing_checksum(demos, name, field, value):
    path = demos / name
    first, *rest = [unsealed(json.loads(each)) for each in _texts(path)]
    for changed in (checksummed(first) | {field: value}, first):
        path.write_text("".join(json.dumps(each) + "\n" for each in (changed, *map(checksummed, rest))))
        check(demos, name)


@pytest.mark.parametrize("field", ["version", "rewards", "wrapped_rewards", "source", "action_space", "format"])
def test_a_description_without_one_of_its_values_is_damaged(demos, field):
    path = demos / "trajectories.json"
    values = unsealed(json.loads(path.read_text()))
    del values[field]
    path.write_text(json.dumps(checksummed(values)))
    check(demos, "trajectories.json cannot be used: it")


def _texts(path):
    return [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()


def test_every_bit_of_the_json_files_counts(demos):
    """A sample of the bits: each is noticed, whatever it is."""
    rng = random.Random(1)
    for name in ("trajectories.json", "episodes.jsonl", "complete.json"):
        path = demos / name
        data = path.read_bytes()
        for bit in rng.sample(range(8 * len(data)), 60):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            check(demos, str(demos))
        path.write_bytes(data)
    assert len(load_trajectories(demos)) == 2


def test_an_index_that_was_cut_anywhere_is_said_with_the_number_that_is_missing(demos):
    path = demos / "episodes.jsonl"
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    for length, left in ((first, 1), (first + 9, 1), (len(data) - 1, 1), (first - 1, 0), (0, 0)):
        path.write_bytes(data[:length])
        check(demos, f"it lists {left} of the 2 episodes that were recorded", "Next: copy the recording again.")
    path.write_bytes(data[:first])
    (demos / "complete.json").unlink()
    with pytest.warns(RuntimeWarning, match="It lists 1 episode$"):
        assert len(load_trajectories(demos)) == 1
    path.write_bytes(data + data[first:])
    with pytest.raises(TrajectoryError):  # the rows end before
        load_trajectories(demos)


def test_of_several_unfinished_recordings_one_line_is_said(demos, tmp_path):
    for name in ("a", "b", "c"):
        shutil.copytree(demos, tmp_path / "several" / name)
    for name in ("b", "c"):
        (tmp_path / "several" / name / "complete.json").unlink()
    with pytest.warns(RuntimeWarning, match=r"complete\.json is missing: .*so it is with 1 more of 3") as told:
        assert len(load_trajectories(tmp_path / "several")) == 6
    assert len(told) == 1


@pytest.mark.parametrize("seed", range(20))
def test_bytes(demos, seed):
    """Any byte of any file changed, cut or doubled."""
    rng = random.Random(seed)
    path = rng.choice([each for each in sorted(demos.rglob("*")) if each.is_file()])
    data = bytearray(path.read_bytes())
    place = rng.randrange(len(data))
    data[place : place + rng.choice([1, 50])] = rng.choice([b"", b"\xff", bytes(data[place : place + 9]) * 2])
    path.write_bytes(data)
    result = CliRunner().invoke(app, ["trajectories", "info", str(demos)])
    assert result.exit_code in (0, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
