"""Hindsight goals in whole runs: what they need, exact resume, and a problem that is solved with them only."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count

import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk
from maze_recordings.recording_files import read_description

from maze_core.base.errors import ConfigError
from maze_core.run.context import RunContext
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.bomb import bomb
from tests.goals import BitFlips, Reach
from tests.interrupted import interrupted

# The ring is overwritten several times, and episodes are longer than an epoch.
SMALL = {
    "algorithm.her_goals": 4,
    "algorithm.num_envs": 2,
    "algorithm.initial_buffer_size": 40,
    "algorithm.replay_buffer_size": 45,
    "algorithm.batch_size": 16,
    "algorithm.epoch_length": 6,
    "algorithm.n_epochs": 5,
    "model.hidden": [8],
    "model.normalize_observations": True,
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": None,
}
OWN = {"sac": {"algorithm.critic_hidden": [8]}, "dqn": {"algorithm.target_update_interval": 5}}
OWN["td3"] = OWN["sac"]


@pytest.fixture
def learn(tmp_path, known_plugins):
    """`learn(env, algorithm, overrides, **parts)`: a silent RunContext with seed 1."""
    numbers = count()
    with ExitStack() as stack:

        def build(env, algorithm, overrides, **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "silent": True, "preset": "none", **parts}
            values = SMALL | OWN[algorithm] | overrides
            return stack.enter_context(RunContext(env, algorithm, overrides=values, **parts))

        yield build


def test_the_episode_that_compares_rewards_is_not_recorded(learn, tmp_path):
    """It has random actions; every other episode is one that training or evaluation played."""
    seen = {"name": "record", "folder": str(tmp_path / "seen")}
    context = learn(Reach, "sac", {"algorithm.n_epochs": 3, "evaluation.n_episodes": 2}, wrappers=[seen])
    context.train()
    context.close()
    environments = [read_description(folder).source["environment"] for folder in (tmp_path / "seen").iterdir()]
    assert sorted(environments) == [0, 0, 1, 1]  # two of training, two of evaluation


def test_a_stopped_run_ends_bit_equal(learn, whole_state, assert_same):
    env, algorithm = BitFlips, "dqn"
    stopped = learn(env, algorithm, {}, callbacks={"bomb": bomb(at=21)})
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = learn(env, algorithm, {}, callbacks={"bomb": bomb(at=0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
    other = learn(env, algorithm, {"algorithm.her_goals": 0}, callbacks={"bomb": bomb(at=0)})
    other.train()
    ours, theirs = parameters(whole), parameters(other)
    assert not all((leaf == theirs[name]).all() for name, leaf in ours.items())


def parameters(context):
    return read_checkpoint(context.run_dir / "checkpoints" / "last").model


def test_worker_processes_step_the_environments_and_nothing_changes(learn, whole_state, assert_same):
    here, there = (learn(Reach, "td3", {}, runner=runner) for runner in ("dev", "local"))
    assert here.train().final_evaluation["eval/success"] == there.train().final_evaluation["eval/success"]
    assert_same(*(read_checkpoint(each.run_dir / "checkpoints" / "last").model for each in (here, there)))


def test_the_environment_that_computes_rewards_is_closed_with_the_run(learn):
    class Closing(Reach):
        made = closed = 0

        def __init__(self):
            super().__init__()
            Closing.made += 1

        def close(self):
            Closing.closed += 1

    context = learn(Closing, "sac", {"algorithm.n_epochs": 1})
    context.train()
    context.close()
    assert Closing.closed == Closing.made > 3


REFUSED = {
    "sums of rewards": ("dqn", BitFlips, {"algorithm.n_step": 3}, "algorithm.n_step: "),
    "priorities": ("dqn", BitFlips, {"algorithm.prioritized": True}, "algorithm.prioritized: "),
    "sums of rewards of SAC": ("sac", Reach, {"algorithm.n_step": 2}, "algorithm.n_step: "),
    "no goals": ("dqn", SeededWalk, {}, "algorithm.her_goals: needs Dict observations"),
    "less than none": ("td3", Reach, {"algorithm.her_goals": -1}, "algorithm.her_goals: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_without_what_goals_need_is_refused_before_the_first_step(learn, name):
    algorithm, env, values, words = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        learn(env, algorithm, values).train()
    assert str(caught.value).startswith(words)


class Unlike(BitFlips):
    """The bits as one number."""

    def __init__(self):
        super().__init__(3)
        number = spaces.Discrete(8)
        self.observation_space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), number))

    def observe(self):
        bits = super().observe()
        return {key: int(value @ [1, 2, 4]) for key, value in bits.items()}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -1.0 + (achieved_goal == desired_goal)


def test_goals_may_be_numbers(learn):
    assert learn(Unlike, "dqn", {}).train().outcome == "finished"


@pytest.mark.slow
@pytest.mark.learning
def test_eight_bits_are_flipped_to_a_goal_with_hindsight_only(learn):
    """Section 3.1 of the paper: without it, one of 256 goals is reached now and then, and nothing is learnt."""
    values = {
        "algorithm.num_envs": 1,
        "algorithm.replay_buffer_size": 5000,
        "algorithm.epsilon.end": 1000,
        "algorithm.target_update_interval": 100,
        "algorithm.n_rollout_steps": 1,
        "algorithm.batch_size": 128,
        "algorithm.lr": 1e-3,
        "algorithm.gamma": 0.98,
        "algorithm.initial_buffer_size": 200,
        "algorithm.epoch_length": 1500,
        "algorithm.n_epochs": 1,
        "model.hidden": [256],
        "model.normalize_observations": False,
        "evaluation.n_episodes": 100,
    }
    success = {}
    for goals in (0, 4):
        context = learn(BitFlips, "dqn", values | {"algorithm.her_goals": goals})
        success[goals] = context.train().final_evaluation["eval/success"]
    assert success[4] > 0.95
    assert success[0] < 0.3
