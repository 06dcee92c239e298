"""GAIL and AIRL: what the discriminator sees and pays, what is refused, and runs that repeat exactly."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv

from maze_core.base.errors import ConfigError, MazeError
from tests.recorded import BOX, OBSERVATION

TINY = {
    "algorithm.num_envs": 3,
    "algorithm.batch_size": 8,
    "algorithm.n_optimization_epochs": 2,
    "algorithm.discriminator_batch_size": 7,
    "algorithm.discriminator_hidden": [8],
    "algorithm.lr_schedule": "constant",
}
KINDS = spaces.Dict({"push": BOX, "gear": spaces.Discrete(3), "lamps": spaces.MultiBinary(2)})


def imitation(quick, folder, algorithm="gail", env=lambda: SpacesEnv(OBSERVATION, BOX), more=None, **parts):
    return quick(env, algorithm, TINY | {"algorithm.dataset": str(folder)} | (more or {}), **parts)


class Ending(SpacesEnv):
    """Episodes of 2 steps, which end by themselves in every second environment and are cut in the others."""

    def reset(self, *, seed=None, options=None):
        self.taken, self.ends = 0, seed % 2 == 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.taken += 1
        obs, reward, *_ = super().step(action)
        return obs, reward, self.taken == 2 and self.ends, self.taken == 2 and not self.ends, {}


@pytest.mark.parametrize(("algorithm", "absorbing"), [("gail", False), ("airl", False), ("gail", True), ("airl", True)])
def test_rewards_are_those_of_the_discriminator_for_every_step(quick, record, algorithm, absorbing):
    """Step by step from the rollout's own arrays: what followed, and what a termination ends or pays for ever."""
    more = {"algorithm.normalize_rewards": False, "model.normalize_observations": True}
    more["algorithm.absorbing_state"] = absorbing
    context = imitation(quick, record(OBSERVATION, BOX), algorithm, lambda: Ending(OBSERVATION, BOX), more)
    run, plugin = context.run, context.run.algorithm
    network, policy, discount = plugin.discriminator, run.policy, plugin.config.gamma
    rollout = plugin.kept["collector"].collect()
    often = (plugin._judged.extra["discount"][: rollout.rewards.size] == 0).sum().item() + 1
    share = often / (often + rollout.terminated.sum() + 1)  # the probability that who is beyond an end is the expert
    for_ever = discount / (1 - discount) * (-np.log(1 - share) + (np.log(share) if algorithm == "airl" else 0))
    cuts = {}
    for t, columns, final in rollout.truncations:
        cuts.update({(t, column): obs for column, obs in zip(columns, final["observation"], strict=True)})
    assert cuts
    assert rollout.terminated.any()

    def height(obs):
        normal = policy.normalized({"observation": torch.as_tensor(obs)[None]})
        return network.potential.values(network.potential.features(normal), None).item()

    for t, column in np.ndindex(rollout.rewards.shape):
        obs = rollout.obs["observation"][t, column]
        tensors = {"observation": torch.as_tensor(obs)[None]}
        with torch.no_grad():
            acting = policy.distribution(tensors)
            action = acting.env_action({"action": torch.as_tensor(rollout.actions["action"][t, column])[None]})
            action["action"] = action["action"].clamp(torch.as_tensor(BOX.low), torch.as_tensor(BOX.high))
            box = network.actions.canonical(action)
            logit = network.reward.values(network.reward.features(policy.normalized(tensors)), box).item()
            if algorithm == "airl":
                following = cuts.get((t, column), rollout.obs["observation"][t + 1, column])
                beyond = 0.0 if rollout.terminated[t, column] else discount * height(following)
                logit += beyond - height(obs) - acting.log_prob(acting.from_env_action(action)).item()
        expected = logit if algorithm == "airl" else np.log1p(np.exp(logit))
        expected += for_ever if absorbing and rollout.terminated[t, column] else 0.0
        assert rollout.rewards[t, column] == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("algorithm", ["gail", "airl"])
def test_the_discriminator_learns_to_tell_them_apart_from_actions_of_any_kind(quick, record, algorithm):
    """The expert's gear is always 2, and its lamps are on."""

    def act(obs, rng):
        rows = len(obs["x"]) - 1
        push = np.tile(np.float32([1.9, 1.0]), (rows, 1))
        return {"push": push, "gear": np.full(rows, 2), "lamps": np.ones((rows, 2), np.int8)}

    observation = spaces.Dict({"x": OBSERVATION, "y": spaces.Discrete(3)})
    more = {"algorithm.discriminator_lr": 0.02, "algorithm.n_discriminator_epochs": 20, "algorithm.lr": 1e-6}
    folder = record(observation, KINDS, act=act)
    context = imitation(quick, folder, algorithm, lambda: SpacesEnv(observation, KINDS), more)
    context.train()
    context.run.algorithm.kept["collector"].collect()
    judged = context.run.algorithm._judged
    logits, expert = context.run.algorithm.discriminator(context.policy, judged), judged.extra["expert"] > 0
    assert ((logits > 0) == expert).float().mean() > 0.95


@pytest.mark.parametrize(("reward", "sign"), [("positive", 1), ("negative", -1), ("difference", 0)])
def test_the_sign_of_the_reward_is_chosen(quick, record, reward, sign):
    context = imitation(quick, record(OBSERVATION, BOX), more={"algorithm.reward": reward})
    logits = torch.tensor([-200.0, -1.0, 0.0, 1.0, 200.0])
    found = context.run.algorithm.reward(logits)
    assert found.isfinite().all()
    if sign:
        assert (sign * found >= 0).all()
        torch.testing.assert_close(found, sign * torch.nn.functional.softplus(sign * logits))
    else:
        assert found.equal(logits)


def pendulum():
    return gymnasium.make("Pendulum-v1", max_episode_steps=20)


@pytest.mark.parametrize("algorithm", ["gail", pytest.param("airl", marks=pytest.mark.slow)])
def test_a_run_that_was_killed_goes_on_exactly_and_workers_change_nothing(record, algorithm, goes_on_exactly):
    env = gymnasium.make("Pendulum-v1")
    folder = record(env.observation_space, env.action_space)
    same = {
        **TINY, "algorithm.dataset": str(folder), "algorithm.n_rollout_steps": 8, "algorithm.epoch_length": 2,
        "algorithm.n_epochs": 4, "evaluation.n_episodes": 1, "model.normalize_observations": True,
    }  # fmt: skip
    goes_on_exactly("Pendulum-v1", algorithm, same)


@pytest.mark.parametrize(
    ("algorithm", "more", "words"),
    [
        ("airl", {"model.memory": "gru"}, "model.memory"),
        ("gail", {"model.critic": "none"}, "model.critic: gail needs"),
        ("gail", {"algorithm.discriminator_lr": 0}, "algorithm.discriminator_lr"),
        ("airl", {"algorithm.reward": "positive"}, "algorithm.reward"),
        ("airl", {"algorithm.absorbing_state": True, "algorithm.gamma": 1}, "absorbing_state needs gamma below 1"),
        ("gail", {"algorithm.dataset": "nowhere"}, "nowhere"),
        ("airl", {"env": "CartPole-v1"}, "was recorded with the observation space"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(quick, record, tmp_path, algorithm, more, words):
    env = more.pop("env", lambda: SpacesEnv(OBSERVATION, BOX))
    with pytest.raises(MazeError) as caught:
        imitation(quick, record(OBSERVATION, BOX), algorithm, env, more).train()
    assert words in str(caught.value)
    assert caught.value.exit_code == 2
    assert not list(tmp_path.glob("run*"))


def test_other_recordings_cannot_be_slipped_in(quick, record):
    first = imitation(quick, record(OBSERVATION, BOX))
    first.train()
    other = record(OBSERVATION, BOX, [4, 4])
    more = {"algorithm.n_epochs": 3, "algorithm.dataset": str(other)}
    with pytest.raises(ConfigError, match="no longer contains the episodes"):
        imitation(quick, other, more=more, run_dir=None).resume(first.run_dir)
