"""Many observations at once outside of training: each action is that of its observation alone."""

import functools

import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv

from maze_core import ConfigError, RunContext

SEEN = spaces.Dict(
    {
        "pair": spaces.Tuple([spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(3, start=5)]),
        "tool_mask": spaces.MultiBinary(4),
    }
)
DONE = spaces.Dict({"tool": spaces.Discrete(4, start=7), "push": spaces.Tuple([spaces.Box(-2, 2, (2,))])})


@pytest.fixture
def context(tmp_path):
    built = []

    def build(observation=SEEN, action=DONE, **options):
        env = functools.partial(SpacesEnv, observation, action)
        built.append(RunContext(env, "ppo", seed=1, run_dir=tmp_path / "run", silent=True, **options))
        return built[-1]

    yield build
    for each in built:
        each.close()


def observations(count):
    SEEN.seed(3)
    found = [SEEN.sample() for _ in range(count)]
    for each in found:
        each["tool_mask"][0] = 1
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_each_action_is_that_of_its_observation_alone(context, count):
    played = context()
    together = played.compute_actions(observations(count))
    assert len(together) == count
    for action, observation in zip(together, observations(count), strict=True):
        alone = played.compute_action(observation)
        assert DONE.contains(action)
        assert action["tool"] == alone["tool"]
        np.testing.assert_allclose(action["push"][0], alone["push"][0], rtol=1e-5, atol=1e-6)


def test_an_array_of_observations_and_samples(context):
    played = context(spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    rows = np.zeros((200, 3), np.float32)
    assert len(set(map(int, played.compute_actions(rows)))) == 1
    assert set(map(int, played.compute_actions(rows, deterministic=False))) == {0, 1}
    with pytest.raises(ConfigError, match=r"batch of 200.*\nNext: context.compute_actions\(observations\)"):
        played.compute_action(rows)
    with pytest.raises(ConfigError, match="number 0: the observation is refused at 'observation'"):
        played.compute_actions(rows[0])


def test_a_refused_observation_is_named_by_its_number(context):
    played = context()
    rows = observations(3)
    rows[2]["tool_mask"][:] = 0
    with pytest.raises(ConfigError, match="observations: number 2: the observation is refused at 'tool_mask'"):
        played.compute_actions(rows)
    assert len(played.compute_actions(rows, check=False)) == 3


@pytest.mark.parametrize("wrong", [SEEN.sample(), 3, np.float32(1), np.array(1.0), None, "text"])
def test_what_is_no_list_is_refused(context, wrong):
    with pytest.raises(ConfigError, match="observations: must be a list of observations"):
        context().compute_actions(wrong)


def test_a_policy_with_memory_needs_them_in_order(context):
    with pytest.raises(ConfigError, match="a policy with memory needs the observations in order"):
        context(model={"name": "mlp", "memory": "gru"}).compute_actions(observations(2))
