"""DQN: its targets number by number, its exploration, all its options on every space, and what it learns."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_devkit.probes import Doors, Steady
from maze_dqn.config import DQNConfig
from maze_dqn.network import NoisyDense, ValueNetwork

from maze_core.base.errors import ConfigError, RunError
from maze_core.collect.policies.base import ActingPolicy
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.schedules import Moment

OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
MIXED = spaces.Dict(
    {
        "picture": spaces.Box(0, 255, (6, 8, 3), np.uint8),
        "gauge": spaces.Box(-np.inf, np.inf, (3,), np.float64),
        "mode": spaces.Discrete(4, start=2),
    }
)
ACTIONS = {
    "discrete": spaces.Discrete(3, start=5),
    "multi": spaces.MultiDiscrete([2, 4], start=[1, -1]),
    "bits": spaces.MultiBinary(3),
    "dict": spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Dict({"c": spaces.MultiBinary(2)})}),
}
RAINBOW = {
    "algorithm.double": True,
    "algorithm.dueling": True,
    "algorithm.noisy": True,
    "algorithm.prioritized": True,
    "algorithm.n_step": 3,
    "algorithm.head_hidden": [16],
}


@pytest.mark.parametrize(
    ("name", "head"), [*((name, "expected") for name in ACTIONS), ("multi", "quantile"), ("dict", "categorical")]
)
def test_every_action_space_with_all_options(learn, name, head):
    """The environment insists on its own units; replay holds exactly the executed actions."""
    context = learn(lambda: SpacesEnv(OBSERVATION, ACTIONS[name]), overrides={**RAINBOW, "algorithm.head": head})
    summary = context.train()
    assert (summary.env_steps, summary.updates) == (20 + 10 * 4, 10)
    run = context.run
    assert not any(layer.noise_in.any() for layer in run.policy.modules() if isinstance(layer, NoisyDense))
    for key, leaf in run.policy.state_dict().items():
        assert leaf.isfinite().all(), key


@pytest.mark.parametrize(("algorithm", "normalize"), [("dqn", False), ("apex", True), ("pqn", True)])
def test_observations_with_images_numbers_and_choices(learn, algorithm, normalize):
    overrides = {"model.name": "template", "model.image_features": 16, "model.normalize_observations": normalize}
    context = learn(lambda: SpacesEnv(MIXED, ACTIONS["dict"]), algorithm, overrides)
    context.train()
    if normalize:
        assert context.run.policy.normalizer.count == context.run.env_steps
        if algorithm != "pqn":
            assert context.run.algorithm.target.module.normalizer is context.run.policy.normalizer


@pytest.mark.parametrize("algorithm", ["dqn", "apex", "pqn"])
def test_masked_actions_are_never_taken(learn, algorithm):
    """Neither at random nor by the policy; the environment refuses them."""
    context = learn(Doors, algorithm, {"algorithm.epsilon.to": 0.5})
    context.train()
    with pytest.raises(RunError, match="action_mask"):
        learn(lambda: Doors(locked=True), algorithm).train()


@pytest.mark.parametrize("algorithm", ["dqn", "apex", "pqn"])
@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (2,), np.float32), spaces.Dict({"a": spaces.Box(-1, 1)})])
def test_box_actions_are_refused(learn, algorithm, space):
    with pytest.raises(ConfigError, match="supports actions of Discrete"):
        learn(lambda: SpacesEnv(OBSERVATION, space), algorithm).train()


@pytest.mark.parametrize(("double", "n_step"), [(False, 1), (True, 3)])
def test_the_target_of_every_row(learn, double, n_step):
    """Against a loop over rows, with networks that disagree about the best action."""
    context = learn(Doors, overrides={"algorithm.double": double, "algorithm.n_step": n_step})
    context.train()
    algorithm, policy = context.run.algorithm, context.run.policy
    target = algorithm.target.module
    with torch.no_grad():
        for parameter in itertools.chain(policy.heads.parameters(), target.heads.parameters()):
            parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel() + (parameter is policy)))
        next(iter(policy.heads.parameters())).neg_()
    batch = algorithm.kept["collector"].sample(64, 0.9, n_step)
    found = algorithm.target_of(policy, batch)
    with torch.no_grad():
        ours, theirs = policy.atoms(batch.next_obs)[..., 0], target.atoms(batch.next_obs)[..., 0]
    sizes, differ = context.run.action_space.nvec.tolist(), 0
    for row in range(64):
        mask, start, total = batch.next_obs["action_mask"][row], 0, []
        for size in sizes:
            judge = ours if double else theirs
            choices = [i for i in range(start, start + size) if mask[i]] or [start]
            best = max(choices, key=lambda i, judge=judge, row=row: judge[row, i].item())
            differ += best != max(choices, key=lambda i, row=row: (theirs if double else ours)[row, i].item())
            total.append(theirs[row, best].item())
            start += size
        expected = batch.extra["reward"][row].item() + batch.extra["discount"][row].item() * np.mean(total)
        assert found[row, 0].item() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert differ > 10, "the networks agree, so nothing is tested"


def test_the_share_of_random_actions_falls_in_a_line():
    config = DQNConfig(name="dqn", epsilon={"from": 0.9, "to": 0.1, "end": 400})
    numbers = [config.epsilon.rule()(Moment(0, steps, 0)) for steps in (0, 100, 400, 9000)]
    assert numbers == pytest.approx([0.9, 0.7, 0.1, 0.1])
    with pytest.raises(ValueError, match="value_min"):
        DQNConfig(name="dqn", value_min=1, value_max=1)


@pytest.mark.parametrize(("tau", "interval"), [(1.0, 4), (0.3, 1)])
def test_the_target_follows_after_each_interval(learn, tau, interval):
    context = learn(SeededWalk, overrides={"algorithm.tau": tau, "algorithm.target_update_interval": interval})
    algorithm, policy = context.run.algorithm, context.run.policy
    follows, follow = [], algorithm.target.follow
    algorithm.target.follow = lambda share: (follows.append((context.run.learner.steps, share)), follow(share))
    context.train()
    assert follows == [(step, tau) for step in range(interval, 11, interval)]
    pairs = list(zip(policy.parameters(), algorithm.target.module.parameters(), strict=True))
    assert any(not torch.equal(ours, theirs) for ours, theirs in pairs)
    follow(1.0)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_priorities_are_the_errors_of_the_last_look(learn):
    """The loss is weighted, and what was drawn has the priority of its error."""
    context = learn(SeededWalk, overrides={"algorithm.prioritized": True, "algorithm.priority_exponent": 0.7})
    run = context.run
    seen, compute = [], run.hooks.compute_loss

    def watched(policy, batch):
        loss = compute(policy, batch)
        chosen = policy.at(policy.atoms(batch.obs), policy.actions.indices(batch.actions))[:, 0, 0]
        error = run.algorithm.target_of(policy, batch)[:, 0] - chosen
        rows = torch.nn.functional.smooth_l1_loss(error, torch.zeros_like(error), reduction="none")
        torch.testing.assert_close(loss.total, (rows * batch.extra["weight"]).mean())
        seen.append((batch.extra["slot"].numpy(), error.detach().abs().numpy()))
        return loss

    run.hooks.compute_loss = watched
    context.train()
    slots, errors = seen[-1]
    priorities = run.algorithm.kept["collector"].replay.priorities
    known = dict(zip(slots.tolist(), errors, strict=True))
    for slot, error in known.items():
        assert priorities[np.array([slot])][0] == pytest.approx((error + 1e-6) ** 0.7, rel=1e-4)


def test_options_cost_nothing_where_they_are_off(learn):
    policy = learn(SeededWalk).run.policy
    assert isinstance(policy, ValueNetwork)
    assert [type(layer).__name__ for layer in policy.heads["choices"]] == ["Dense"]
    assert "observation" not in policy.heads


def test_a_policy_of_ones_own_needs_an_encoder(learn):
    with pytest.raises(ConfigError, match="encoder"):
        learn(SeededWalk, model=Whole).train()


class Whole(torch.nn.Module):
    """A policy that is no encoder."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def distribution(self, obs):
        raise NotImplementedError

    def draw_noise(self, shape, generator):
        raise NotImplementedError


FAST = {
    "algorithm.lr": 0.003,
    "algorithm.epoch_length": 300,
    "algorithm.n_epochs": 1,
    "algorithm.batch_size": 64,
    "algorithm.initial_buffer_size": 100,
    "algorithm.replay_buffer_size": 2000,
    "algorithm.epsilon.end": 500,
    "algorithm.target_update_interval": 1,
    "algorithm.tau": 0.1,
    "model.hidden": [32, 32],
}


class SteadyWith(Steady):
    """A reward of 1 for ever, whatever is done."""

    def __init__(self, action_space):
        super().__init__()
        self.action_space = action_space


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("discrete", "quantile"),
        pytest.param("dict", "categorical", marks=pytest.mark.slow),
    ],
)
def test_a_reward_of_1_for_ever_is_worth_its_discounted_sum(learn, name, head):
    """A time limit is no end, nor do several rewards at once or many members change what it is worth."""
    values = {"algorithm.gamma": 0.8, "algorithm.n_step": 3, "algorithm.head": head, "algorithm.quantiles": 8}
    values |= {"algorithm.atoms": 21, "algorithm.epoch_length": 250}
    context = learn(lambda: SteadyWith(ACTIONS[name]), overrides=FAST | values)
    context.train()
    with torch.no_grad():
        assert context.policy.value({"observation": torch.ones(1, 1)}).item() == pytest.approx(5, abs=0.3)


QUIET = {"algorithm.epsilon.from": 0.0, "algorithm.epsilon.to": 0.0, "algorithm.initial_buffer_size": 16}


@pytest.mark.slow
@pytest.mark.parametrize("noisy", [False, True])
def test_noise_finds_what_the_greedy_never_tries(learn, also_installed, noisy):
    """The buffer begins with action 1, so that without random actions and noise nothing else may ever be tried."""
    values = FAST | RAINBOW | QUIET | {"algorithm.initial_sampling_policy": "one", "algorithm.noisy": noisy}
    values |= {"algorithm.n_step": 1, "algorithm.epoch_length": 300, "algorithm.noisy_std": 1.0}
    also_installed("policy", "one", One)
    context = learn(Arms, overrides=values)
    with torch.no_grad():  # action 1 seems best at first
        context.run.policy.heads["choices"][-1].bias.copy_(torch.tensor([-0.1, 0.1, -0.1]))
    assert context.train().final_evaluation["eval/return_mean"] == (1.0 if noisy else 0.4)


class Arms(gymnasium.Env):
    """One step; the actions are worth 1, 0.4 and 0."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), (1.0, 0.4, 0.0)[action], True, False, {}


class One(ActingPolicy):
    """Always takes action 1."""

    def setup(self, observation_space, action_space):
        pass

    def act(self, obs, rngs):
        return {"action": np.ones(len(rngs), np.int64)}


class Locks(gymnasium.Env):
    """Three dials show numbers; each dial set to the number shown opens a third. One step."""

    observation_space = spaces.MultiDiscrete([3, 3, 2])

    action_space = spaces.Dict({"a": spaces.MultiDiscrete([3, 3]), "b": spaces.MultiBinary(1)})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._shown = self.np_random.integers([3, 3, 2])
        return self._shown, {}

    def step(self, action):
        dials = np.concatenate([action["a"], action["b"]])
        return self._shown, float((dials == self._shown).mean()), True, False, {}


@pytest.mark.slow
def test_three_locks_are_opened_at_once(learn):
    values = {"algorithm.epoch_length": 400, "evaluation.n_episodes": 60, "algorithm.epsilon.to": 0.3}
    summary = learn(Locks, overrides=FAST | values).train()
    assert summary.final_evaluation["eval/return_mean"] == 1


@pytest.mark.parametrize(("preset", "env"), [("rainbow", "Acrobot-v1"), ("rainbow", "CartPole-v1")])
def test_rainbow_is_all_of_it(preset, env):
    config = assemble("dqn", env, preset=preset).algorithm
    assert config.double
    assert config.dueling
    assert config.noisy
    assert config.prioritized
    assert (config.n_step, config.head) == (3, "categorical")
    assert config.epsilon == 0
