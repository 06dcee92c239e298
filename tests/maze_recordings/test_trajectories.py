"""The trajectory format: what is recorded comes back, and what is not whole is refused by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from gymnasium import spaces
from maze_recordings.loader import load_trajectories
from maze_recordings.recording_files import TrajectoryError
from maze_recordings.space_json import space_from_json, space_to_json
from maze_recordings.writer import TrajectoryWriter

from maze_core.base.plain_json import checksummed, unsealed
from maze_core.data.rollout import Trajectory
from maze_core.envs.spaces import allocate, space_specs

OBSERVATION = spaces.Dict(
    {
        "zebra": spaces.Box(0, 255, (4, 3, 1), np.uint8),
        "arm": spaces.Dict(
            {
                "angle": spaces.Box(-np.inf, np.inf, (), np.float32),
                "joint: left": spaces.Discrete(5, start=-2),
                "double": spaces.Box(np.array([-1.0, -np.inf]), np.array([0.1, 7.0]), dtype=np.float64),
            }
        ),
        "flags": spaces.MultiBinary(3),
        "pair": spaces.Tuple((spaces.MultiDiscrete([2, 300]), spaces.Box(-3, 4, (2,), np.int16))),
    }
)
ACTION = spaces.Dict({"move": spaces.Box(-2, 1, (2,), np.float32), "press": spaces.Discrete(2)})


def episode(length, seed=0, observation=OBSERVATION, action=ACTION, terminated=True):
    """A trajectory of random values of the two spaces."""
    rng = np.random.default_rng(seed)

    def tree(space, role, rows):
        leaves = allocate(space_specs(space, role), (rows,))
        for leaf in leaves.values():
            leaf[...] = rng.integers(0, 2, leaf.shape) if leaf.dtype.kind != "f" else rng.uniform(-2, 1, leaf.shape)
        return leaves

    rewards = rng.normal(size=length).astype(np.float32)
    return Trajectory(
        tree(observation, "observation", length + 1),
        tree(action, "action", length),
        rewards,
        terminated,
        not terminated,
        float(rewards.sum()),
        seed,
    )


def record(folder, episodes, observation=OBSERVATION, action=ACTION):
    with TrajectoryWriter(folder, observation, action, {"policy": "test"}) as writer:
        for each in episodes:
            writer.add(each)
    return folder


def assert_equal(a, b):
    assert a.obs.keys() == b.obs.keys()
    assert a.actions.keys() == b.actions.keys()
    for left, right in ((a.obs, b.obs), (a.actions, b.actions), ({"r": a.rewards}, {"r": b.rewards})):
        for key in left:
            assert left[key].dtype == right[key].dtype
            np.testing.assert_array_equal(left[key], right[key])
    assert (a.terminated, a.truncated, a.seed) == (b.terminated, b.truncated, b.seed)
    assert a.episode_return == b.episode_return


def test_folders_may_be_named_by_a_string(tmp_path):
    with TrajectoryWriter(str(tmp_path / "demos"), OBSERVATION, ACTION) as writer:
        writer.add(episode(3, seed=1))
    assert_equal(load_trajectories(str(tmp_path / "demos"))[0], load_trajectories(tmp_path / "demos")[0])
    with pytest.raises(TrajectoryError, match="there is no such folder"):
        load_trajectories("nowhere")


def test_what_is_recorded_comes_back_bit_equal(tmp_path):
    episodes = [episode(n, seed=n, terminated=n % 2 == 0) for n in (1, 7, 2)]
    data = load_trajectories(record(tmp_path / "demos", episodes), workers=2)
    assert len(data) == 3
    assert data.steps == 10
    assert data.observation_space == OBSERVATION
    assert list(data.observation_space.spaces) == list(OBSERVATION.spaces)
    assert data.action_space == ACTION
    assert data.description.source == {"policy": "test"}
    for ours, theirs in zip(data, episodes, strict=True):
        assert_equal(ours, theirs)
    assert_equal(data[-1], episodes[-1])
    assert [len(each) for each in data[1:]] == [7, 2]


def test_a_recording_that_an_error_ended_is_not_complete(tmp_path):
    def failing():
        yield episode(3, seed=1)
        raise KeyError("the next episode")

    with pytest.raises(KeyError):
        record(tmp_path / "demos", failing())
    with pytest.warns(RuntimeWarning, match="complete.json is missing: the recording was interrupted"):
        assert len(load_trajectories(tmp_path / "demos")) == 1


def test_every_file_is_read_by_public_tools(tmp_path):
    episodes = [episode(3, 1), episode(2, 2)]
    folder = record(tmp_path / "demos", episodes)
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert [line["length"] for line in lines] == [3, 2]
    angles = np.load(folder / "observations" / "arm" / "angle.npy", allow_pickle=False)
    np.testing.assert_array_equal(angles, np.concatenate([e.obs["arm/angle"] for e in episodes]))
    np.testing.assert_array_equal(np.load(folder / "rewards.npy"), np.concatenate([e.rewards for e in episodes]))
    assert json.loads((folder / "trajectories.json").read_text())["version"] == 2


def test_action_rows_find_their_observations(tmp_path):
    episodes = [episode(n, n) for n in (3, 1, 4)]
    data = load_trajectories(record(tmp_path / "demos", episodes))
    rows = data.observation_rows(np.arange(data.steps))
    expected = np.concatenate([e.obs["arm/angle"][:-1] for e in episodes])
    np.testing.assert_array_equal(data.obs["arm/angle"][rows], expected)


def test_a_folder_of_recordings_is_one_data_set(tmp_path):
    first, second = [episode(2, 1)], [episode(5, 2), episode(1, 3)]
    record(tmp_path / "b", second)
    record(tmp_path / "a", first)
    record(tmp_path / "c", [])
    data = load_trajectories(tmp_path)
    for ours, theirs in zip(data, first + second, strict=True):
        assert_equal(ours, theirs)


@pytest.mark.parametrize(
    "space",
    [
        OBSERVATION,
        ACTION,
        spaces.Discrete(3, start=4),
        spaces.MultiDiscrete([2, 3], start=[1, -1]),
        spaces.Box(np.array([[-1.5, 0]]), np.array([[np.inf, 2**40]]), dtype=np.float64),
        spaces.Box(0, 2**63 - 1, (2,), np.int64),
        spaces.Box(0, 1, (), bool),
    ],
    ids=str,
)
def test_spaces_survive_json(space):
    text = json.dumps(space_to_json(space), allow_nan=False)
    assert space_from_json(json.loads(text)) == space


def test_kill_9_loses_no_recorded_episode(tmp_path):
    script = """
        import sys
        import numpy as np
        from pathlib import Path
        from gymnasium import spaces
        from maze_core.data.rollout import Trajectory
        from maze_recordings.writer import TrajectoryWriter
        writer = TrajectoryWriter(Path(sys.argv[1]), spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
        for k in range(10**6):
            n = k % 5 + 1
            obs = {"observation": np.full((n + 1, 3), 0.001 * k, np.float32)}
            writer.add(Trajectory(obs, {"action": np.zeros(n, np.int64)}, np.ones(n, np.float32), True, False, n))
            print(k, flush=True)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "demos")], stdout=subprocess.PIPE, text=True
    )
    reported = [child.stdout.readline() for _ in range(200)]
    os.kill(child.pid, signal.SIGKILL)
    reported += child.stdout.read().splitlines(keepends=True)
    child.wait()
    whole = [int(line) for line in reported if line.endswith("\n")]
    with pytest.warns(RuntimeWarning, match=r"complete\.json is missing: "):
        data = load_trajectories(tmp_path / "demos")
    assert len(data) in (len(whole), len(whole) + 1)
    for k, each in enumerate(data):
        assert len(each) == k % 5 + 1
        np.testing.assert_array_equal(each.obs["observation"], np.float32(0.001 * k))


def test_rows_behind_the_last_whole_episode_do_not_count(tmp_path):
    episodes = [episode(3, 1), episode(2, 2)]
    folder = record(tmp_path / "demos", episodes)
    index = folder / "episodes.jsonl"
    index.write_bytes(index.read_bytes()[:-20])
    (folder / "complete.json").unlink()  # as a process leaves it that is killed
    with pytest.warns(RuntimeWarning, match=r"complete\.json is missing: .* It lists 1 episode$"):
        data = load_trajectories(folder)
    assert len(data) == 1
    assert_equal(data[0], episodes[0])


def other(**values):
    """A change of values in a mapping, whose checksum agrees."""
    return lambda data: json.dumps(checksummed(unsealed(json.loads(data)) | values)).encode()


def damage(folder, path, change):
    file = folder / path
    file.write_bytes(change(file.read_bytes()))
    return file


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("trajectories.json", lambda b: b[:40]),
        ("trajectories.json", lambda b: b.replace(b'"version": 2', b'"version": 3')),
        ("trajectories.json", lambda b: b.replace(b'"version": 2', b'"version": 1')),
        ("trajectories.json", other(version=3)),
        ("trajectories.json", other(version=1)),
        ("complete.json", lambda b: b[:-9]),
        ("complete.json", lambda b: b.replace(b'"episodes": ', b'"episodes": 1')),
        ("complete.json", lambda b: b"{}"),
        ("complete.json", lambda b: b""),
        ("trajectories.json", other(action_space={"type": "Secret"})),
        ("trajectories.json", lambda b: b"[]"),
        ("trajectories.json", lambda b: b.replace(b"Discrete", b"Secret")),
        ("trajectories.json", lambda b: b"\x80\x04" + b),
        ("episodes.jsonl", lambda b: b.replace(b"length", b"lenght", 1)),
        ("episodes.jsonl", lambda b: b"\n" + b),
        ("episodes.jsonl", lambda b: b.replace(b'"length": 3', b'"length": -3')),
        ("episodes.jsonl", lambda b: b""),
        ("rewards.npy", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
        ("rewards.npy", lambda b: b[:-1]),
        ("rewards.npy", lambda b: b""),
        ("rewards.npy", lambda b: b.replace(b"<f4", b"|O ")),
        ("actions/press.npy", lambda b: b.replace(b"<i8", b"<i4")),
        ("observations/arm/angle.npy", lambda b: b[:128] + b"\xff" * 4 + b[132:]),
    ],
)
def test_a_damaged_file_is_named(tmp_path, path, change):
    folder = record(tmp_path / "demos", [episode(3, 1), episode(2, 2)])
    file = damage(folder, path, change)
    with pytest.raises(TrajectoryError) as caught:
        load_trajectories(folder)
    assert str(file) in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_missing_column_is_named(tmp_path):
    folder = record(tmp_path / "demos", [episode(3)])
    (folder / "rewards.npy").unlink()
    with pytest.raises(TrajectoryError, match=r"rewards\.npy"):
        load_trajectories(folder)


def test_an_empty_recording_is_named(tmp_path):
    with pytest.raises(TrajectoryError, match=r"demos/episodes\.jsonl is empty"):
        load_trajectories(record(tmp_path / "demos", []))


def test_foreign_and_missing_folders_are_named(tmp_path):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "data.csv").write_text("1,2")
    for name in ("foreign", "missing"):
        with pytest.raises(TrajectoryError, match=name):
            load_trajectories(tmp_path / name)


def test_mixed_spaces_are_named(tmp_path):
    record(tmp_path / "a", [episode(2)])
    other = spaces.Dict({"move": spaces.Box(-2, 1.5, (2,), np.float32), "press": spaces.Discrete(2)})
    record(tmp_path / "b", [episode(2, action=other)], action=other)
    with pytest.raises(TrajectoryError, match=r"b/trajectories\.json: the action space"):
        load_trajectories(tmp_path)


def test_data_of_another_environment_is_named(tmp_path):
    data = load_trajectories(record(tmp_path / "demos", [episode(2)]))
    data.check_fits(OBSERVATION, ACTION, "demos")
    with pytest.raises(TrajectoryError, match=r"demos was recorded with the action space.*Discrete\(2\)"):
        data.check_fits(OBSERVATION, spaces.Discrete(2), "demos")
    wide = spaces.Box(-np.arange(1.0, 31.0), np.arange(1.0, 31.0), dtype=np.float64)
    with pytest.raises(TrajectoryError, match=r"^demos .* here it is Box\(\[ ?-1\. -2\. [^\n]*\nNext: "):
        data.check_fits(wide, ACTION, "demos")


def test_an_existing_recording_is_not_overwritten(tmp_path):
    folder = record(tmp_path / "demos", [episode(2)])
    with pytest.raises(TrajectoryError, match="not empty"):
        TrajectoryWriter(folder, OBSERVATION, ACTION)
    assert len(load_trajectories(folder)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.obs["flags"].__setitem__((0, 0), 2), "observations/flags"),
        (lambda e: e.obs["arm/angle"].__setitem__(1, np.nan), "observations/arm/angle.*not finite"),
        (lambda e: e.actions["press"].__setitem__(0, 2), "actions/press.*outside"),
        (lambda e: e.actions["press"].__setitem__(0, -1), "actions/press.*outside"),
        (lambda e: e.actions.pop("press"), "actions/press"),
        (lambda e: e.obs.update(zebra=e.obs["zebra"][:-1]), "observations/zebra.*shape"),
        (lambda e: e.obs.update(zebra=e.obs["zebra"].astype(np.float32)), "observations/zebra.*dtype"),
        (lambda e: e.obs.update({"pair/1": np.full((4, 2), 2**20)}), "observations/pair/1.* value that int16 cannot"),
        (
            lambda e: e.actions["move"].__setitem__((1, 0), -2.1),
            r"episode 1: actions/move of step 1 holds -2.09.* at \[0\], ",
        ),
        (
            lambda e: e.actions["move"].__setitem__((2, 1), 1.00001),
            "actions/move of step 2 .*outside its bounds, -2 to 1\nNext",
        ),
        (lambda e: e.rewards.__setitem__(1, np.inf), "episode 1: rewards of step 1 holds inf, which is not finite"),
        (lambda e: e.rewards.__setitem__(0, 9), "has a return of .*, but its rewards add up to"),
        (lambda e: e.rewards.__setitem__(slice(None), 3e38), "has a return of .*, but its rewards add up to 9.*e.38"),
    ],
)
def test_a_wrong_trajectory_is_refused_and_leaves_no_trace(tmp_path, change, message):
    good, bad = episode(3, 1), episode(3, 2)
    change(bad)
    with TrajectoryWriter(tmp_path / "demos", OBSERVATION, ACTION) as writer:
        writer.add(good)
        with pytest.raises(TrajectoryError, match=message):
            writer.add(bad)
        writer.add(good)
    data = load_trajectories(tmp_path / "demos")
    assert len(data) == 2
    assert_equal(data[1], good)


MAX = float(np.finfo(np.float32).max)


def moved(space, values):
    """An episode with these actions in a Box."""
    values = np.asarray(values)
    obs, rewards = {"observation": np.full((len(values) + 1, 1), 7, np.float32)}, np.zeros(len(values), np.float32)
    return Trajectory(obs, {"action": values}, rewards, True, False, 0.0)


@pytest.mark.parametrize(
    ("space", "good", "bad"),
    [
        (spaces.Box(-1, 1, (), np.float32), [1 + 2e-7, -1 - 2e-7, 0], 1.00001),
        (spaces.Box(0, 0.1, (), np.float64), [0.1, -1e-9, 0.05], -1e-6),
        (spaces.Box(-1, 1, (), np.float16), [1.001, -1.001, 0], 1.01),
        (spaces.Box(-np.inf, 3, (), np.float32), [-1e30, 3, 0], 3.0001),
        (spaces.Box(-np.inf, np.inf, (), np.float64), [-1e30, 1e30, 0], np.nan),
        (spaces.Box(-MAX, MAX, (), np.float32), [-3e38, MAX, 0], np.inf),
        (spaces.Box(0, 2**31 - 1, (), np.int64), [0, 2**31 - 1, 5], -1),
        (spaces.Box(0, 255, (), np.uint8), [0, 255, 7], 3.5),
        (spaces.Box(0, 1, (), bool), [0, 1, 1], 2),
        (spaces.Box(1e6, 1e6 + 8, (), np.float64), [1e6, 1e6 + 8, 1e6 + 3], 1e6 + 20),
    ],
    ids=str,
)
def test_actions_outside_their_box_are_refused_where_they_are_written_and_read(tmp_path, monkeypatch, space, good, bad):
    seen = spaces.Box(-1, 1, (1,))  # observations may leave their bounds
    record(tmp_path / "good", [moved(space, good)], seen, space)
    assert len(load_trajectories(tmp_path / "good")) == 1
    with pytest.raises(TrajectoryError, match="episode 1: actions/action of step 1 holds "):
        record(tmp_path / "bad", [moved(space, good), moved(space, [good[0], bad])], seen, space)
    with monkeypatch.context() as patch:  # as a writer that checks nothing
        patch.setattr("maze_recordings.writer.wrong_in_column", lambda *anything: None)
        record(tmp_path / "unchecked", [moved(space, good), moved(space, [good[0], bad])], seen, space)
    with pytest.raises(TrajectoryError, match=r"actions/action.npy: episode 1, step 1 holds "):
        load_trajectories(tmp_path / "unchecked")


def test_what_fails_before_its_first_episode_leaves_nothing_behind(tmp_path):
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "new", tmp_path / "mine"):
        with pytest.raises(TrajectoryError), TrajectoryWriter(folder, spaces.Discrete(2), spaces.Discrete(2)) as writer:
            writer.add(episode(3))
    assert [each.name for each in tmp_path.rglob("*")] == ["mine"]


@pytest.mark.parametrize("there", [False, True])
def test_a_whole_recording_appears_at_its_end_or_not_at_all(tmp_path, there):
    folder = tmp_path / "a" / "demos"
    if there:
        folder.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TrajectoryError), TrajectoryWriter(folder, OBSERVATION, ACTION, whole=True) as writer:
        list(map(writer.add, [episode(3), episode(2, action=spaces.Discrete(2))]))
    assert sorted(tmp_path.rglob("*")) == before
    with TrajectoryWriter(folder, OBSERVATION, ACTION, whole=True) as writer:
        writer.add(episode(3))
        with pytest.raises(TrajectoryError):
            load_trajectories(folder)
    assert_equal(load_trajectories(folder)[0], episode(3))
    assert {each.name for each in tmp_path.iterdir()} == {"a"}
    assert {each.name for each in folder.parent.iterdir()} == {"demos"}


def test_the_data_set_can_be_changed_in_memory_only(tmp_path):
    folder = record(tmp_path / "demos", [episode(3)])
    data = load_trajectories(folder)
    data.rewards[...] = 9
    assert not np.any(load_trajectories(folder).rewards == 9)


def test_progress_is_reported_to_the_end(tmp_path):
    calls = []
    data = load_trajectories(record(tmp_path / "demos", [episode(30)]), report=lambda *call: calls.append(call))
    total = sum(leaf.nbytes for leaf in (*data.obs.values(), *data.actions.values(), data.rewards))
    assert calls[-1] == (total, total)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
