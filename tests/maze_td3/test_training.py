"""TD3 and DDPG as runs: who learns when, what is stored, what is refused, what a resumed run needs."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_devkit.probes import Workshop

from maze_core.base.errors import ConfigError
from tests.bomb import bomb
from tests.interrupted import interrupted
from tests.maze_td3.drift import Drift

OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-3, 1], np.float32), np.array([-1, 100], np.float32))


def copies(*modules):
    return [[parameter.detach().clone() for parameter in module.parameters()] for module in modules]


def moved(before, after):
    return [any(not a.equal(b) for a, b in zip(x, y, strict=True)) for x, y in zip(before, after, strict=True)]


@pytest.mark.parametrize(("algorithm", "delay"), [("td3", 3), ("ddpg", 1)])
def test_policy_and_targets_move_after_every_few_updates_of_the_critics(td3, algorithm, delay):
    """Also where a pass has fewer updates than the delay."""
    context = td3(lambda: SpacesEnv(OBSERVATION, BOX), {"algorithm.policy_delay": delay}, algorithm=algorithm)
    run, plugin, seen = context.run, context.run.algorithm, []
    networks = (plugin.critics, run.policy, plugin.targets.critics.module, plugin.targets.policy.module)
    before = copies(*networks)
    count = run.count_update

    def count_update():
        nonlocal before
        after = copies(*networks)
        seen.append(moved(before, after))
        before = after
        count()

    run.count_update = count_update
    context.train()
    assert seen == [[True, *[update % delay == 0] * 3] for update in range(1, 11)]


@pytest.mark.parametrize(("algorithm", "model"), [("td3", "template"), ("ddpg", "mlp")])
def test_dicts_of_observations_and_actions(td3, algorithm, model):
    actions = spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Box(-2, 2, (2, 3), np.float64)})})
    observations = spaces.Dict({"x": OBSERVATION, "y": spaces.Discrete(3)})
    values = {"model.name": model, "model.normalize_observations": True, "algorithm.num_envs": 2}
    context = td3(lambda: SpacesEnv(observations, actions), values, algorithm=algorithm)
    context.train()
    assert context.run.policy.normalizer.count == context.run.env_steps
    assert context.run.algorithm.targets.policy.module.normalizer is context.run.policy.normalizer


def test_images_pass_encoders_of_the_critics_own(td3):
    class Photo(SpacesEnv):
        def __init__(self):
            super().__init__(Workshop().observation_space, BOX)

    context = td3(Photo, {"model.name": "template", "model.image_features": 8})
    context.train()
    assert len(context.run.algorithm.critics.encoders) == 2


def test_exploration_adds_noise_of_a_tenth_of_the_half_range(td3):
    class Wide(SpacesEnv):
        def __init__(self):
            super().__init__(OBSERVATION, spaces.Box(-50, 50, (1,), np.float32))

    context = td3(Wide, {"algorithm.initial_buffer_size": 8, "algorithm.collect_steps": 100, "algorithm.utd": 0.01})
    context.train()
    collector = context.run.algorithm.kept["collector"]
    taken = collector.replay.sample(np.random.default_rng(0), 400, 0.9)
    with torch.no_grad():
        wanted = context.policy.distribution(taken.obs).mode()["action"].tanh() * 50
    spread = (taken.actions["action"] - wanted).std().item()
    assert spread == pytest.approx(5, rel=0.2)


@pytest.mark.parametrize(
    ("space", "values", "words"),
    [
        (BOX, {"model.distribution": "gaussian"}, "model.distribution: td3 needs a differentiable sample"),
        (BOX, {"algorithm.initial_buffer_size": 501}, "algorithm.initial_buffer_size"),
        (BOX, {"model.critic": "separate"}, "model.critic: td3 does not use"),
        (BOX, {"algorithm.target_noise": -0.1}, "algorithm.target_noise"),
        (BOX, {"algorithm.utd": 0}, "algorithm.utd"),
        (spaces.Discrete(3), {}, "td3 supports actions of Box"),
        (spaces.Dict({"a": BOX, "b": spaces.Discrete(2)}), {}, "td3 supports actions of Box"),
        (spaces.Box(-np.inf, np.inf, (1,), np.float32), {}, "finite bounds"),
    ],
)
def test_what_does_not_fit_is_one_clear_error_before_the_first_step(td3, tmp_path, space, values, words):
    with pytest.raises(ConfigError) as caught:
        td3(lambda: SpacesEnv(OBSERVATION, space), values).train()
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


class Throw(gymnasium.Env):
    """One step: hit the target shown, between -1 and 1, by a force from -5 to 5."""

    observation_space = spaces.Dict({"target": spaces.Box(-1, 1, (1,), np.float32)})
    action_space = spaces.Box(-5, 5, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._target = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return {"target": self._target}, {}

    def step(self, action):
        return {"target": self._target}, -float((action[0] / 5 - 0.8 * self._target[0]) ** 2), True, False, {}


def test_a_throw_is_learnt(td3):
    values = {
        "algorithm.epoch_length": 500, "algorithm.n_epochs": 1, "algorithm.batch_size": 32, "algorithm.lr": 0.003,
        "algorithm.initial_buffer_size": 100, "algorithm.replay_buffer_size": 2000, "model.hidden": [32, 32],
        "evaluation.n_episodes": 50,
    }  # fmt: skip
    summary = td3(Throw, values).train()
    assert summary.final_evaluation["eval/return_mean"] > -0.02


LONG = {
    "algorithm.n_epochs": 10,
    "algorithm.epoch_length": 6,
    "algorithm.num_envs": 2,
    "algorithm.collect_steps": 3,
    "algorithm.utd": 0.4,
    "algorithm.policy_delay": 3,
    "algorithm.replay_buffer_size": 60,
    "algorithm.initial_buffer_size": 30,
    "model.normalize_observations": True,
}


@pytest.mark.parametrize(("algorithm", "at"), [("td3", 7), ("ddpg", 9)])
def test_a_run_that_was_stopped_in_an_epoch_ends_like_an_undisturbed_one(td3, whole_state, assert_same, algorithm, at):
    """Wherever the delay and the fraction of an update were."""
    stopped = td3(Drift, LONG | {"algorithm.n_epochs": 3}, callbacks={"bomb": bomb(at)}, algorithm=algorithm)
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = td3(Drift, LONG | {"algorithm.n_epochs": 3}, callbacks={"bomb": bomb(0)}, algorithm=algorithm)
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
