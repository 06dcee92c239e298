"""Segments in replay: consecutive steps of one episode, with what is remembered before them, however they are cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import CountingEnv
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.by_sequence import BySequence
from maze_offpolicy.replay.log import ReplayLog
from maze_offpolicy.replay.priorities import SequencePriorities

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.data.rollout import Trajectory
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


def buffer_of(length, burn_in, rows=None, count=2, exponent=None):
    initial = {"policy/sum": torch.zeros(1, 3), "critics/0/n": torch.zeros(1, dtype=torch.int64)}
    selector = BySequence(count, length, burn_in, initial, summed, exponent=exponent)
    return ReplayBuffer(OBSERVATION, ACTION, rows or 400 * length, selector=selector)


def play(buffer, lengths, steps, truncate, env=None, seed=3):
    """Step environments of different lengths into the buffer; return them, their rows and their random numbers."""
    count = len(lengths)
    env = SerialVectorEnv(lambda i: CountingEnv(lengths[i], tag=i + 1, truncate=truncate), count)
    obs = allocate(space_specs(OBSERVATION, "observation"), (count,))
    env.reset(EpisodeSeeds(0, Purpose.TRAIN_EPISODES), obs)
    buffer.begin(obs)
    go_on(buffer, env, obs, steps, np.random.default_rng(seed))
    return env, obs


def go_on(buffer, env, obs, steps, rng):
    for _ in range(steps):
        actions = {"action": rng.integers(3, size=env.num_envs)}
        buffer.step(actions, env.step(actions, obs), obs)


def drawn(buffer, count=1000, **options):
    return buffer.sample(np.random.default_rng(0), count, 0.9, **options)


def assert_segments_are_right(batch, lengths, length, truncate, n_step=1):
    """Every segment is what the environments played, and what is remembered is what was seen before it."""
    sequences = batch.sequences
    rows, following = batch.obs["observation"].numpy(), batch.next_obs["observation"].numpy()
    assert sequences.lengths.sum() == len(batch)
    remembered, observed, next_observed, rewards, discounts = [], [], [], [], []
    for first, count, seen in zip(
        sequences.starts, sequences.lengths, sequences.memories["critics/0/n"].tolist(), strict=True
    ):
        assert first == len(observed)
        tag, episode, begin = map(int, rows[first])
        whole = lengths[tag - 1]
        assert begin % length == 0
        assert count == min(length, whole - begin)
        assert seen == begin
        remembered.append([tag * begin, episode * begin, begin * (begin - 1) / 2])
        for at in range(begin, begin + int(count)):
            last = min(at + n_step, begin + int(count))
            observed.append([tag, episode, at])
            next_observed.append([tag, episode, last])
            rewards.append(sum(0.9**k * (tag + (at + k + 1) / 100) for k in range(last - at)))
            discounts.append(0 if last == whole and not truncate else 0.9 ** (last - at))
    np.testing.assert_allclose(sequences.state["sum"], remembered)
    np.testing.assert_array_equal(rows, observed)
    np.testing.assert_array_equal(following, next_observed)
    np.testing.assert_allclose(batch.extra["reward"], rewards, rtol=1e-5)
    np.testing.assert_allclose(batch.extra["discount"], discounts, rtol=1e-6)
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


@pytest.mark.parametrize("exponent", [None, 0.6])
@pytest.mark.parametrize(("rows", "lengths"), [(40, [6, 6]), (43, [1, 1]), (60, [2, 30]), (80, [30, 30])])
def test_the_oldest_segments_are_overwritten(rows, lengths, exponent):
    buffer = buffer_of(4, 2, rows=rows, exponent=exponent)
    for steps in (1, 2, 5, 30, 300):
        _, obs = play(buffer, lengths, steps, truncate=False)
        if not buffer.ready:
            continue
        batch = drawn(buffer)
        assert_segments_are_right(batch, lengths, 4, truncate=False)
        newest = {int(tag): (int(episode), int(step)) for tag, episode, step in obs["observation"]}
        for tag, episode, step in batch.obs["observation"].tolist():
            length = lengths[int(tag) - 1]
            now = newest[int(tag)]
            age = (now[0] - episode) * (length + 1) + now[1] - step  # rows of this environment since then
            assert age <= rows
        buffer = buffer_of(4, 2, rows=rows, exponent=exponent)


def test_priorities_are_those_of_sequences():
    buffer = buffer_of(4, 2, exponent=1.0)
    play(buffer, [9, 4], 60, truncate=True)
    batch = drawn(buffer, 400, beta=0.5)
    assert batch.extra["weight"].tolist() == [1.0] * len(batch)
    errors = np.where(batch.obs["observation"][:, 0] == 1, 0.05, 2.0)
    buffer.priorities.update(batch.extra["slot"].numpy(), errors)
    more = drawn(buffer, 4000, beta=0.5)
    first = more.obs["observation"][:, 0] == 1
    assert first.float().mean() < 0.1
    np.testing.assert_allclose(more.extra["weight"][first], 1.0)
    np.testing.assert_allclose(more.extra["weight"][~first], (0.05 / 2.0) ** 0.5, rtol=1e-3)
    assert_segments_are_right(more, [9, 4], 4, truncate=True)


def test_the_priority_of_a_sequence_is_a_mixture_of_its_largest_error_and_the_mean():
    priorities = SequencePriorities(5, 0.5)
    priorities.update(np.array([3, 3, 1, 3, 1]), np.array([0.0, -3.0, 1.0, 3.0, 1.0]))
    np.testing.assert_allclose(priorities[np.array([3, 1, 0])], [(0.9 * 3 + 0.1 * 2) ** 0.5, 1.0, 0.0], rtol=1e-5)


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


@pytest.mark.parametrize(("steps", "exponent"), [(0, None), (1, 0.7), (17, None), (22, 0.7), (150, 0.7)])
def test_a_restored_buffer_goes_on_as_if_nothing_had_happened(tmp_path, steps, exponent):
    lengths = [5, 30]
    buffer, again = (buffer_of(4, 3, 80, exponent=exponent) for _ in range(2))
    log, later = (ReplayLog(tmp_path / "r" / "replay", each) for each in (buffer, again))
    env, obs = play(buffer, lengths, steps, truncate=True)
    if exponent is not None and steps > 20:
        batch = drawn(buffer, 100)
        buffer.priorities.update(batch.extra["slot"].numpy(), batch.extra["reward"].numpy())
    rows, opened = log.commit(), buffer.open_state()
    again.check_open_state(opened)
    later.load(rows)
    again.load_open_state(opened)
    again.begin(obs)
    again.forget([])
    rng = np.random.default_rng(5)
    for _ in range(70):
        actions = {"action": rng.integers(3, size=2)}
        result = env.step(actions, obs)
        for each in (buffer, again):
            each.step(actions, result, obs)
        if buffer.ready:
            one, two = (drawn(each, 50) for each in (buffer, again))
            for name in ("obs", "actions", "extra", "next_obs"):
                for key, leaf in getattr(one, name).items():
                    np.testing.assert_array_equal(leaf, getattr(two, name)[key])
            for key, leaf in one.sequences.memories.items():
                np.testing.assert_array_equal(leaf, two.sequences.memories[key])
    assert (buffer.rows, buffer.steps) == (again.rows, again.steps)


def test_an_episode_that_could_not_be_replayed_leaves_no_sequence(tmp_path):
    """After a resume another episode begins in the place of the one that was open."""
    buffer = buffer_of(4, 0)
    _, obs = play(buffer, [50, 9], 6, truncate=True)
    obs["observation"][0] = [1, 1, 0]  # it has begun anew
    rows, opened = buffer.read(0, buffer.settled), buffer.open_state()
    again = buffer_of(4, 0)
    again.restore(0, rows)
    again.steps = buffer.steps
    again.selector.index.sequences.restore(0, buffer.selector.index.sequences.read(0, 2))
    again.load_open_state(opened)
    again.begin(obs)
    again.forget([0])
    for t in range(1, 9):
        obs = {"observation": np.array([[1, 1, t], [2, 0, 6 + t]], np.float32)}
        rewards = np.array([1 + t / 100, 2 + (6 + t) / 100], np.float32)
        nothing = np.zeros(2, bool)
        result = StepResult(rewards, nothing, nothing, ~nothing, np.zeros(0, np.int64), None)
        again.step({"action": np.zeros(2, np.int64)}, result, obs)
    starts = drawn(again).sequences.starts
    first = {tuple(row) for row in drawn(again).obs["observation"][starts].tolist()}
    assert first == {(1, 0, 0), (2, 0, 0), (1, 1, 0), (2, 0, 4), (1, 1, 4), (2, 0, 8)}


def test_filler_rows_take_no_step_and_begin_an_episode():
    """As gymnasium's own vector environments have them: after its end, an environment takes a step that is none."""
    buffer = buffer_of(2, 1)
    obs = {"observation": np.array([[1, 0, 0], [2, 0, 0]], np.float32)}
    buffer.begin(obs)
    flags = np.zeros(2, bool)
    played = np.array([0, 0])
    for t in range(12):
        filler = (np.array([t % 4 == 3, False])) if t else flags
        ends = np.array([t % 4 == 2, False])
        played = np.where(filler, 0, played + 1)
        episode = [t // 4 + (t % 4 == 3), 0]
        obs = {"observation": np.array([[1, episode[0], played[0]], [2, 0, played[1]]], np.float32)}
        rewards = np.array([1 + played[0] / 100, 2 + played[1] / 100], np.float32)
        ended = np.flatnonzero(ends)
        final = {"observation": obs["observation"][ended]} if len(ended) else None
        result = StepResult(rewards, flags, ends, ~filler, ended, final, has_filler=bool(filler.any()))
        buffer.step({"action": np.zeros(2, np.int64)}, result, obs)
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
    selector = BySequence(3, length, burn_in, initial, both, targets)
    buffer = ReplayBuffer(OBSERVATION, ACTION, 400 * length, selector=selector)
    env, _ = play(buffer, [1, 4, 11], 60, truncate=True)
    assert not any(key.startswith("target") for key in buffer.selector.memory(*NOBODY))
    assert not any("target" in name for name in selector.index.states.specs)
    sequences = drawn(buffer, 200).sequences
    rows = drawn(buffer, 200).obs["observation"][sequences.starts]
    for (tag, episode, begin), found in zip(rows.tolist(), sequences.beyond("target").state["sum"], strict=True):
        read = range(int(begin) - min(burn_in, int(begin)), int(begin))
        before = torch.tensor([[tag, episode, t] for t in range(read.start)]).reshape(-1, 3).sum(0)
        again = torch.tensor([[tag, episode, t] for t in read]).reshape(-1, 3).sum(0)
        torch.testing.assert_close(found, before + 1000 * again)
    for (tag, episode, begin), found in zip(rows.tolist(), sequences.state["sum"], strict=True):
        whole = torch.tensor([[tag, episode, t] for t in range(int(begin))]).reshape(-1, 3).sum(0)
        torch.testing.assert_close(found, whole)  # the leader has read all of it itself
    env.close()


def test_what_is_remembered_of_the_episodes_that_go_on():
    buffer = buffer_of(4, 2)
    play(buffer, [50, 7], 23, truncate=False)
    counts = buffer.selector.memory(*NOBODY)
    assert counts["critics/0/n"].tolist() == [23, 2]
    assert counts["policy/sum"][0].tolist() == [23.0, 0.0, 22 * 23 / 2]


def test_what_cannot_be_is_refused():
    buffer = buffer_of(4, 2)
    with pytest.raises(ValueError, match="no complete sequence"):
        drawn(buffer)
    with pytest.raises(ConfigError, match=r"are for 4, which cannot change to 5") as caught:
        buffer_of(5, 2).check_open_state(buffer.open_state())
    assert caught.value.where == "algorithm.sequence_length"
    with pytest.raises(ConfigError, match="memory"):
        buffer_of(10, 0, rows=10**12)
