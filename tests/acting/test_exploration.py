"""Exploration: how often actions are exchanged or moved, within what is allowed, and exactly again after a restart."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk
from maze_offpolicy import ActionNoise, EpsilonGreedy
from maze_offpolicy.collect.replay_collector import ReplayCollector
from maze_onpolicy.collect.rollout_collector import RolloutCollector

from maze_core.base.errors import ConfigError
from maze_core.collect.agents.agent import Choice
from maze_core.collect.agents.network import NetworkAgent
from maze_core.models.mlp import MlpConfig, MlpModel

OVERRIDES = {"evaluation.n_episodes": 0}

ROWS = 400
SEEN = spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "action_mask": spaces.MultiBinary(4)})
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
ACTIONS = {
    "Discrete": spaces.Discrete(4),
    "Box": BOX,
    "Dict": spaces.Dict({"door": spaces.Discrete(3), "pull": BOX, "bits": spaces.MultiBinary(3)}),
}


def rngs(seed=0):
    return [np.random.default_rng([seed, row]) for row in range(ROWS)]


def of_zeros(space):
    leaves = space.spaces if isinstance(space, spaces.Dict) else {"action": space}
    actions = {key: np.full((ROWS, *(leaf.shape or ())), 0, leaf.dtype) for key, leaf in leaves.items()}
    return Choice(actions, actions)


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_share_of_the_rows_is_exchanged(kind):
    space = ACTIONS[kind]
    exploration = EpsilonGreedy(spaces.Box(-1, 1, (2,)), space, rngs(), lambda: 0.25)
    chosen = of_zeros(space)
    counts = []
    for _ in range(20):
        explored = exploration.explore({}, chosen)
        changed = np.zeros(ROWS, bool)
        for key, leaf in explored.actions.items():
            assert leaf.dtype == chosen.actions[key].dtype or leaf.dtype.kind == chosen.actions[key].dtype.kind
            changed |= (leaf != 0).reshape(ROWS, -1).any(-1)
        counts.append(changed.mean())
    # One of four random choices is the one that was made.
    expected = {"Discrete": 0.25 * 3 / 4, "Box": 0.25, "Dict": 0.25}[kind]
    assert np.mean(counts) == pytest.approx(expected, abs=0.02)


def test_only_what_the_masks_allow():
    exploration = EpsilonGreedy(SEEN, spaces.Discrete(4), rngs(), lambda: 1.0)
    masks = np.tile(np.array([0, 1, 0, 1], np.int8), (ROWS, 1))
    explored = exploration.explore({"action_mask": masks}, of_zeros(spaces.Discrete(4)))
    assert set(explored.actions["action"].tolist()) == {1, 3}


def test_epsilon_is_that_of_the_moment_and_chance_goes_on():
    now = [0.0]
    first, second = (EpsilonGreedy(SEEN["x"], spaces.Discrete(4), rngs(seed), lambda: now[0]) for seed in (0, 1))
    chosen = of_zeros(spaces.Discrete(4))
    assert first.explore({}, chosen) is chosen
    now[0] = 1.0
    first.explore({}, chosen)
    second.load_state(first.state())
    mine, theirs = (each.explore({}, chosen).actions["action"] for each in (first, second))
    np.testing.assert_array_equal(mine, theirs)
    assert (mine != 0).any()


def test_noise_in_half_ranges_within_the_bounds():
    exploration = ActionNoise(BOX, np.random.default_rng(1), 0.1)
    chosen = Choice({}, {"action": np.tile(np.array([0, 5], np.float32), (ROWS, 1))})
    moved = np.concatenate([exploration.explore({}, chosen).actions["action"] for _ in range(50)])
    assert moved.dtype == np.float32
    np.testing.assert_allclose(moved.mean(0), [0, 5], atol=0.02)
    np.testing.assert_allclose(moved.std(0), [0.2, 0.5], rtol=0.03)
    corner = np.tile(BOX.high, (ROWS, 1))
    at_the_bound = exploration.explore({}, Choice({}, {"action": corner})).actions["action"]
    assert (at_the_bound <= BOX.high).all()
    assert (at_the_bound == BOX.high).any()
    other = ActionNoise(BOX, np.random.default_rng(7), 0.1)
    other.load_state(exploration.state())
    mine, theirs = (each.explore({}, chosen).actions["action"] for each in (exploration, other))
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-np.inf, 1, (2,), np.float32)])
def test_noise_needs_bounds(space):
    with pytest.raises(ConfigError, match="finite bounds"):
        ActionNoise(space, np.random.default_rng(), 0.1)


def test_a_collector_explores_around_the_most_likely_actions(quick):
    """Greedy where epsilon is 0, all random where it is 1; the random states are part of its state."""
    now = [0.0]
    run = quick(SeededWalk, "sac", {"algorithm.initial_buffer_size": 8, "algorithm.num_envs": 2}).run
    rngs = [np.random.default_rng(row) for row in range(2)]
    exploration = EpsilonGreedy(run.observation_space, run.action_space, rngs, lambda: now[0])
    collector = ReplayCollector(run, 5, 2, 400, exploration)
    collector.collect()
    greedy = collector.replay.read(0, collector.replay.settled)["action/action"]
    now[0] = 1.0
    for _ in range(10):
        collector.collect()
    later = collector.replay.read(0, collector.replay.settled)["action/action"][len(greedy) :]
    assert np.bincount(later, minlength=3).min() > 5
    assert collector.state()["exploration"] == exploration.state()


def test_a_rollout_explores_around_the_most_likely_actions(quick):
    now = [0.0]
    run = quick(SeededWalk, "ppo", {"algorithm.num_envs": 2}).run
    exploration = EpsilonGreedy(run.observation_space, run.action_space, rngs()[:2], lambda: now[0])
    collector = RolloutCollector(run, 20, 2, exploration)
    rollout = collector.collect()
    rows = rollout.obs["observation"][:-1].reshape(40, -1)
    greedy = run.policy.distribution({"observation": torch.from_numpy(rows)}).mode()["action"]
    np.testing.assert_array_equal(rollout.actions["action"].reshape(40), greedy)
    now[0] = 1.0
    assert np.bincount(collector.collect().actions["action"].reshape(40)).min() > 3
    assert collector.state()["exploration"] == exploration.state()


def test_an_agent_restores_its_exploration():
    policy = MlpModel(MlpConfig(name="mlp")).build_policy(SEEN["x"], ACTIONS["Discrete"], MlpConfig(name="mlp"))

    def agent(seed):
        return NetworkAgent(
            policy, None, exploration=EpsilonGreedy(SEEN["x"], ACTIONS["Discrete"], rngs(seed), lambda: 0.5)
        )

    obs = {"observation": np.zeros((ROWS, 2), np.float32)}
    first, second = agent(0), agent(1)
    first.act(obs)
    second.load_state(first.state())
    mine, theirs = (each.act(obs).actions["action"] for each in (first, second))
    np.testing.assert_array_equal(mine, theirs)
    assert len(set(mine.tolist())) == 4


@pytest.mark.parametrize("kind", ACTIONS)
def test_what_is_drawn_ahead_is_what_would_be_drawn_step_by_step(kind):
    """Also while epsilon falls: half of the steps exchange nothing."""
    steps = [0]

    def epsilon(later=0):
        return 0.3 if (steps[0] + later) // ROWS % 2 else 0.0

    chosen = of_zeros(ACTIONS[kind])
    one, other = (EpsilonGreedy(SEEN["x"], ACTIONS[kind], rngs(), epsilon, epsilon) for _ in range(2))
    drawn = one.ahead(6, ROWS)
    for t in range(6):
        changed = one.change(chosen, {key: leaf[t] for key, leaf in drawn.items()})
        explored = other.explore({}, chosen)
        assert (explored is chosen) == (t % 2 == 0)
        for key, leaf in explored.actions.items():
            np.testing.assert_array_equal(changed.actions[key], leaf)
        steps[0] += ROWS
    assert one.state() == other.state()


def test_noise_that_is_drawn_ahead():
    pair = spaces.Dict({"left": BOX, "right": spaces.Box(-1, 1, (3,))})
    one, other = (ActionNoise(pair, np.random.default_rng(3), 0.1) for _ in range(2))
    chosen = of_zeros(pair)
    drawn = one.ahead(4, ROWS)
    for t in range(4):
        changed = one.change(chosen, {key: leaf[t] for key, leaf in drawn.items()})
        for key, leaf in other.explore({}, chosen).actions.items():
            np.testing.assert_array_equal(changed.actions[key], leaf)
    assert one.state() == other.state()


def test_what_cannot_be_drawn_ahead():
    """Masks decide what is drawn, and without `later` the epsilons to come are not known."""
    masked = EpsilonGreedy(SEEN, spaces.Discrete(4), rngs(), lambda: 0.5, lambda steps: 0.5)
    assert masked.change is None
    assert EpsilonGreedy(SEEN["x"], spaces.Discrete(4), rngs(), lambda: 0.5).change is None
