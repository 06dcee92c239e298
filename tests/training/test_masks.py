"""Masks hold in every run: nobody takes a forbidden action, whoever acts and whatever is between."""

from __future__ import annotations

import functools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_core.base.errors import ConfigError, RunError
from maze_core.envs.spaces import flatten_space
from maze_core.run.context import RunContext
from tests.masked import FORMS, Guarded

FORM = "a Dict"


def play(context, steps=20):
    env, agent = context.make_env(), context.agent(deterministic=False)
    observation, _ = env.reset(seed=3)
    for _ in range(steps):
        observation, _, terminated, truncated, _ = env.step(agent.act(observation))
        if terminated or truncated:
            observation, _ = env.reset()
    env.close()


@pytest.mark.parametrize("form", FORMS)
def test_ppo_takes_no_forbidden_action(quick, form):
    context = quick(functools.partial(Guarded, form))
    context.train(1)
    context.evaluate(deterministic=False)
    play(context)


ROLLOUTS = {"algorithm.n_rollout_steps": 8}


@pytest.mark.parametrize(
    ("algorithm", "overrides"),
    [
        ("dqn", {}),
        ("pqn", ROLLOUTS),
        ("impala", ROLLOUTS),
        ("es", {}),
        ("ppo", {**ROLLOUTS, "model.memory": "gru"}),
        pytest.param("sac", {"algorithm.batch_size": 16}, marks=pytest.mark.slow),
        pytest.param("ppo", {**ROLLOUTS, "runner": {"name": "local", "workers": 2}}, marks=pytest.mark.slow),
    ],
)
def test_no_forbidden_action_is_taken(tmp_path, known_plugins, algorithm, overrides):
    tiny = {"algorithm.epoch_length": 2, "evaluation.n_episodes": 2, "callbacks.tensorboard": None}
    parts = {"preset": "none", "seed": 1, "silent": True, "run_dir": tmp_path / "run", "epochs": 1}
    with RunContext(functools.partial(Guarded, FORM), algorithm, overrides=tiny | overrides, **parts) as context:
        context.train()
        context.evaluate(deterministic=False)
        play(context)


def test_wrappers_leave_masks_alone(quick):
    wrappers = [{"name": "stack", "size": 2}, {"name": "rescale_observations", "low": 0}]
    context = quick(functools.partial(Guarded, FORM), wrappers=wrappers)
    context.train(1)
    play(context)


@pytest.mark.parametrize("form", ["a Dict", "a Tuple for members", "flat"])
def test_a_wrapper_that_takes_the_masks_away_is_refused(quick, form):
    for wrapper in ("gymnasium.wrappers:FlattenObservation", gymnasium.wrappers.FlattenObservation):
        with pytest.raises(ConfigError, match=r"FlattenObservation takes the action mask 'action_mask"):
            quick(functools.partial(Guarded, form), wrappers=[wrapper]).train(1)
    dropped = {"name": "drop", "keys": sorted(key for key in _leaves(form) if key != "at")}
    context = quick(functools.partial(Guarded, form), wrappers=[dropped, gymnasium.wrappers.FlattenObservation])
    assert context.make_env().observation_space.shape == (2,)


def _leaves(form):
    return flatten_space(Guarded(form).observation_space, "observation")


def test_a_mask_that_masks_nothing_is_refused_at_the_start(quick):
    class Misplaced(Guarded):
        def __init__(self):
            super().__init__("flat")
            self.observation_space = spaces.Dict({"game": self.observation_space})

        def look(self):
            return {"game": super().look()}

    with pytest.raises(ConfigError, match=r"'game/action_mask'.*masks no action"):
        quick(Misplaced).train(1)


class Lax(Guarded):
    """Forbids everything from the fourth step on, and accepts anything."""

    def __init__(self, form):
        super().__init__(form, closed=3)

    def step(self, action):
        self.members = [np.ones_like(each) for each in self.members]
        return super().step(action)


@pytest.mark.parametrize("form", ["flat", "a Dict", "a board"])
def test_a_mask_without_a_choice_ends_evaluations_and_rollouts_too(quick, form):
    context = quick(functools.partial(Lax, form))
    for play_episodes in (context.evaluate, functools.partial(context.rollout, 2), context.train):
        with pytest.raises(RunError, match=r"the mask 'action_mask.*forbids every choice"):
            play_episodes()


def test_masked_choices_have_probability_zero_a_ratio_of_one_and_finite_gradients(quick):
    context = quick(functools.partial(Guarded, FORM))
    policy, env = context.policy, Guarded(FORM)
    observation, _ = env.reset(seed=1)
    obs = {"at": torch.zeros(1, 2)}
    obs |= {f"action_mask/arm/{i}": torch.as_tensor(m)[None] for i, m in enumerate(observation["action_mask"]["arm"])}
    obs["action_mask/move"] = torch.as_tensor(observation["action_mask"]["move"])[None]
    parts = policy.distribution(obs).parts
    found = [*parts["arm"].choices.log_probs.exp()[0], parts["move"].log_probs.exp()[0]]
    for allowed, probabilities in zip(env.members, found, strict=True):
        assert ((probabilities == 0).numpy() == (allowed == 0)).all()
    samples = policy.distribution(obs).mode()
    log_prob = policy.distribution(obs).log_prob(samples)
    (log_prob - log_prob.detach()).exp().sum().backward()
    assert all(p.grad.isfinite().all() for p in policy.parameters() if p.grad is not None)
