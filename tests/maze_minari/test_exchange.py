"""Minari data sets become recordings and back, without loss."""

import json
from pathlib import Path

import h5py
import minari as package
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.turns import Carousel
from maze_recordings.loader import load_trajectories
from maze_recordings.writer import TrajectoryWriter
from minari.serialization import serialize_space
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.data.rollout import Trajectory
from maze_core.envs.actors import actors_of
from maze_core.envs.spaces import leaf_spec, leaves

SEEN = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (8, 6, 3), np.uint8),
        "deep": spaces.Dict(
            {"speed": spaces.Box(-np.inf, np.inf, (2,), np.float64), "gear": spaces.Discrete(3, start=4)}
        ),
    }
)
ACTED = spaces.Tuple((spaces.MultiDiscrete([2, 3], start=[5, 0]), spaces.Box(-1, 2, (1,), np.float32)))


pytestmark = pytest.mark.filterwarnings("ignore:.* is set to None:UserWarning", "ignore:env_spec is None:UserWarning")


@pytest.fixture
def minari(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return package


@pytest.fixture
def demos(tmp_path):
    rng = np.random.default_rng(0)
    with TrajectoryWriter(tmp_path / "demos", SEEN, ACTED, {"who": "me"}) as writer:
        for length in (3, 1, 5):
            obs = {
                "image": rng.integers(0, 256, (length + 1, 8, 6, 3), np.uint8),
                "deep/speed": rng.normal(size=(length + 1, 2)).astype(np.float32),
                "deep/gear": rng.integers(0, 3, length + 1),
            }
            actions = {"0": rng.integers(0, 2, (length, 2)), "1": rng.uniform(-1, 2, (length, 1)).astype(np.float32)}
            rewards = rng.integers(0, 9, length).astype(np.float32)
            end = length == 3
            writer.add(
                Trajectory(obs, actions, rewards, end, not end, float(rewards.sum()), 2**64 - length)
            )  # as Minari draws seeds
    return tmp_path / "demos"


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, ["trajectories", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("by_id", [True, False])
def test_a_recording_goes_to_minari_and_comes_back(minari, demos, tmp_path, by_id):
    maze("export", demos, "--id", "test/drive-v0")
    theirs = minari.load_dataset("test/drive-v0")
    assert theirs.total_episodes == 3
    assert theirs.total_steps == 9
    for ours, episode in zip(load_trajectories(demos), theirs.iterate_episodes(), strict=True):
        np.testing.assert_array_equal(episode.observations["image"], ours.obs["image"])
        np.testing.assert_array_equal(episode.observations["deep"]["gear"], ours.obs["deep/gear"] + 4)
        np.testing.assert_array_equal(episode.actions[0], ours.actions["0"] + [5, 0])
        assert (episode.terminations[-1], episode.truncations[-1]) == (ours.terminated, ours.truncated)
        assert not episode.terminations[:-1].any()
    maze("import", "test/drive-v0" if by_id else tmp_path / "minari" / "test" / "drive-v0", tmp_path / "back")
    before, after = load_trajectories(demos), load_trajectories(tmp_path / "back")
    assert after.observation_space == SEEN
    assert after.action_space == ACTED
    assert after.episodes == before.episodes
    for key in before.obs:
        np.testing.assert_array_equal(after.obs[key], before.obs[key])


@pytest.fixture
def turns(tmp_path):
    """A recording of three actors, two of one kind."""
    env = Carousel()
    rng = np.random.default_rng(0)
    with TrajectoryWriter(tmp_path / "turns", env.observation_space, env.action_space) as writer:
        rows = {leaf.key: leaf for leaf in leaves(env.observation_space, "observation")}
        done = {leaf.key: leaf for leaf in leaves(env.action_space, "action")}
        for length in (4, 2):
            obs = {key: _rows(rows[key], "observation", length + 1) for key in rows}
            obs["turn/actor"] = rng.integers(0, 3, length + 1)
            actions = {key: _rows(done[key], "action", length) for key in done}
            writer.add(Trajectory(obs, actions, np.ones(length, np.float32), True, False, float(length), None))
    return tmp_path / "turns"


def _rows(leaf, role, length):
    spec = leaf_spec(leaf.space, role)
    return np.stack([np.asarray(leaf.space.sample(), spec.dtype) for _ in range(length)])


def test_actors_keep_their_names_and_kinds(minari, turns, tmp_path):
    maze("export", turns, "--id", "test/turns-v0")
    maze("import", "test/turns-v0", tmp_path / "back")
    before, after = load_trajectories(turns), load_trajectories(tmp_path / "back")
    assert actors_of(before.observation_space).actors == {"choose": "choose", "left": "left", "right": "left"}
    assert after.observation_space == before.observation_space
    for key in before.obs:
        np.testing.assert_array_equal(after.obs[key], before.obs[key])


@pytest.mark.parametrize("actors", [3, [], [["a"]], [["a", "b"]], [["a", "b"], ["a", "b"], ["a", "b"]], [[1, 2]] * 3])
def test_damaged_names_of_actors_are_one_clear_error(minari, turns, tmp_path, actors):
    maze("export", turns, "--id", "test/turns-v0")
    file = tmp_path / "minari" / "test" / "turns-v0" / "data" / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"maze_actors": actors}))
    assert "is damaged: maze_actors" in maze("import", "test/turns-v0", tmp_path / "back", code=2).stderr
    assert not (tmp_path / "back").exists()


FIRST = "episode_0"


def _elsewhere(file, other):
    del file[FIRST]["rewards"]
    file[FIRST]["rewards"] = h5py.ExternalLink(other, "rewards")


def _from_bytes(file, other):
    del file[FIRST]["rewards"]
    file[FIRST].create_dataset("rewards", (3,), "f8", external=[(other, 0, 24)])


DAMAGE = {
    "a link to another file": (_elsewhere, "'rewards' is a link, and links are not followed here"),
    "bytes of another file": (_from_bytes, "'rewards' is stored in another file"),
    "an episode that is missing": (lambda file, _: file.__delitem__(FIRST), "episode 0 cannot be read"),
    "no ends": (
        lambda file, _: _replace(file, "terminations", np.zeros(0, bool)),
        "episode 0: it has 3 rewards, and ter",
    ),
    "texts": (lambda file, _: _replace(file, "rewards", np.array([b"x"] * 3)), "episode 0: its rewards are |S1"),
    "actions of another form": (lambda file, _: _replace(file, "actions", np.full(3, 0.5)), "episode 0 cannot be read"),
    "a seed that is none": (lambda file, _: file[FIRST].attrs.__setitem__("seed", -1), "its seed is -1"),
}


def _replace(file, name, values):
    del file[FIRST][name]
    file[FIRST].create_dataset(name, data=values)


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_and_hostile_data_sets_are_one_clear_error(minari, demos, tmp_path, name):
    maze("export", demos, "--id", "test/drive-v0")
    data = tmp_path / "minari" / "test" / "drive-v0" / "data"
    (other := tmp_path / "private").write_bytes(bytes(24))
    change, words = DAMAGE[name]
    with h5py.File(data / "main_data.hdf5", "r+") as file:
        change(file, str(other))
    assert words in maze("import", data, tmp_path / "back", code=2).stderr
    assert [each.name for each in tmp_path.iterdir() if "back" in each.name] == []


WHERE = {"arm": spaces.Box(-1, 1, (2,)), "mission": spaces.Text(20), "deep": spaces.Dict({"words": spaces.Text(9)})}
TOLD = spaces.Dict({**WHERE, "gear": spaces.Discrete(3)})
BIT = spaces.Discrete(2)
PUSH = spaces.Box(np.array([-1, -np.inf]), np.array([2.0, 5]), dtype=np.float64)
BOXES = spaces.Dict({"push": PUSH, "turn": spaces.Box(0, 9, (), int)})


def data_set(minari, episodes, seen=TOLD, acted=BOXES, name="test/new-v0", **options):
    """A data set of Minari: of each episode the changes of one that is sound, and how many steps it has."""
    buffers = []
    for length, changes in episodes:
        sound = {
            "observations": {
                "arm": np.zeros((length + 1, 2), np.float32),
                "mission": ["go"] * (length + 1),
                "deep": {"words": ["on"] * (length + 1)},
                "gear": np.ones(length + 1, np.int64),
            }
            if seen is TOLD
            else np.zeros((length + 1, *seen.shape), seen.dtype),
            "actions": {"push": np.ones((length, 2)), "turn": np.full(length, 3)}
            if acted is BOXES
            else np.zeros((length, *acted.shape), acted.dtype),
            "rewards": np.ones(length),
            "terminations": [False] * (length - 1) + [True],
            "truncations": [False] * length,
        }
        buffers.append(minari.data_collector.EpisodeBuffer(**(sound | changes)))
    spaces_ = {"observation_space": seen, "action_space": acted}
    made = minari.create_dataset_from_buffers(name, buffers, **spaces_, jpeg_encoding=False, **options)
    return made.spec.data_path


def acts(row, key, value, length=4):
    push, turn = np.ones((length, 2)), np.full(length, 3.0 if isinstance(value, float) and key == "turn" else 3)
    (turn if key == "turn" else push)[row] = value
    return {"actions": {"push": push, "turn": turn}}


F, T = False, True
UNUSABLE = {
    "a termination inside": ({"terminations": [F, T, F, T]}, "step 1 terminates it, and it goes on to step 3"),
    "a truncation inside": ({"truncations": [T, F, F, T]}, "step 0 truncates it, and it goes on"),
    "both at once inside": ({"terminations": [F, F, T, F], "truncations": [F, F, T, T]}, "step 2 terminates"),
    "a flag that is none": ({"terminations": [0, 0, 0, 2]}, "terminations holds 2, which is no flag"),
    "flags of another length": ({"truncations": [F] * 5}, "it has 4 rewards, and truncations of shape (5,)"),
    "a reward that is infinite": ({"rewards": [1, 1, np.inf, 1]}, "rewards of step 2 holds inf, which is not"),
    "a reward beyond float32": ({"rewards": [1, -1e300, 1, 1]}, "rewards of step 1 holds -inf, which is not"),
    "an action below": (acts(3, "push", (-1.5, 0)), "step 3 holds -1.5 at [0], which is outside its bounds, -1 to 2"),
    "an action above": (acts(0, "push", (0, 6)), "step 0 holds 6 at [1], which is outside its bounds, -inf to 5"),
    "a whole number above": (acts(2, "turn", 10), "turn of step 2 holds 10, which is outside its bounds, 0 to 9"),
    "between whole numbers": (acts(2, "turn", 2.5), "actions/turn of step 2 holds 2.5, which is no whole number"),
    "an action that is none": (acts(1, "push", (np.nan, 0)), "push of step 1 holds nan at [0], which is not finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("form", ["hdf5", "arrow"])
def test_an_episode_that_cannot_be_used_is_named_with_its_step_and_nothing_is_left(minari, tmp_path, name, form):
    changes, words = UNUSABLE[name]
    if form == "arrow" and name in ("flags of another length", "between whole numbers"):
        pytest.skip("Minari cannot write it in this form")
    data_set(minari, [(2, {}), (4, changes), (1, {})], data_format=form)
    before = sorted(tmp_path.iterdir())
    result = maze("import", "test/new-v0", tmp_path / "a" / "back", "--drop", "mission", "--drop", "deep/words", code=2)
    assert "test/new-v0 cannot be imported: episode 1: " in result.stderr
    assert words in result.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_rounding_is_no_action_outside_and_clip_moves_those_that_are(minari, tmp_path):
    near = acts(1, "push", (2.0000001, 5.0000004))
    data_set(minari, [(4, near), (4, acts(0, "push", (-7, 1))), (4, acts(2, "turn", 11))])
    (tmp_path / "back").mkdir()  # an empty folder is as good as none
    maze("import", "test/new-v0", tmp_path / "back", "--drop", "mission", "--drop", "deep", code=2)
    assert list((tmp_path / "back").iterdir()) == []
    said = maze("import", "test/new-v0", tmp_path / "back", "--drop", "mission", "--drop", "deep", "--clip").stderr
    data = load_trajectories(tmp_path / "back")
    assert data.actions["push"].tolist()[4] == [-1, 1]
    assert data.actions["turn"].tolist() == [3] * 10 + [9, 3]
    assert "3 actions lay outside their bounds and were moved to them" in said


def test_leaves_that_maze_does_not_have_are_dropped_as_the_message_says(minari, tmp_path):
    data_set(minari, [(2, {}), (3, {})])
    said = maze("import", "test/new-v0", tmp_path / "back", code=2).stderr
    assert "is a Text space, which Maze does not support" in said
    assert "Next: leave it out, --drop deep/words --drop mission" in said
    maze("import", "test/new-v0", tmp_path / "back", "--drop", "mission", "--drop", "deep/words")
    assert list(load_trajectories(tmp_path / "back").obs) == ["arm", "gear"]
    for wrong, words in (("missions", "no part 'missions'"), ("", "no part ''")):
        assert words in maze("import", "test/new-v0", tmp_path / "other", "--drop", wrong, code=2).stderr
    every = [part for key in TOLD for part in ("--drop", key)]
    assert "no part of the observations is left" in maze("import", "test/new-v0", tmp_path / "x", *every, code=2).stderr


@pytest.mark.parametrize(
    ("seen", "acted"),
    [(spaces.Text(5), BIT), (spaces.Box(0, 1, (2,)), spaces.Text(5)), (spaces.MultiBinary((2, 2)), BIT)],
)
def test_a_single_space_that_maze_does_not_have_is_refused_without_advice_that_leads_nowhere(
    minari, tmp_path, seen, acted
):
    file = tmp_path / "minari" / "test" / "new-v0" / "data" / "metadata.json"
    data_set(minari, [(2, {})], spaces.Box(0, 1, (2,)), spaces.Box(0, 1, (1,)))
    told = {"observation_space": serialize_space(seen), "action_space": serialize_space(acted)}
    file.write_text(json.dumps(json.loads(file.read_text()) | told))
    said = maze("import", "test/new-v0", tmp_path / "back", code=2).stderr
    assert "which Maze does not support" in said
    assert "--drop" not in said
    assert "--wrappers" not in said


@pytest.mark.parametrize(("held", "words"), [(0, "has no episode"), (3, "names 0 episodes, and its files hold 3")])
def test_a_data_set_without_an_episode_is_refused(minari, tmp_path, held, words):
    data = Path(data_set(minari, [(2, {})] * 3))
    file = data / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"total_episodes": 0}))
    with h5py.File(data / "main_data.hdf5", "r+") as opened:
        for name in list(opened)[held:]:
            del opened[name]
    assert words in maze("import", "test/new-v0", tmp_path / "back", code=2).stderr
    assert not (tmp_path / "back").exists()


def test_an_episode_that_is_shorter_than_its_metadata_says_is_refused(minari, tmp_path):
    data = Path(data_set(minari, [(2, {}), (3, {})]))
    with h5py.File(data / "main_data.hdf5", "r+") as opened:
        opened["episode_1"].attrs["total_steps"] = 7
    said = maze("import", "test/new-v0", tmp_path / "back", "--drop", "mission", "--drop", "deep", code=2).stderr
    assert "episode 1: it has 3 steps, and its metadata says 7" in said


def test_more_episodes_than_bytes_are_refused(minari, demos, tmp_path):
    maze("export", demos, "--id", "test/drive-v0")
    file = tmp_path / "minari" / "test" / "drive-v0" / "data" / "metadata.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"total_episodes": 10**9}))
    assert "names 1000000000 episodes" in maze("import", file.parent, tmp_path / "back", code=2).stderr


def test_what_cannot_be_exchanged_is_one_clear_error(minari, demos, tmp_path):
    assert "nothing/here-v0" in maze("import", "nothing/here-v0", tmp_path / "new", code=2).stderr
    assert not (tmp_path / "new").exists()
    maze("export", demos, "--id", "no id at all", code=2)
    maze("export", demos, "--id", "test/twice-v0")
    maze("export", demos, "--id", "test/twice-v0", code=2)


@pytest.mark.parametrize("env", ["x", None, {"id": [1]}, {"id": {}}, {"id": "nothing/here-v0"}])
def test_an_origin_that_names_no_environment_is_left_out(minari, tmp_path, env):
    with TrajectoryWriter(tmp_path / "a", spaces.Box(0, 1, (1,)), spaces.Discrete(2), {"env": env}) as writer:
        obs, actions = {"observation": np.zeros((2, 1), np.float32)}, {"action": np.zeros(1, np.int64)}
        writer.add(Trajectory(obs, actions, np.ones(1, np.float32), True, False, 1.0))
    maze("export", tmp_path / "a", "--id", "test/strange-v0")
    assert minari.load_dataset("test/strange-v0").spec.env_spec is None


def test_without_the_package_it_says_what_to_install(demos, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    assert 'pip install "minari[hdf5]"' in maze("export", demos, "--id", "a/b-v0", code=2).stderr
