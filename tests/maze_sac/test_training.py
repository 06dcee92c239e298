"""SAC on every action and observation space: what is stored, what is counted, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import CountingEnv, SeededWalk, SpacesEnv
from maze_devkit.probes import Doors, Workshop

from maze_core.base.errors import ConfigError, RunError
from maze_core.collect.policies.base import ActingPolicy
from maze_core.run.context import RunContext

OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
ASYMMETRIC = spaces.Box(np.array([-3, 1], np.float32), np.array([-1, 100], np.float32))
ACTIONS = {
    "box": ASYMMETRIC,
    "scalar": spaces.Box(0, 1, (), np.float32),
    "discrete": spaces.Discrete(3, start=5),
    "multi": spaces.MultiDiscrete([2, 4], start=[1, -1]),
    "bits": spaces.MultiBinary(3),
    "tuple": spaces.Tuple([spaces.Discrete(2), ASYMMETRIC]),
    "nested": spaces.Dict({"a": spaces.Dict({"b": ASYMMETRIC, "c": spaces.Discrete(2, start=1)}), "d": ASYMMETRIC}),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_space(sac, name):
    """The environment insists on its own units; replay holds exactly the executed actions."""
    context = sac(lambda: SpacesEnv(OBSERVATION, ACTIONS[name]))
    summary = context.train()
    assert (summary.env_steps, summary.updates) == (20 + 10, 10)
    algorithm = context.run.algorithm
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 200, 0.9)
    box = algorithm.actions.canonical(batch.actions)
    if box is not None:
        assert box.abs().max() <= 1 + 1e-6
        # The random actions span the range.
        assert (box.amax(0) > 0.5).all()
        assert (box.amin(0) < -0.5).all()


@pytest.mark.parametrize(("model", "normalize"), [("template", True), ("mlp", False)])
def test_observations_with_images_numbers_and_choices(sac, model, normalize):
    overrides = {"model.name": model, "model.normalize_observations": normalize}
    if model == "mlp":
        context = sac(
            lambda: SpacesEnv(spaces.Dict({"x": OBSERVATION, "y": spaces.Discrete(3)}), ASYMMETRIC), overrides
        )
    else:
        context = sac(Workshop, overrides)
    context.train()
    run = context.run
    if normalize:
        assert run.policy.normalizer.count == run.env_steps
    if model == "template":
        batch = run.algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 8, 0.9)
        assert batch.obs["picture"].dtype == batch.next_obs["picture"].dtype == torch.uint8


def test_masked_actions_are_never_taken(sac):
    """Neither at random nor by the policy; the environment refuses them."""
    context = sac(Doors, {"algorithm.initial_buffer_size": 100})
    context.train()
    batch = context.run.algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 500, 0.9)
    mask, action = batch.obs["action_mask"], batch.actions["action"]
    assert mask[:, :3].gather(1, action[:, :1]).min() == 1
    assert mask[:, 3:].gather(1, action[:, 1:]).min() == 1


def test_no_choice_left_is_an_error_that_names_the_mask(sac):
    with pytest.raises(RunError, match="action_mask"):
        sac(lambda: Doors(locked=True)).train()


def test_the_final_observation_follows_the_last_step_of_an_episode(sac):
    """Checked through a whole run with several environments."""
    context = sac(lambda: CountingEnv(4, truncate=True), {"algorithm.num_envs": 3})
    context.train()
    batch = context.run.algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 500, 0.9)
    now, after = batch.obs["observation"], batch.next_obs["observation"]
    torch.testing.assert_close(after, now + torch.tensor([0.0, 0.0, 1.0]))
    assert set(now[:, 2].tolist()) == {0, 1, 2, 3}
    # Truncated, not terminated: the value of what follows counts.
    assert (batch.extra["discount"] > 0.89).all()


def test_what_an_iteration_consists_of(sac):
    sizes = {"algorithm.num_envs": 3, "algorithm.n_rollout_steps": 4, "algorithm.rollouts_per_iteration": 2}
    context = sac(SeededWalk, {**sizes, "algorithm.num_batches_per_iter": 5, "algorithm.target_update_interval": 2})
    follows = []
    run = context.run
    follow = run.algorithm.targets.follow
    run.algorithm.targets.follow = lambda tau: (follows.append(run.learner.steps), follow(tau))
    context.train()
    # The first 20 steps end after the seventh of three environments.
    assert run.env_steps == 21 + 10 * 3 * 4 * 2
    assert run.learner.steps == 10 * 5
    assert follows == list(range(2, 51, 2))
    assert run.algorithm.kept["collector"].replay.steps == run.env_steps


@pytest.mark.parametrize("overrides", [{"algorithm.n_step": 3}, {"algorithm.split_rollouts_into_transitions": False}])
def test_other_ways_to_sample(sac, overrides):
    context = sac(SeededWalk, {"algorithm.n_rollout_steps": 4, **overrides})
    seen = []
    algorithm = context.run.algorithm
    compute = context.run.hooks.compute_loss
    context.run.hooks.compute_loss = lambda policy, batch: (seen.append(batch), compute(policy, batch))[1]
    context.train()
    assert {len(batch) for batch in seen} == {16}
    if "algorithm.n_step" in overrides:
        discounts = torch.cat([batch.extra["discount"] for batch in seen])
        assert (discounts - 0.99**3).abs().min() < 1e-6
    else:
        first, second = seen[-1].next_obs["observation"][:4], seen[-1].obs["observation"][4:8]
        assert (first == second).all(-1).any()
    assert algorithm.kept["collector"].replay.steps == context.run.env_steps


class Always(ActingPolicy):
    """Asks for actions far out of bounds."""

    def setup(self, observation_space, action_space):
        self._high = action_space.high

    def act(self, obs, rngs):
        return {"action": np.tile(10 * self._high, (len(rngs), 1)).astype(np.float32)}


def test_another_policy_may_fill_the_buffer(sac, also_installed):
    also_installed("policy", "always", Always)
    overrides = {"algorithm.initial_sampling_policy": {"name": "always"}, "algorithm.initial_buffer_size": 20}
    context = sac(lambda: SpacesEnv(OBSERVATION, ASYMMETRIC), overrides)
    context.run.algorithm.warm_up()
    # What the environment executed is stored, not what was asked for.
    batch = context.run.algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 50, 0.9)
    assert set(batch.actions["action"].reshape(-1).tolist()) == {-3.0, 100.0}


def test_an_unknown_initial_policy_is_refused(sac):
    with pytest.raises(ConfigError, match=r"^algorithm\.initial_sampling_policy\.name: unknown policy 'randon'"):
        sac(SeededWalk, {"algorithm.initial_sampling_policy": "randon"}).train()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"model.critic": "separate"}, "model.critic: sac does not use"),
        ({"model.distribution": "gaussian"}, "model.distribution: SAC needs a differentiable sample"),
        ({"model.distribution": "beta"}, 'Next: overrides={"model.distribution": "squashed_gaussian"}'),
        ({"algorithm.initial_buffer_size": 501}, "algorithm.initial_buffer_size"),
        ({"steps": 20}, "the first 20 steps are taken before learning begins"),
        (
            {"algorithm.replay_buffer_size": 21, "algorithm.num_envs": 3},
            "algorithm.replay_buffer_size: the buffer must have at least 24 rows",
        ),
        ({"algorithm.replay_buffer_size": 10**13}, "algorithm.replay_buffer_size: 10,000,000,000,000 rows of replay"),
        ({"algorithm.entropy_coef": 0.0}, "entropy_tuning needs an entropy_coef above 0"),
    ],
)
def test_what_does_not_fit_is_one_clear_error_before_the_first_step(sac, tmp_path, overrides, words):
    with pytest.raises(ConfigError) as caught:
        sac(lambda: SpacesEnv(OBSERVATION, ASYMMETRIC), overrides).train()
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_replay_data_that_do_not_fit_on_the_disk_are_refused(sac, monkeypatch, tmp_path):
    import shutil
    from types import SimpleNamespace

    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=10**9, free=30_000_000))
    with pytest.raises(ConfigError, match="disk"):
        sac(lambda: SpacesEnv(OBSERVATION, ASYMMETRIC), {"algorithm.replay_buffer_size": 1_000_000}).train()
    assert not list(tmp_path.iterdir())
    sac(lambda: SpacesEnv(OBSERVATION, ASYMMETRIC)).train()


@pytest.mark.parametrize(
    ("box", "distribution"),
    [
        (spaces.Box(-np.inf, np.inf, (1,), np.float32), "squashed_gaussian"),
        (spaces.Box(np.array([-1, 0], np.float32), np.array([1, np.inf], np.float32)), "gaussian"),
        (spaces.Box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (2,), np.float32), "beta"),
    ],
)
def test_unbounded_actions_are_refused_with_one_way_out(sac, tmp_path, box, distribution):
    """Whatever the model's distribution: no other one would help."""
    space = spaces.Dict({"push": box, "choice": spaces.Discrete(2)})
    with pytest.raises(ConfigError, match="sac needs finite bounds, but the Box action 'push' is") as caught:
        sac(lambda: SpacesEnv(OBSERVATION, space), {"model.distribution": distribution}).train()
    assert "bounds with a wrapper" in str(caught.value)
    assert "distribution" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_coefficient_stays_where_it_is_not_tuned(sac):
    context = sac(SeededWalk, {"algorithm.entropy_tuning": False, "algorithm.entropy_coef": 0.0})
    context.train()
    assert context.run.algorithm.temperature.coefficient().item() == 0
    assert len(context.run.learner.optimizer.param_groups) == 1


def test_a_resumed_run_takes_the_coefficient_that_it_is_given(sac):
    """Where it is not tuned, it is a setting like any other, and no checkpoint's."""
    context = sac("Pendulum-v1", {"algorithm.entropy_tuning": False})
    context.train(1)
    context.close()
    with RunContext.reopen(context.run_dir, {"algorithm.entropy_coef": 0.75}) as again:
        assert again.run.algorithm.temperature.coefficient().item() == pytest.approx(0.75)


@pytest.mark.parametrize("multiplier", [50.0, -50.0])
def test_the_coefficient_moves_towards_the_target_entropy(sac, multiplier):
    """An entropy above its target lets the coefficient fall, one below lets it rise."""
    overrides = {"algorithm.target_entropy_multiplier": multiplier, "algorithm.entropy_coef_lr": 0.01}
    context = sac(lambda: SpacesEnv(OBSERVATION, ASYMMETRIC), overrides)
    context.train()
    # Box actions: a positive multiplier asks for less entropy than there is.
    assert (context.run.algorithm.temperature.coefficient().item() < 0.2) is (multiplier > 0)


def test_metrics(sac):
    import json

    context = sac(SeededWalk)
    context.train()
    (*_, last) = [json.loads(line) for line in (context.run_dir / "metrics.jsonl").read_text().splitlines()]
    assert {f"loss/{name}" for name in ("critic", "policy", "q", "entropy", "entropy_coef", "grad_norm")} <= set(last)
