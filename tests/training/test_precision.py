"""Numbers that float32 cannot tell apart: normalised and scaled in their own precision, or named at the start."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round
from maze_export.export import export_policy
from maze_normalizers.normalizer import ObservationNormalizer
from maze_wrappers.lost_digits import seen_by_agents

from maze_core import Plugin, hookimpl
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.spaces import is_narrow, leaf_spec
from maze_core.models.distributions.continuous import BoxScale
from maze_core.plugins.config.base import PluginConfig

OVERRIDES = {"evaluation.n_episodes": 0}

FLIP = np.array([0.0, 1.0])


class Signal(gymnasium.Env):
    """Shows one of two numbers at each step; the reward says whether the action was the right one for it."""

    def __init__(self, space, values, action_space=None, leaf=None):
        self.values, self.leaf = values, leaf
        self.observation_space = spaces.Dict({leaf: space, "other": spaces.Box(-1, 1, (2,))}) if leaf else space
        self.action_space = action_space or spaces.Discrete(2)
        self.taken = []

    def _shown(self):
        self.index = int(self.np_random.integers(2))
        space = self.observation_space[self.leaf] if self.leaf else self.observation_space
        value = np.full(space.shape, self.values[self.index], space.dtype)
        return {self.leaf: value, "other": np.zeros(2, np.float32)} if self.leaf else value

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return self._shown(), {}

    def step(self, action):
        self.clock += 1
        self.taken.append(np.asarray(action).tolist())
        reward = float(np.asarray(action).reshape(-1)[0] == self.index)
        return self._shown(), reward, False, self.clock >= 10, {}


def close_to(low, width, dtype=np.float64, shape=(1,)):
    return spaces.Box(low, low + width, shape, dtype)


LEARNT = {
    "a coordinate": (close_to(5e6, 0.5), 5e6 + 0.5 * FLIP, None, {}),
    "a time in a Dict": (close_to(1.7e9, 10), 1.7e9 + FLIP, "time", {}),
    "a negative offset and a memory": (close_to(-1e8, 1), -1e8 + FLIP, None, {"model.memory": "gru"}),
}


@pytest.mark.parametrize(("space", "values", "leaf", "options"), LEARNT.values(), ids=list(LEARNT))
def test_narrow_observations_are_normalised_in_their_own_precision(quick, space, values, leaf, options):
    plain = spaces.Box(0, space.high - space.low, space.shape, np.float64)
    wrappers = [{"name": "normalize_observations", "estimate_steps": 100}]
    policies = []
    for its, shown in ((space, values), (plain, values - values[0])):
        made = partial(Signal, its, shown, leaf=leaf)
        run = quick(made, "a2c", {"algorithm.n_rollout_steps": 16, **options}, wrappers=wrappers)
        assert not [note for note in run.run.notes if "float32" in note]
        run.train()
        policies.append(run.run.policy)
    for name, one in policies[0].named_parameters():
        torch.testing.assert_close(one, dict(policies[1].named_parameters())[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_stored_rows_keep_their_digits(quick, algorithm):
    run = quick(lambda: Signal(close_to(1e8, 1), 1e8 + FLIP), algorithm, {"model.normalize_observations": True})
    run.train()
    low, high = run.run.policy.normalizer.statistics()["observation"]
    assert 1e8 < float(low) < 1e8 + 1
    assert 0.3 < float(high) < 0.6
    shown = [run.run.policy.normalizer({"observation": torch.tensor([[value]])}) for value in 1e8 + FLIP]
    assert float(shown[1]["observation"] - shown[0]["observation"]) > 1.5
    assert shown[0]["observation"].dtype == torch.float32


NAMED = {
    "no bounds": (spaces.Box(-np.inf, np.inf, (1,), np.float64), 1e8 + FLIP, True, "shift_observations"),
    "times as integers": (spaces.Box(0, 2**40, (1,), np.int64), 1_700_000_000 + FLIP, True, "shift_observations"),
    "bounded integers": (spaces.Box(10**9, 10**9 + 5, (1,), np.int64), 10**9 + FLIP, True, "shift_observations"),
    "not normalised": (close_to(1e6, 1), 1e6 + FLIP, False, "model.normalize_observations=true"),
    "coordinates in a picture": (close_to(1e6, 1, shape=(4, 8, 8)), 1e6 + FLIP, True, "rescale_observations"),
}


@pytest.mark.parametrize(("space", "values", "normalised", "advice"), NAMED.values(), ids=list(NAMED))
def test_what_networks_cannot_tell_apart_is_named_at_the_start(quick, space, values, normalised, advice):
    model = {"model": "cnn"} if len(space.shape) == 3 else {}
    options = {} if model else {"model.normalize_observations": normalised}
    run = quick(lambda: Signal(space, values), "a2c", options, **model).run
    (note,) = [note for note in run.notes if "float32" in note]
    assert note.startswith("the observation 'observation' ")
    assert advice in note


UNNAMED = {
    "enough digits": (spaces.Box(-np.inf, np.inf, (1,), np.float64), 1e5 + 100 * FLIP),
    "constant": (spaces.Box(-np.inf, np.inf, (1,), np.float64), 1e9 + 0 * FLIP),
    "small": (spaces.Box(-np.inf, np.inf, (1,), np.float64), 1 + 1e-9 * FLIP),
    "float32 as declared": (spaces.Box(1e6, 1e6 + 1, (1,), np.float32), 1e6 + FLIP),
}


@pytest.mark.parametrize(("space", "values"), UNNAMED.values(), ids=list(UNNAMED))
def test_nothing_is_said_of_the_others(quick, space, values):
    assert not [note for note in quick(lambda: Signal(space, values), "a2c").run.notes if "float32" in note]


class Signals(MultiAgentEnv):
    """Shows each agent a `Signal` of its own; both act at the same time."""

    def __init__(self, space, values, last):
        self.parts = {"calm": Signal(spaces.Box(-1, 1, (1,)), FLIP), "far": Signal(space, values)}
        self.agents, self.last = ["calm", "far"], last
        self.observation_spaces = {agent: each.observation_space for agent, each in self.parts.items()}
        self.action_spaces = {agent: each.action_space for agent, each in self.parts.items()}

    def reset(self, seed):
        self.taken = 0
        return Round({agent: each.reset(seed=seed)[0] for agent, each in self.parts.items()})

    def step(self, actions):
        shown = {agent: each.step(actions[agent]) for agent, each in self.parts.items()}
        self.taken += 1
        seen = {agent: each[0] for agent, each in shown.items()}
        return Round(*(({}, {}, seen) if self.taken == self.last else (seen,)))


@pytest.mark.parametrize("last", [3, 200])
@pytest.mark.parametrize(("case", "named"), [*((each, True) for each in NAMED), *((each, False) for each in UNNAMED)])
def test_it_is_named_where_several_agents_act(case, named, last):
    space, values, *_ = (NAMED | UNNAMED)[case]
    if is_narrow(space):  # known from the space alone
        named = False
    notes = seen_by_agents(lambda: Signals(space, values, last), 0)
    assert [("float32" in note, "shift_observations" in note) for note in notes] == [(True, True)] * named


class SignalsConfig(PluginConfig):
    name: str = "signals"


class SignalsSource(Plugin):
    """An env source of two signals, of which one is without bounds."""

    Config = SignalsConfig

    @hookimpl
    def make_agents_env(self, config: SignalsConfig, seed: int, index: int) -> MultiAgentEnv:
        return Signals(*NAMED["no bounds"][:2], 20)


def test_a_run_of_several_agents_names_it(quick):
    notes = quick(SignalsSource, "ppo").run.notes
    assert any("the observation" in note and "is near 1e+08" in note for note in notes)


@pytest.mark.parametrize("values", [(1e8 + FLIP, np.float64), (1_700_000_000 + FLIP, np.int64)])
def test_shift_observations_keeps_the_digits(quick, values):
    numbers, dtype = values
    bounds = (-np.inf, np.inf) if dtype is np.float64 else (0, 2**40)
    wrapper = {"name": "shift_observations", "offset": [float(numbers[0])]}
    run = quick(lambda: Signal(spaces.Box(*bounds, (1,), dtype), numbers), "a2c", wrappers=[wrapper])
    assert not [note for note in run.run.notes if "float32" in note]
    env = run.make_env()
    seen = {float(env.reset(seed=seed)[0][0]) for seed in range(9)}
    assert (env.observation_space.dtype, seen) == (np.float32, {0.0, 1.0})


@pytest.mark.parametrize("algorithm", ["ppo", "td3"])
@pytest.mark.parametrize("space", [close_to(1e6, 0.5), spaces.Box(17 * 10**8, 17 * 10**8 + 400, (1,), np.int64)])
def test_narrow_actions_reach_every_value(quick, algorithm, space):
    envs = []

    def made():
        envs.append(Signal(spaces.Box(-1, 1, (1,)), FLIP, space))
        return envs[-1]

    few = {"algorithm.initial_buffer_size": 60, "model.hidden": [8]}
    run = quick(made, algorithm, {"algorithm.n_rollout_steps": 64} if algorithm == "ppo" else few)
    run.train()
    taken = [action[0] for env in envs for action in env.taken]
    assert all(space.low[0] <= action <= space.high[0] for action in taken)
    assert len(set(taken)) > 40
    (chosen,) = {type(run.compute_action(np.zeros(1, np.float32)).dtype) for _ in range(3)}
    assert chosen is type(space.dtype)
    assert isinstance(space.low[0], type(run.compute_action(np.zeros(1, np.float32))[0]))


def test_an_exported_policy_keeps_the_digits(quick, tmp_path):
    """The file is compared with the policy as it is written."""
    run = quick(lambda: Signal(close_to(1e8, 1), 1e8 + FLIP, close_to(1e6, 0.5)), "ppo",
                {"model.normalize_observations": True})  # fmt: skip
    run.train()
    export_policy(run.run, tmp_path / "policy.pt2")


@pytest.mark.parametrize(
    ("space", "narrow"),
    [
        (close_to(1e6, 0.5), True),
        (close_to(-1e6, 0.5), True),
        (close_to(100, 1), False),
        (spaces.Box(-np.inf, np.inf, (3,), np.float64), False),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), False),
        (spaces.Box(np.array([0.0, 1e9]), np.array([1.0, 1e9 + 1]), dtype=np.float64), True),
        (spaces.Box(3, 3, (2,), np.float64), False),
        (spaces.Discrete(3, start=10**9), False),
    ],
)
def test_only_narrow_leaves_are_stored_as_float64(space, narrow):
    assert is_narrow(space) == narrow
    if isinstance(space, spaces.Box) and space.dtype == np.float64:
        stored = np.dtype(np.float64 if narrow else np.float32)
        assert (leaf_spec(space).dtype, leaf_spec(space, "action").dtype) == (stored, stored)


def test_scaling_and_back_keeps_what_float32_canonical_actions_say():
    space = close_to(1e6, 0.5, shape=(3,))
    scale, canonical = BoxScale(space), torch.linspace(-1, 1, 300).reshape(100, 3)
    actions = scale.to_env(canonical)
    assert actions.dtype == torch.float64
    torch.testing.assert_close(scale.to_canonical(actions), canonical, rtol=0, atol=1e-6)
    torch.testing.assert_close(scale.executed(actions + 1), torch.full_like(actions, 1e6 + 0.5))
    native = ActionCodec(space).batch({"action": actions.numpy()})
    np.testing.assert_array_equal(native, actions.numpy())


def test_a_normaliser_of_small_numbers_computes_as_before():
    leaves = {"a": spaces.Box(-np.inf, np.inf, (2,), np.float64), "b": spaces.Box(-1, 1, (2,), np.float32)}
    normalizer = ObservationNormalizer(leaves)
    assert {leaf.dtype for name, leaf in normalizer.named_buffers() if "shift" in name} == {torch.float32}
