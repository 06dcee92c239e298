"""`env.max_episode_steps` of environments that are given as functions or classes."""

from __future__ import annotations

import functools

import gymnasium
import pytest
from maze_devkit.envs import CountingEnv

from maze_core.base.errors import ConfigError

pytest.importorskip("maze_ppo")
LONG = functools.partial(CountingEnv, 50)
LIMITED = {"env.max_episode_steps": 7}


def limited_already():
    return gymnasium.wrappers.TimeLimit(CountingEnv(50), 5)


@pytest.mark.parametrize("env", [LONG, lambda: CountingEnv(50)])
@pytest.mark.parametrize("vectorization", [{}, {"runner.name": "local", "runner.workers": 2}])
def test_episodes_end_there(quick, env, vectorization):
    if vectorization and env is not LONG:
        pytest.skip("a lambda cannot be sent to workers")
    context = quick(env, overrides=LIMITED | vectorization)
    summary = context.train(2)
    assert context.evaluate(3)["eval/length_median"] == 7
    assert summary.final_evaluation is None or summary.final_evaluation["eval/length_median"] == 7
    assert "max_episode_steps: 7" in (context.run_dir / "config.yaml").read_text()


def test_the_shorter_limit_counts(quick):
    for limit, seen in ((7, 5), (3, 3), (None, 5)):
        context = quick(limited_already, overrides={"env.max_episode_steps": limit})
        assert context.evaluate()["eval/length_median"] == seen


def test_an_opened_and_a_resumed_run_have_it_too(quick):
    context = quick(LONG, overrides=LIMITED)
    context.train(1)
    context.close()
    opened = quick(LONG)
    opened.load(context.run_dir)
    assert opened.evaluate()["eval/length_median"] == 7
    again = quick(LONG, overrides={"env.max_episode_steps": 4}, run_dir=None)
    again.resume(context.run_dir)
    assert again.evaluate()["eval/length_median"] == 4


@pytest.mark.parametrize("wrong", [0, -1, "many", 2.5])
def test_what_is_no_limit(quick, wrong):
    with pytest.raises(ConfigError, match=r"^env\.max_episode_steps: must be "):
        quick(LONG, overrides={"env.max_episode_steps": wrong}).train(1)
