"""Prioritised replay: the sum tree against a plain list, how often steps are drawn, what survives a restart."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import CountingEnv
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.log import ReplayLog
from maze_offpolicy.replay.priorities import Priorities, SumTree, tree_bytes

from maze_core.base.errors import ConfigError
from maze_core.base.free_ram import free_ram
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.data.rollout import Trajectory
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs

OBSERVATION = spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTION = spaces.Discrete(3)
SEEDS = EpisodeSeeds(0, Purpose.TRAIN_EPISODES)


def found_in(values, wanted):
    """The first place at which the running sum exceeds what is wanted, one by one."""
    running = 0.0
    for place, value in enumerate(values):
        running += value
        if wanted < running:
            return place
    raise AssertionError(wanted)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 21, 100])
def test_the_tree_does_what_a_list_does(size):
    rng = np.random.default_rng(size)
    tree, values = SumTree(size), [0.0] * size
    for _ in range(30):
        slots = rng.integers(size, size=rng.integers(0, 2 * size + 1))
        new = rng.integers(0, 5, size=len(slots)).astype(float)  # whole numbers: sums are exact in any order
        tree.set(slots, new)
        for slot, value in zip(slots, new, strict=True):  # the later of two counts
            values[slot] = value
        assert tree.total == sum(values)
        np.testing.assert_array_equal(tree[np.arange(size)], values)
        if tree.total:
            wanted = np.arange(tree.total)
            assert tree.find(wanted).tolist() == [found_in(values, each) for each in wanted]
    assert SumTree(size)._nodes.nbytes == tree_bytes(size)


def test_nothing_without_a_priority_is_found_whatever_the_rounding():
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.random(37) ** 8 * (rng.random(37) < 0.3)
        values[rng.integers(37)] = 1e-12
        tree = SumTree(37)
        tree.set(np.arange(37), values)
        edges = np.cumsum(values)
        wanted = np.concatenate([edges, np.nextafter(edges, 0), [0.0, tree.total, tree.total * (1 + 1e-12)]])
        assert (values[tree.find(wanted)] > 0).all()


def test_the_order_of_changes_leaves_no_trace():
    """Sums are computed anew, not kept up to date: a restored tree draws the same."""
    rng = np.random.default_rng(1)
    changed, fresh = SumTree(50), SumTree(50)
    for _ in range(100):
        changed.set(rng.integers(50, size=7), rng.random(7) * 1e6)
    changed.set(np.arange(50), values := rng.random(50))
    fresh.set(np.arange(50), values)
    np.testing.assert_array_equal(changed._nodes, fresh._nodes)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_steps_are_drawn_as_often_as_their_priorities_say(exponent):
    errors = np.array([0.5, -1.0, 4.0, 0.0, 2.0])
    priorities = Priorities(5, exponent)
    priorities.add(np.arange(5))
    priorities.update(np.arange(5), errors)
    wanted = (np.abs(errors) + 1e-6) ** exponent
    wanted /= wanted.sum()
    rng = np.random.default_rng(0)
    counts = np.bincount(np.concatenate([priorities.draw(rng, 40) for _ in range(500)]), minlength=5)
    np.testing.assert_allclose(counts / counts.sum(), wanted, atol=0.01)
    # One from each part of the total: the shares of a single draw are as good as they can be.
    once = np.bincount(priorities.draw(rng, 100), minlength=5)
    assert (np.abs(once - 100 * wanted) < 2).all()


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_importance_weights(beta):
    priorities = Priorities(4, 1.0)
    priorities.update(np.arange(4), np.array([1.0, 2.0, 4.0, 8.0]))
    slots = np.array([1, 3, 1])
    chance = np.array([2.0, 8.0, 2.0]) / 15
    weights = (1 / (4 * chance)) ** beta
    np.testing.assert_allclose(priorities.weights(slots, beta), weights / weights.max(), rtol=1e-5)


def stepped(buffer, lengths, steps, truncate=False, rng=None):
    """Step environments of different lengths into the buffer; after each step a batch learns, if there is `rng`."""
    env = SerialVectorEnv(lambda i: CountingEnv(lengths[i], tag=i + 1, truncate=truncate), len(lengths))
    obs = allocate(space_specs(OBSERVATION, "observation"), (len(lengths),))
    env.reset(SEEDS, obs)
    buffer.begin(obs)
    for _ in range(steps):
        actions = {"action": np.zeros(len(lengths), np.int64)}
        buffer.step(actions, env.step(actions, obs), obs)
        if rng is not None:
            batch = buffer.sample(rng, 4, 0.9, beta=0.5)
            buffer.priorities.update(batch.extra["slot"].numpy(), rng.random(4))
        ahead = buffer._ahead[: len(buffer)]
        assert ((buffer.priorities[np.arange(len(buffer))] > 0) == (ahead > 0)).all()
    return obs


@pytest.mark.parametrize("capacity", [1000, 37])
@pytest.mark.parametrize("truncate", [False, True])
def test_exactly_the_rows_with_a_step_have_a_priority(capacity, truncate):
    buffer = ReplayBuffer(OBSERVATION, ACTION, capacity, priority_exponent=0.6)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="no step"):
        buffer.sample(rng, 4, 0.9)
    stepped(buffer, [1, 4, 7], 60, truncate, rng)
    batch = buffer.sample(rng, 500, 0.9, n_step=3, beta=1.0)
    assert batch.extra["weight"].max() == 1
    assert (buffer._ahead[batch.extra["slot"].numpy()] > 0).all()
    assert batch.obs["observation"][:, 2].tolist() == buffer._obs["observation"][batch.extra["slot"], 2].tolist()


def test_recorded_episodes_have_priorities():
    buffer = ReplayBuffer(OBSERVATION, ACTION, 12, priority_exponent=0.6)
    for number in range(3):
        obs = {"observation": np.full((5, 3), number, np.float32)}
        buffer.add_episode(
            Trajectory(obs, {"action": np.zeros(4, np.int64)}, np.ones(4, np.float32), True, False, 4.0, number)
        )
    assert ((buffer.priorities[np.arange(12)] > 0) == (buffer._ahead > 0)).all()


def test_a_new_step_has_the_largest_priority_so_far():
    buffer = ReplayBuffer(OBSERVATION, ACTION, 50, priority_exponent=1.0)
    stepped(buffer, [4], 3)
    buffer.priorities.update(np.array([0, 1]), np.array([7.0, 0.5]))
    obs = {"observation": np.zeros((1, 3), np.float32)}
    env = SerialVectorEnv(lambda i: CountingEnv(9), 1)
    env.reset(SEEDS, obs)
    buffer.step({"action": np.zeros(1, np.int64)}, env.step({"action": np.zeros(1, np.int64)}, obs), obs)
    np.testing.assert_allclose(buffer.priorities[np.arange(5)], [7, 0.5, 1, 7, 0], rtol=1e-5)


def test_sequences_are_not_drawn_by_priority():
    buffer = ReplayBuffer(OBSERVATION, ACTION, 50, priority_exponent=0.6)
    stepped(buffer, [4], 3)
    with pytest.raises(ValueError, match="one by one"):
        buffer.sample(np.random.default_rng(0), 4, 0.9, stretch=2)


@pytest.mark.parametrize("capacity", [1000, 60])
def test_priorities_come_back_with_the_rows(tmp_path, capacity):
    buffer = ReplayBuffer(OBSERVATION, ACTION, capacity, priority_exponent=0.6)
    obs = stepped(buffer, [1, 4, 7], 60, rng=np.random.default_rng(0))
    state, opened = ReplayLog(tmp_path / "replay", buffer).commit(), buffer.open_state()
    again = ReplayBuffer(OBSERVATION, ACTION, capacity, priority_exponent=0.6)
    ReplayLog(tmp_path / "replay", again).load(state)
    again.load_open_state(opened)
    again.begin(obs)
    np.testing.assert_array_equal(again.priorities._tree._nodes, buffer.priorities._tree._nodes)
    assert again.priorities.largest == buffer.priorities.largest


def test_a_buffer_of_another_size_or_kind_takes_what_it_can(tmp_path):
    buffer = ReplayBuffer(OBSERVATION, ACTION, 500, priority_exponent=0.6)
    obs = stepped(buffer, [1, 4, 7], 60, rng=np.random.default_rng(0))
    log = ReplayLog(tmp_path / "replay", buffer)
    state, opened = log.commit(), buffer.open_state()
    small = ReplayBuffer(OBSERVATION, ACTION, 40, priority_exponent=0.6)
    ReplayLog(tmp_path / "replay", small).load(state)
    small.load_open_state(opened)
    rows = buffer.settled - 1 - np.arange(37)  # three slots are for the open rows
    np.testing.assert_array_equal(small.priorities[rows % 40], buffer.priorities[rows % 500])
    small.begin(obs)
    small.sample(np.random.default_rng(0), 20, 0.9)
    plain = ReplayBuffer(OBSERVATION, ACTION, 500)
    ReplayLog(tmp_path / "replay", plain).load(state)
    plain.load_open_state(opened)  # priorities are not asked for
    new = ReplayBuffer(OBSERVATION, ACTION, 500, priority_exponent=0.6)
    ReplayLog(tmp_path / "replay", new).load(state)
    new.load_open_state({"selector": None})
    has_step = new._ahead[: new.rows] > 0
    np.testing.assert_array_equal(new.priorities[np.arange(new.rows)], has_step.astype(np.float32))


def test_the_tree_counts_for_the_memory():
    rows = (free_ram() or 0) // 30  # they fit, but not with 16 to 32 bytes more for each
    if not rows:
        pytest.skip("the free memory is unknown here")
    tiny = spaces.Box(0, 1, (1,), np.uint8)
    assert ReplayBuffer(tiny, ACTION, 100, priority_exponent=0.5).nbytes == 100 * 19 + tree_bytes(100)
    with pytest.raises(ConfigError, match="GB"):
        ReplayBuffer(tiny, ACTION, rows, "algorithm.replay_buffer_size", 0.5)
