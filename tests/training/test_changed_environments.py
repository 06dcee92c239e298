"""Unfinished episodes of a run whose environment is changed when it is resumed."""

import pytest
from maze_devkit.envs import CountingEnv

from maze_core import RunContext
from maze_core.base.errors import RunError


class Path(CountingEnv):
    """A path whose length is an argument; beyond its end there is a wall."""

    def __init__(self, length=50, wall=100):
        super().__init__(length)
        self._wall = wall

    def step(self, action):
        observation, reward, *ends, info = super().step(action)
        if self._step > self._wall:
            raise ValueError("a wall")
        return observation, reward + self._wall, *ends, info


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"env.kwargs.wall": 90}, "env.kwargs.wall has changed"),
        ({"env.kwargs.length": 3, "env.max_episode_steps": 2}, "env.kwargs.length, env.max_episode_steps have changed"),
        ({"wrappers": [{"name": "scale_reward", "factor": 3.0}]}, "wrappers has changed"),
    ],
)
def test_an_episode_that_a_change_of_the_environment_ends_is_not_blamed_on_it(quick, changes, named):
    env = {"name": "gymnasium", "id": f"{__name__}:Path", "kwargs": {"length": 50, "wall": 100}}
    small = {"algorithm.num_envs": 1, "algorithm.n_rollout_steps": 5}
    context = quick(env, "a2c", small)
    context.train(1)
    context.close()
    with pytest.warns(RuntimeWarning, match=f"could not be replayed .*: {named} since then, so this run does not"):
        RunContext.reopen(context.run_dir, {**changes, "callbacks.console": None}).close()


def test_an_error_in_a_changed_environment_names_the_change(quick):
    env = {"name": "gymnasium", "id": f"{__name__}:Path", "kwargs": {"length": 50, "wall": 100}}
    context = quick(env, "a2c", {"algorithm.num_envs": 1, "algorithm.n_rollout_steps": 5})
    context.train(1)
    context.close()
    with pytest.raises(RunError, match=r"a wall.*\n.*and env\.kwargs\.wall has changed since then") as raised:
        RunContext.reopen(context.run_dir, {"env.kwargs.wall": 3, "callbacks.console": None})
    assert "not reproducible" not in str(raised.value)
