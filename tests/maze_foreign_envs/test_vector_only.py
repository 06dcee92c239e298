"""A source with natively vectorised environments alone also serves where a single one is needed."""

import gymnasium
import pytest
from maze_devkit.envs import SeededWalk

from maze_core import ConfigError, Plugin, hookimpl


class Vectors(Plugin):
    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        return gymnasium.vector.SyncVectorEnv([SeededWalk] * num_envs)


def test_a_run_trains_evaluates_and_acts(quick):
    context = quick(Vectors)
    assert context.train().epochs == 2
    env = context.make_env()
    observation, _ = env.reset(seed=1)
    assert env.action_space.contains(context.compute_action(observation))
    assert len(context.rollout(2, seed=1)) == 2


def test_a_wrapper_of_single_environments_is_refused_by_name(quick):
    with pytest.raises(ConfigError, match=r"wrappers\.0: 'lambda' wraps single environments, and 'Vectors' makes"):
        _ = quick(Vectors, wrappers=[lambda env: gymnasium.wrappers.ClipReward(env, -1, 1)]).run
