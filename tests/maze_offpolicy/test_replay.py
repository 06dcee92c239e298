"""Replay: every sampled transition equals the recorded one, whatever is interleaved, overwritten or cut."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import CountingEnv
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.row_specs import row_specs

from maze_core.base.errors import ConfigError
from maze_core.base.free_ram import check_ram, free_ram
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.data.rollout import Trajectory
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, allocated_bytes
from maze_core.envs.vector import StepResult

OBSERVATION = spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTION = spaces.Discrete(3)
SEEDS = EpisodeSeeds(0, Purpose.TRAIN_EPISODES)


@dataclass
class Step:
    """One transition as the oracle recorded it."""

    action: int
    reward: float
    terminated: bool
    truncated: bool
    next_obs: tuple[float, ...]
    following: tuple[float, ...] | None
    """The observation the next transition of the same episode begins at."""


def play(buffer: ReplayBuffer, lengths: list[int], steps: int, truncate: bool) -> dict[tuple[float, ...], Step]:
    """Step environments of different lengths into the buffer; the transitions by their first observation."""
    env = SerialVectorEnv(lambda i: CountingEnv(lengths[i], tag=i + 1, truncate=truncate), len(lengths))
    rng = np.random.default_rng(3)
    obs = allocate({"observation": row_specs(OBSERVATION, ACTION)["obs/observation"]}, (len(lengths),))
    env.reset(SEEDS, obs)
    buffer.begin(obs)
    known: dict[tuple[float, ...], Step] = {}
    for _ in range(steps):
        before = obs["observation"].copy()
        actions = rng.integers(3, size=len(lengths))
        result = env.step({"action": actions}, obs)
        buffer.step({"action": actions}, result, obs)
        for i in range(len(lengths)):
            after = obs["observation"][i]
            if i in result.final_indices:
                after = result.final_obs["observation"][list(result.final_indices).index(i)]
            ended = bool(result.terminated[i] or result.truncated[i])
            known[tuple(before[i])] = Step(
                int(actions[i]),
                float(result.reward[i]),
                bool(result.terminated[i]),
                bool(result.truncated[i]),
                tuple(after),
                None if ended else tuple(after),
            )
    return known


def all_rows(buffer: ReplayBuffer, **options):
    return buffer.sample(np.random.default_rng(0), 4000, 0.9, **options)


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("capacity", [1000, 37])
def test_every_transition_is_the_recorded_one(capacity, truncate):
    buffer = ReplayBuffer(OBSERVATION, ACTION, capacity)
    known = play(buffer, [1, 4, 7], 60, truncate)
    batch = all_rows(buffer)
    seen = set()
    for obs, action, reward, discount, after in zip(
        batch.obs["observation"].tolist(),
        batch.actions["action"].tolist(),
        batch.extra["reward"].tolist(),
        batch.extra["discount"].tolist(),
        batch.next_obs["observation"].tolist(),
        strict=True,
    ):
        step = known[tuple(obs)]
        assert (action, tuple(after)) == (step.action, step.next_obs)
        assert reward == pytest.approx(step.reward)
        # The value of what follows counts for nothing at termination only.
        assert discount == pytest.approx(0.0 if step.terminated else 0.9)
        seen.add(tuple(obs))
    assert len(buffer) == min(capacity, buffer.rows)
    if capacity == 1000:
        assert seen == set(known)
    else:
        # The newest rows are there, and nothing else.
        newest = list(known)[-len(seen) :]
        assert len(seen) > 20
        assert seen == set(newest)


@pytest.mark.parametrize("truncate", [False, True])
def test_n_step_returns_stop_at_the_end_of_an_episode(truncate):
    buffer = ReplayBuffer(OBSERVATION, ACTION, 1000)
    known = play(buffer, [1, 4, 7], 60, truncate)
    batch = all_rows(buffer, n_step=3)
    lengths = set()
    for obs, reward, discount, after in zip(
        batch.obs["observation"].tolist(),
        batch.extra["reward"].tolist(),
        batch.extra["discount"].tolist(),
        batch.next_obs["observation"].tolist(),
        strict=True,
    ):
        step, total, count = known[tuple(obs)], 0.0, 0
        while True:
            total += 0.9**count * step.reward
            count += 1
            following = None if step.following is None else known.get(step.following)
            if count == 3 or following is None:
                break
            step = following
        assert reward == pytest.approx(total)
        assert tuple(after) == step.next_obs
        assert discount == pytest.approx(0.0 if step.terminated else 0.9**count)
        lengths.add(count)
    assert lengths == {1, 2, 3}


def test_stretches_are_consecutive_steps():
    buffer = ReplayBuffer(OBSERVATION, ACTION, 1000)
    known = play(buffer, [5, 50], 60, truncate=False)
    batch = buffer.sample(np.random.default_rng(0), 30, 0.9, stretch=3)
    rows = [tuple(obs) for obs in batch.obs["observation"].tolist()]
    assert len(rows) == 30
    links = [(rows[10 * k + i], rows[10 * (k + 1) + i]) for k in range(2) for i in range(10)]
    consecutive = [following == known[row].following for row, following in links]
    whole = [known[row].following in known for row, _ in links]
    assert consecutive == whole
    assert 10 < sum(consecutive) <= 20


def test_sampling_is_uniform_over_steps():
    buffer = ReplayBuffer(OBSERVATION, ACTION, 1000)
    known = play(buffer, [2, 3], 20, truncate=True)
    batch = buffer.sample(np.random.default_rng(0), 40_000, 0.9)
    counts = {}
    for obs in batch.obs["observation"].tolist():
        counts[tuple(obs)] = counts.get(tuple(obs), 0) + 1
    assert set(counts) == set(known)
    expected = 40_000 / len(known)
    assert all(abs(count - expected) < 6 * expected**0.5 for count in counts.values())


def test_filler_rows_are_no_transitions():
    buffer = ReplayBuffer(OBSERVATION, ACTION, 100)

    def result(valid, ended=()):
        flags = np.array([i in ended for i in range(2)])
        final = {"observation": np.full((len(ended), 3), 9.0, np.float32)} if ended else None
        numbers = np.array(ended, np.int64)
        rewards, filler = np.ones(2, np.float32), not all(valid)
        return StepResult(rewards, flags, np.zeros(2, bool), np.array(valid), numbers, final, has_filler=filler)

    def observe(value):
        return {"observation": np.array([[0, 0, value], [1, 0, value]], np.float32)}

    actions = {"action": np.zeros(2, np.int64)}
    buffer.begin(observe(0))
    buffer.step(actions, result([True, True], ended=(1,)), observe(1))
    buffer.step(actions, result([True, False]), observe(2))
    buffer.step(actions, result([True, True]), observe(3))
    batch = all_rows(buffer)
    seen = {tuple(obs): tuple(after) for obs, after in zip(*_lists(batch), strict=True)}
    assert buffer.steps == 5
    assert seen == {
        (0, 0, 0): (0, 0, 1),
        (0, 0, 1): (0, 0, 2),
        (0, 0, 2): (0, 0, 3),
        (1, 0, 0): (9, 9, 9),
        (1, 0, 2): (1, 0, 3),
    }


def _lists(batch):
    return batch.obs["observation"].tolist(), batch.next_obs["observation"].tolist()


def test_recorded_episodes_are_followed_by_live_steps():
    buffer = ReplayBuffer(OBSERVATION, ACTION, 200)
    for tag, terminated, truncated in ((-1, True, False), (-2, False, True), (-3, False, False)):
        obs = np.array([[tag, 0, t] for t in range(5)], np.float32)
        actions = {"action": np.arange(4) % 3}
        buffer.add_episode(
            Trajectory({"observation": obs}, actions, np.full(4, tag, np.float32), terminated, truncated, 4.0 * tag)
        )
    known = play(buffer, [3], 10, truncate=False)
    batch = all_rows(buffer)
    discounts = {}
    for obs, after, discount in zip(*_lists(batch), batch.extra["discount"], strict=True):
        discounts[tuple(obs)] = round(float(discount), 3)
        if obs[0] < 0:
            assert after == [obs[0], obs[1], obs[2] + 1]
    assert buffer.steps == 12 + 10
    assert set(discounts) == set(known) | {(t, 0, s) for t, s in itertools.product((-1, -2, -3), range(4))}
    assert [discounts[t, 0, 3] for t in (-1, -2, -3)] == [0.0, 0.9, 0.9]


def test_images_stay_bytes_and_are_stored_once():
    image = spaces.Dict(
        {"camera": spaces.Box(0, 255, (12, 7, 3), np.uint8), "speed": spaces.Box(-1, 1, (), np.float64)}
    )
    action = spaces.Box(-2, 2, (2,), np.float32)
    buffer = ReplayBuffer(image, action, 50)
    # One camera image, one speed, two action components, reward, two flags, distance to the next row.
    assert buffer.nbytes == 50 * (12 * 7 * 3 + 4 + 2 * 4 + 4 + 1 + 1 + 4)
    assert buffer.nbytes == sum(column.nbytes for column in buffer.columns.values())
    assert buffer.nbytes == allocated_bytes(row_specs(image, action), (50,))
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(4, 12, 7, 3), dtype=np.uint8)
    obs = {"camera": frames, "speed": np.zeros(4, np.float32)}
    actions = {"action": np.zeros((3, 2), np.float32)}
    buffer.add_episode(Trajectory(obs, actions, np.zeros(3, np.float32), False, True, 0.0))
    batch = buffer.sample(rng, 20, 0.9)
    assert batch.obs["camera"].numpy().dtype == batch.next_obs["camera"].numpy().dtype == np.uint8
    for now, after in zip(batch.obs["camera"].numpy(), batch.next_obs["camera"].numpy(), strict=True):
        (index,) = np.flatnonzero((frames == now).all((1, 2, 3)))
        assert np.array_equal(frames[index + 1], after)


def test_stored_observations_do_not_alias_the_environments_buffer():
    buffer = ReplayBuffer(OBSERVATION, ACTION, 100)
    obs = {"observation": np.zeros((1, 3), np.float32)}
    buffer.begin(obs)
    obs["observation"][:] = 5
    none = np.zeros(1, bool)
    buffer.step(
        {"action": np.zeros(1, np.int64)},
        StepResult(np.zeros(1, np.float32), none, none, ~none, np.zeros(0, np.int64)),
        obs,
    )
    obs["observation"][:] = 7
    batch = buffer.sample(np.random.default_rng(0), 2, 0.9)
    assert _lists(batch) == ([[0, 0, 0]] * 2, [[5, 5, 5]] * 2)


def test_too_large_a_buffer_is_refused_before_it_is_allocated():
    huge = spaces.Box(0, 255, (1000, 1000, 3), np.uint8)
    with pytest.raises(ConfigError) as caught:
        ReplayBuffer(huge, ACTION, 10_000_000, "algorithm.replay_buffer_size")
    message = str(caught.value)
    assert "algorithm.replay_buffer_size: 10,000,000 rows" in message
    assert "30000.2 GB" in message
    assert "Set algorithm.replay_buffer_size to" in message
    assert "uint8" in message


def test_memory_is_compared_with_what_is_free(monkeypatch):
    monkeypatch.setattr("maze_core.base.free_ram.free_ram", lambda: 1000)
    check_ram(900, 10, "here")
    monkeypatch.setattr("maze_core.base.free_ram.free_ram", lambda: 10**9)
    with pytest.raises(ConfigError, match="90 bytes each") as caught:
        check_ram(901 * 10**6 // 90 * 90, 901 * 10**6 // 90, "here")
    assert caught.value.where == "here"
    assert "Set here to at most 10,000,000" in str(caught.value)
    assert free_ram() is None or free_ram() > 10**6
