"""Segments in replay: consecutive steps of one episode, with what is remembered before them, however they are cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import CountingEnv

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.assembler import Assembler
from maze_core.data.recordings.trajectories import Trajectory
from maze_core.data.replay.log import ReplayLog
from maze_core.data.replay.segment_replay import SegmentReplay
from maze_core.data.replay.segments import replayed
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import StepResult

OBSERVATION = spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTION = spaces.Discrete(3)
NOBODY = np.zeros(0, np.int64), {}
"""The rows whose action is open, and what it was chosen from."""
SIZES = [(1, 0), (3, 0), (4, 2), (3, 7), (100, 5)]
"""Steps of a segment, and of its burn-in."""


def summed(obs, lengths, state):
    """Networks that remember the sum and the count of all observations of an episode."""
    parts = torch.split(obs["observation"], lengths.tolist())
    sums = torch.stack([part.sum(0) for part in parts])
    return {"policy/sum": state["policy/sum"] + sums, "critics/0/n": state["critics/0/n"] + torch.from_numpy(lengths)}


def buffer_of(length, burn_in, rows=None, count=2):
    initial = {"policy/sum": torch.zeros(1, 3), "critics/0/n": torch.zeros(1, dtype=torch.int64)}
    return SegmentReplay(OBSERVATION, ACTION, rows or 200 * length, length, burn_in, initial, summed, count)


def play(buffer, lengths, steps, truncate, env=None, seed=3):
    """Step environments of different lengths into the buffer; return them, their rows and their random numbers."""
    count = len(lengths)
    env = SerialVectorEnv(lambda i: CountingEnv(lengths[i], tag=i + 1, truncate=truncate), count)
    obs = allocate(space_specs(OBSERVATION, "observation"), (count,))
    env.reset(EpisodeSeeds(0, Purpose.TRAIN_EPISODES), obs)
    go_on(buffer, env, obs, steps, np.random.default_rng(seed))
    return env, obs


def go_on(buffer, env, obs, steps, rng):
    assembler = Assembler(env.num_envs)
    for _ in range(steps):
        actions, before = {"action": rng.integers(3, size=env.num_envs)}, {k: leaf.copy() for k, leaf in obs.items()}
        buffer.add(assembler.add(before, actions, env.step(actions, obs), obs))


def drawn(buffer, count=1000, **options):
    return buffer.sample(np.random.default_rng(0), count, 0.9, **options)


def assert_segments_are_right(batch, lengths, length, truncate, n_step=1):
    """Every segment is what the environments played, and what is remembered is what was seen before it."""
    sequences = replayed(batch)
    rows, following = batch.obs["observation"].numpy(), batch.next_obs["observation"].numpy()
    assert sequences.lengths.sum() == len(batch)
    for first, count, state, seen in zip(
        sequences.starts, sequences.lengths, sequences.state["sum"], sequences.memories["critics/0/n"], strict=True
    ):
        tag, episode, begin = rows[first]
        whole = lengths[int(tag) - 1]
        assert begin % length == 0
        assert count == min(length, whole - begin)
        assert seen == begin
        np.testing.assert_allclose(state, [tag * begin, episode * begin, begin * (begin - 1) / 2])
        for t in range(count):
            at = int(begin) + t
            assert rows[first + t].tolist() == [tag, episode, at]
            last = min(at + n_step, int(begin) + count)
            assert following[first + t].tolist() == [tag, episode, last]
            wanted = sum(0.9**k * (tag + (at + k + 1) / 100) for k in range(last - at))
            assert batch.extra["reward"][first + t] == pytest.approx(wanted, rel=1e-5)
            ends = last == whole and not truncate
            assert batch.extra["discount"][first + t] == pytest.approx(0 if ends else 0.9 ** (last - at))
    # The networks' rows: each segment and the observation after it; its rows and the following ones are among them.
    assert len(sequences.obs["observation"]) == len(batch) + len(sequences)
    np.testing.assert_array_equal(sequences.obs["observation"][sequences.following], following)
    assert sequences.beyond("critics").lengths.tolist() == (sequences.lengths + 1).tolist()
    assert sequences.of("critics").state["0/n"] is sequences.memories["critics/0/n"]


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize(("length", "burn_in"), SIZES)
def test_segments_are_those_that_were_played(length, burn_in, truncate):
    buffer = buffer_of(length, burn_in, count=3)
    lengths = [1, 4, 11]
    play(buffer, lengths, 60, truncate)
    assert buffer.steps == 180
    for n_step in (1, 3):
        assert_segments_are_right(drawn(buffer, n_step=n_step), lengths, length, truncate, n_step)
    seen = {tuple(row) for row in drawn(buffer, 5000).obs["observation"].tolist()}
    closed = 55 + 5 // length * length if length < 11 else 55  # of the longest, what belongs to complete segments
    assert [len({row for row in seen if row[0] == tag}) for tag in (1, 2, 3)] == [60, 60, closed]


def test_all_steps_are_equally_likely():
    buffer = buffer_of(4, 2)
    play(buffer, [2, 9], 72, truncate=True)
    rows = buffer.sample(np.random.default_rng(1), 60_000, 0.9).obs["observation"].numpy()
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(counts) == 144
    assert abs(counts / counts.mean() - 1).max() < 0.2


def test_the_oldest_segments_are_overwritten():
    buffer = buffer_of(4, 2, rows=40)
    play(buffer, [6, 6], 300, truncate=False)
    assert len(buffer) == 10
    assert {row[1] for row in drawn(buffer).obs["observation"].tolist()} <= {47.0, 48.0, 49.0}
    assert_segments_are_right(drawn(buffer), [6, 6], 4, truncate=False)


@pytest.mark.parametrize(("length", "burn_in"), SIZES)
def test_recorded_episodes(length, burn_in):
    buffer, count = buffer_of(length, burn_in), 13
    obs = np.array([[1, 0, t] for t in range(count + 1)], np.float32)
    rewards = np.array([1 + (t + 1) / 100 for t in range(count)], np.float32)
    buffer.add_episode(Trajectory({"observation": obs}, {"action": np.arange(count) % 3}, rewards, True, False, 0.0))
    assert buffer.steps == count
    batch = drawn(buffer)
    assert_segments_are_right(batch, [count], length, truncate=False)
    np.testing.assert_array_equal(batch.actions["action"], batch.obs["observation"][:, 2] % 3)


@pytest.mark.parametrize("steps", [0, 1, 17, 22])
def test_a_restored_buffer_goes_on_as_if_nothing_had_happened(tmp_path, steps):
    lengths = [5, 30]
    buffer, again = buffer_of(4, 3, 60), buffer_of(4, 3, 60)
    log, later = ReplayLog(tmp_path / "r" / "replay", buffer), ReplayLog(tmp_path / "r" / "replay", again)
    env, obs = play(buffer, lengths, steps, truncate=True)
    rows, opened = log.commit(), buffer.open_state()
    again.load_open_state(opened)
    later.load(rows)
    again.forget([1] if steps == 0 else [])
    rng, assembler = np.random.default_rng(5), Assembler(2)
    for _ in range(40):
        actions, before = {"action": rng.integers(3, size=2)}, {key: leaf.copy() for key, leaf in obs.items()}
        done = assembler.add(before, actions, env.step(actions, obs), obs)
        for each in (buffer, again):
            each.add(done)
    assert (buffer.rows, buffer.steps) == (again.rows, again.steps)
    for key, leaf in drawn(buffer).obs.items():
        np.testing.assert_array_equal(leaf, drawn(again).obs[key])
    for name, column in buffer.read(buffer.rows - 15, 15).items():
        np.testing.assert_array_equal(column, again.read(buffer.rows - 15, 15)[name])


def test_filler_rows_take_no_step_and_begin_an_episode():
    """As gymnasium's own vector environments have them: after its end, an environment takes a step that is none."""
    buffer = buffer_of(2, 1)
    obs, assembler = {"observation": np.array([[1, 0, 0], [2, 0, 0]], np.float32)}, Assembler(2)
    flags = np.zeros(2, bool)
    played = np.array([0, 0])
    for t in range(12):
        filler = (np.array([t % 4 == 3, False])) if t else flags
        ends = np.array([t % 4 == 2, False])
        played = np.where(filler, 0, played + 1)
        episode, before = [t // 4 + (t % 4 == 3), 0], obs
        obs = {"observation": np.array([[1, episode[0], played[0]], [2, 0, played[1]]], np.float32)}
        rewards = np.array([1 + played[0] / 100, 2 + played[1] / 100], np.float32)
        ended = np.flatnonzero(ends)
        final = {"observation": obs["observation"][ended]} if len(ended) else None
        result = StepResult(rewards, flags, ends, ~filler, ended, final, has_filler=bool(filler.any()))
        buffer.add(assembler.add(before, {"action": np.zeros(2, np.int64)}, result, obs))
    assert buffer.steps == 21
    assert_segments_are_right(drawn(buffer), [3, 12], 2, truncate=True)


@pytest.mark.parametrize(("length", "burn_in"), SIZES)
def test_a_target_reads_the_burn_in_from_what_its_leader_remembered_before_it(length, burn_in):
    """It remembers the thousandfold of what it reads itself, and no more than `burn_in` observations."""

    def both(obs, lengths, state):
        after, parts = summed(obs, lengths, state), torch.split(1000 * obs["observation"], lengths.tolist())
        if "target/sum" in state:
            after["target/sum"] = state["target/sum"] + torch.stack([part.sum(0) for part in parts])
        return after

    initial = {"policy/sum": torch.zeros(1, 3), "critics/0/n": torch.zeros(1, dtype=torch.int64)}
    targets = {"target": "policy", "targets": "critics"}
    buffer = SegmentReplay(OBSERVATION, ACTION, 200 * length, length, burn_in, initial, both, 3, targets=targets)
    env, _ = play(buffer, [1, 4, 11], 60, truncate=True)
    assert not any(key.startswith("target") for key in buffer.memory(*NOBODY))
    assert not any("target" in name for name in buffer.specs)
    sequences = replayed(drawn(buffer, 200))
    rows = drawn(buffer, 200).obs["observation"][sequences.starts]
    for (tag, episode, begin), found in zip(rows.tolist(), sequences.beyond("target").state["sum"], strict=True):
        read = range(int(begin) - min(burn_in, int(begin)), int(begin))
        before = torch.tensor([[tag, episode, t] for t in range(read.start)]).reshape(-1, 3).sum(0)
        again = torch.tensor([[tag, episode, t] for t in read]).reshape(-1, 3).sum(0)
        torch.testing.assert_close(found, before + 1000 * again)
    env.close()


def test_what_is_remembered_of_the_episodes_that_go_on():
    buffer = buffer_of(4, 2)
    play(buffer, [50, 7], 23, truncate=False)
    counts = buffer.memory(*NOBODY)
    assert counts["critics/0/n"].tolist() == [23, 2]
    assert counts["policy/sum"][0].tolist() == [23.0, 0.0, 22 * 23 / 2]


def test_what_cannot_be_is_refused():
    buffer = buffer_of(4, 2)
    with pytest.raises(ValueError, match="no complete segment"):
        drawn(buffer)
    with pytest.raises(ConfigError, match=r"are for 4, which cannot change to 5") as caught:
        buffer_of(5, 2).load_open_state(buffer.open_state())
    assert caught.value.where == "algorithm.sequence_length"
    with pytest.raises(ConfigError, match="memory"):
        buffer_of(10, 0, rows=10**12)
