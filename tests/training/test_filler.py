"""The step between two episodes of natively vectorised environments reaches no algorithm, normaliser, rule or check."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from maze_foreign_envs.native import NativeVectorEnv
from maze_normalizers.estimation import estimate_statistics
from maze_normalizers.normalizer import Estimation, ObservationNormalizer
from maze_recordings.episode_recorder import play

from maze_core.base.errors import RunError
from maze_core.collect.agents.rule import RuleAgent
from maze_core.collect.policies.base import ActingPolicy
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.masks import mask_size
from maze_core.envs.spaces import flatten_space
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl

OVERRIDES = {"evaluation.n_episodes": 0}

ACTIONS = {
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "Dict": spaces.Dict({"a": spaces.Discrete(2), "b": spaces.MultiDiscrete([3, 2]), "x": spaces.Box(-1, 1, (2,))}),
}
MODES = [mode.value for mode in AutoresetMode]
NEXT_STEP = AutoresetMode.NEXT_STEP.value
"""The mode that has filler rows."""
LENGTHS = (2, 3, 5)
SMALL = {
    "algorithm.epoch_length": 5,
    "model.normalize_observations": True,
    "model.hidden": [8],
    "algorithm.n_epochs": 1,
}
ALGORITHMS = {
    "ppo": {},
    "impala": {"algorithm.num_actors": 1, "algorithm.envs_per_actor": 3, "algorithm.actors_batch_size": 3},
    "appo": {"algorithm.num_actors": 1, "algorithm.envs_per_actor": 3, "algorithm.actors_batch_size": 3},
    "sac": {
        "algorithm.initial_buffer_size": 20,
        "algorithm.replay_buffer_size": 100,
        "algorithm.batch_size": 16,
        "algorithm.num_envs": 3,
        "algorithm.n_step": 2,
        "algorithm.critic_hidden": [8],
    },
    "dqn": {
        "algorithm.initial_buffer_size": 20,
        "algorithm.replay_buffer_size": 100,
        "algorithm.batch_size": 16,
        "algorithm.num_envs": 3,
        "algorithm.n_step": 2,
        "algorithm.prioritized": True,
        "algorithm.epsilon.to": 0.5,
    },
    "apex": {
        "algorithm.initial_buffer_size": 20,
        "algorithm.replay_buffer_size": 100,
        "algorithm.batch_size": 16,
        "algorithm.envs_per_actor": 3,
        "algorithm.num_actors": 1,
        "algorithm.epsilon.to": 0.5,
    },
    "pqn": {"algorithm.num_envs": 3, "algorithm.epsilon.to": 0.5},
}


class Doorless(gymnasium.Env):
    """Counts its steps, allows every other choice by turns, and in its last observation none. Kinds: see ACTIONS.

    Episodes of three steps are truncated, others are terminated.
    """

    def __init__(self, kind, length):
        self.action_space = ACTIONS[kind]
        self._leaves = flatten_space(self.action_space, "action")
        sizes = {key: mask_size(space) for key, space in self._leaves.items()}
        masks = {f"{key}_mask": spaces.MultiBinary(size) for key, size in sizes.items() if size}
        count = {"count": spaces.Box(-np.inf, np.inf, (2,))}
        self.observation_space = spaces.Dict(count | masks)
        self._length = length
        self.acted_on = []
        """The observed counts that actions were chosen from."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self.observe(), {}

    def step(self, action):
        tree = action if isinstance(action, dict) else {"action": action}
        for key, space in self._leaves.items():
            if mask_size(space):
                sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n]
                chosen = np.cumsum([0, *sizes[:-1]]) + tree[key]
                assert self._mask(sum(sizes))[chosen].all(), "a forbidden choice"
        self.acted_on.append([self._length, self._step])
        self._step += 1
        ended = self._step == self._length
        return self.observe(), 1.0, ended and self._length != 3, ended and self._length == 3, {}

    def observe(self):
        masks = {key: self._mask(space.n) for key, space in self.observation_space.items() if key != "count"}
        return {"count": np.array([self._length, self._step], np.float32), **masks}

    def _mask(self, size):
        return ((np.arange(size) + self._step) % 2 * (self._step < self._length)).astype(np.int8)


class NativeConfig(PluginConfig):
    kind: str = "Discrete"
    mode: str = MODES[0]


BUILT = []
"""The vectorised environments of a run."""


class Native(Plugin):
    Config = NativeConfig

    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        BUILT.append(vectorised(config.kind, config.mode, num_envs))
        return BUILT[-1]

    @hookimpl
    def make_env(self, config, seed, index):
        return Doorless(config.kind, LENGTHS[index % 3])


def vectorised(kind, mode, num_envs=3):
    makers = [lambda i=i: Doorless(kind, LENGTHS[i % 3]) for i in range(num_envs)]
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode(mode))


def assert_has_seen(normalizer, envs):
    """The normaliser knows what actions were chosen from, each once, and nothing else."""
    seen = np.concatenate([env.acted_on for env in envs])
    mean, std = normalizer.statistics()["count"]
    assert normalizer.count == len(seen)
    np.testing.assert_allclose(mean, seen.mean(0))
    np.testing.assert_allclose(std, seen.std(0))


@pytest.mark.parametrize(
    ("algorithm", "kind", "mode"),
    [
        *(("sac", "Dict", mode) for mode in MODES),
        ("ppo", "Dict", NEXT_STEP),
        ("impala", "Dict", NEXT_STEP),
        ("dqn", "MultiDiscrete", NEXT_STEP),
        ("pqn", "Discrete", NEXT_STEP),
    ],
)
def test_algorithms_learn_from_masked_environments_in_every_mode(quick, algorithm, kind, mode):
    BUILT.clear()
    env = {"env.kind": kind, "env.mode": mode}
    context = quick(Native, algorithm, SMALL | env | ALGORITHMS[algorithm])
    context.train()
    run = context.run
    assert run.policy.normalizer.count == run.env_steps > 20
    if algorithm not in ("impala", "apex"):  # whose actors have environments of their own
        (trained,) = (each.envs for each in BUILT if sum(len(env.acted_on) for env in each.envs) == run.env_steps)
        assert_has_seen(run.policy.normalizer, trained)
    if algorithm in ("sac", "dqn"):
        assert run.algorithm.kept["collector"].replay.steps == run.env_steps


class Counting(ActingPolicy):
    """Says of each row how often it has acted since `begin`; insists on being told, and on a choice."""

    def setup(self, observation_space, action_space):
        self._random = RandomPolicy(PluginConfig())
        self._random.setup(observation_space, action_space)
        self._acted = {}

    def begin(self, row):
        self._acted[row] = 0

    def act(self, obs, rngs):
        assert obs["count"][:, 1].tolist() == [self._acted[row] for row in range(len(rngs))]
        for row in range(len(rngs)):
            self._acted[row] += 1
        return self._random.act(obs, rngs)

    def state(self):
        return {str(row): count for row, count in self._acted.items()}

    def load_state(self, state):
        self._acted = {int(row): count for row, count in state.items()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ACTIONS)
def test_rules_see_whole_episodes_and_always_a_choice(kind, mode):
    env = NativeVectorEnv(vectorised(kind, mode))
    policy = Counting(PluginConfig())
    policy.setup(env.observation_space, env.action_space)
    found = play(env, lambda rngs: RuleAgent(policy, rngs, env.action_space), 3, 0, 3, lambda: False)
    played = {each.number: each.trajectories[0] for each in found}
    assert [len(played[i]) for i in range(3)] == list(LENGTHS)
    assert [played[i].obs["count"][-1, 1] for i in range(3)] == list(LENGTHS)

    stepped = vectorised(kind, mode)
    env = NativeVectorEnv(stepped)
    wanted = Estimation(40, "counting")
    normalizer = ObservationNormalizer(flatten_space(env.observation_space, "observation"), estimation=wanted)
    estimate_statistics(normalizer, env, 1, PluginConfig(name="counting").bound_to(Counting))
    assert_has_seen(normalizer, stepped.envs)


@pytest.mark.parametrize("mode", [NEXT_STEP, None])
def test_a_guide_is_told_of_every_episode(quick, also_installed, mode, monkeypatch):
    """Also of the first ones, and of those that begin where a run goes on. None: environments stepped in turn."""
    if mode is None:
        monkeypatch.delattr(Native, "make_vector_env")
    env = {"env.mode": mode or MODES[0], "algorithm.initial_sampling_policy": "counting"}
    values = SMALL | ALGORITHMS["sac"] | env | {"algorithm.initial_buffer_size": 30}
    also_installed("policy", "counting", Counting)
    whole, cut = quick(Native, "sac", values), quick(Native, "sac", values)
    whole.train()
    run = cut.run
    count = run.count_env_steps

    def interrupting(steps):
        count(steps)
        if run.env_steps > 10:
            run.interrupt("the test")

    run.count_env_steps = interrupting
    cut.train()
    assert run.updates == 0
    cut.close()
    if mode is None:
        cut.resume(cut.run_dir)
        mine, other = (context.policy.state_dict() for context in (whole, cut))
        assert all(bool((mine[name] == other[name]).all()) for name in mine)
    else:
        with pytest.warns(RuntimeWarning, match="new ones begin"):
            cut.resume(cut.run_dir)
    assert cut.run.updates == whole.run.updates


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_masks_that_leave_no_choice_within_an_episode_are_still_refused(quick, algorithm, monkeypatch):
    monkeypatch.setattr(Doorless, "_mask", lambda self, size: np.full(size, self._step != 1, np.int8))
    with pytest.raises(RunError, match="forbids every choice"):
        quick(Native, algorithm, SMALL | ALGORITHMS[algorithm]).train()
