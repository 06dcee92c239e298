"""The loss is the exact negative log-likelihood of the recorded action, whatever the action space."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_bc.dataset import as_samples
from maze_devkit.envs import SpacesEnv
from maze_recordings.loader import load_trajectories
from maze_recordings.recording_files import TrajectoryError
from torch import distributions as oracle

SEEN = spaces.Box(-np.inf, np.inf, (3,), np.float32)
LOW, HIGH = np.float32([-2, 0.5]), np.float32([1, 4])


def same(action):
    """A recording's `act` that answers every observation alike."""

    def act(obs):
        steps = len(next(iter(obs.values()))) - 1
        return {key: np.tile(value, (steps,) + (1,) * np.ndim(value)) for key, value in action.items()}

    return act


def build(bc, record, space, action, observation=SEEN, **model):
    folder = record(observation, space, [4, 4, 4], same(action))
    overrides = {f"model.{key}": value for key, value in model.items()} | {"algorithm.validation_percentage": 0}
    return bc(lambda: SpacesEnv(observation, space), folder, overrides).run


def losses(run):
    """The loss of a batch and the policy's distribution of its observations."""
    (batch,) = run.algorithm.batches()
    return run.algorithm.compute_loss(run.policy, batch), run.policy.distribution(batch.obs).parts


def stretched(distribution, low, high):
    """A distribution over (0, 1) moved to [low, high]."""
    return oracle.TransformedDistribution(distribution, oracle.AffineTransform(low, high - low))


def test_discrete_counted_from_three(bc, record):
    loss, parts = losses(build(bc, record, spaces.Discrete(4, start=3), {"action": 2}))
    expected = -parts["action"].logits.log_softmax(-1)[:, 2].mean()
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.metrics["nll"], expected.detach())


def test_a_dict_of_choices_sums_over_its_heads(bc, record):
    space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiDiscrete([2, 5]), "c": spaces.MultiBinary(2)})
    action = {"a": np.int64(1), "b": np.int64([1, 4]), "c": np.int8([1, 0])}
    run = build(bc, record, space, action)
    loss, parts = losses(run)
    a = parts["a"].logits.log_softmax(-1)[:, 1]
    choices = parts["b"].choices.logits
    b = choices[:, 0, :2].log_softmax(-1)[:, 1] + choices[:, 1].log_softmax(-1)[:, 4]
    bits = oracle.Bernoulli(logits=parts["c"].logits)
    c = bits.log_prob(torch.tensor([1.0, 0.0])).sum(-1)
    torch.testing.assert_close(loss.total, -(a + b + c).mean())


def test_a_gaussian_in_the_units_of_the_space(bc, record):
    taken = np.float32([0.7, 3.0])
    loss, parts = losses(build(bc, record, spaces.Box(LOW, HIGH), {"action": taken}))
    centre, radius = torch.from_numpy((LOW + HIGH) / 2), torch.from_numpy((HIGH - LOW) / 2)
    normal = oracle.Normal(centre + radius * parts["action"].mean, radius * parts["action"].std)
    torch.testing.assert_close(loss.total, -normal.log_prob(torch.from_numpy(taken)).sum(-1).mean())


def test_a_squashed_gaussian_with_its_jacobian(bc, record):
    taken = np.float32([0.7, 3.0])
    run = build(bc, record, spaces.Box(LOW, HIGH), {"action": taken}, distribution="squashed_gaussian")
    loss, parts = losses(run)
    normal = oracle.Normal(parts["action"].mean.double(), parts["action"].std.double())
    low, high = torch.from_numpy(LOW).double(), torch.from_numpy(HIGH).double()
    unit = [oracle.TanhTransform(), oracle.AffineTransform(0.5, 0.5)]
    squashed = stretched(oracle.TransformedDistribution(normal, unit), low, high)
    torch.testing.assert_close(loss.total.double(), -squashed.log_prob(torch.from_numpy(taken)).sum(-1).mean())


def test_a_beta_with_its_width(bc, record):
    taken = np.float32([0.7, 3.0])
    loss, parts = losses(build(bc, record, spaces.Box(LOW, HIGH), {"action": taken}, distribution="beta"))
    low, high = torch.from_numpy(LOW), torch.from_numpy(HIGH)
    beta = stretched(oracle.Beta(parts["action"].alpha, parts["action"].beta), low, high)
    torch.testing.assert_close(loss.total, -beta.log_prob(torch.from_numpy(taken)).sum(-1).mean())


@pytest.mark.parametrize("distribution", ["squashed_gaussian", "beta"])
def test_actions_on_a_bound_have_a_finite_loss_and_gradient(bc, record, distribution):
    run = build(bc, record, spaces.Box(LOW, HIGH), {"action": np.float32([LOW[0], HIGH[1]])}, distribution=distribution)
    loss, _ = losses(run)
    loss.total.backward()
    gradients = [p.grad for p in run.policy.parameters() if p.grad is not None]
    assert loss.total.isfinite()
    assert gradients
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_the_entropy_bonus_is_subtracted(bc, record):
    folder = record(SEEN, spaces.Discrete(3), [4, 4], same({"action": 1}))
    run = bc(lambda: SpacesEnv(SEEN, spaces.Discrete(3)), folder, {"algorithm.entropy_coef": 0.3}).run
    (batch,) = run.algorithm.batches()
    loss = run.algorithm.compute_loss(run.policy, batch)
    probabilities = run.policy.distribution(batch.obs).parts["action"].logits.softmax(-1)
    entropy = -(probabilities * probabilities.log()).sum(-1).mean()
    expected = -probabilities[:, 1].log().mean() - 0.3 * entropy
    torch.testing.assert_close(loss.total, expected)


MASKED = spaces.Dict({"x": SEEN, "action_mask": spaces.MultiBinary(3)})


def masked(allowed):
    """A recording's `act` that takes choice 1 and shows this mask."""

    def act(obs):
        obs["action_mask"][...] = allowed
        return {"action": np.ones(len(obs["x"]) - 1, np.int64)}

    return act


def test_a_masked_choice_has_no_part_in_the_likelihood(bc, record):
    folder = record(MASKED, spaces.Discrete(3), [4, 4], masked([0, 1, 1]))
    run = bc(lambda: SpacesEnv(MASKED, spaces.Discrete(3)), folder).run
    (batch,) = run.algorithm.batches()
    head = run.policy.heads["action_head"].linear
    loss = run.algorithm.compute_loss(run.policy, batch)
    loss.total.backward()
    assert torch.equal(head.weight.grad[0], torch.zeros_like(head.weight.grad[0]))
    assert head.weight.grad[2].abs().sum() > 0
    logits = run.policy.distribution(batch.obs).parts["action"].logits[:, 1:]
    torch.testing.assert_close(loss.total, -logits.log_softmax(-1)[:, 0].mean())


def test_a_recorded_action_that_its_mask_forbids_is_named(bc, record):
    folder = record(MASKED, spaces.Discrete(3), [4, 4], masked([1, 0, 1]))
    with pytest.raises(TrajectoryError, match=r"demos0: the action of episode 0, step 0 is forbidden"):
        bc(lambda: SpacesEnv(MASKED, spaces.Discrete(3)), folder).train()


UNBOUNDED = spaces.Box(-np.inf, np.inf, (2,), np.float32)
FAR = np.float32([3e6, -5e6])
BOUND = np.float32([LOW[0], HIGH[1]])


@pytest.mark.parametrize(
    ("space", "action", "model"),
    [
        (UNBOUNDED, FAR, {}),
        (UNBOUNDED, FAR, {"state_dependent_std": True}),
        (spaces.Box(LOW, HIGH), BOUND, {"log_std_init": -12.0}),
        (spaces.Box(LOW, HIGH), BOUND, {"distribution": "squashed_gaussian", "log_std_init": -12.0}),
    ],
)
def test_an_unlikely_continuous_action_is_not_forbidden(bc, record, space, action, model):
    """No mask, nothing to forbid: the density may be as low as it likes."""
    loss, _ = losses(build(bc, record, space, {"action": action}, **model))
    assert 1e8 < loss.total.item() < np.inf


def test_a_narrow_beta_forbids_nothing(bc, record):
    run = build(bc, record, spaces.Box(LOW, HIGH), {"action": BOUND}, distribution="beta")
    with torch.no_grad():
        run.policy.heads["action_head"].linear.bias.fill_(1e9)
    data = load_trajectories(Path(run.config.algorithm.dataset))
    samples = as_samples(run.policy, data, torch.device("cpu"))
    with torch.no_grad():
        part = run.policy.distribution({"observation": torch.zeros(1, 3)}).parts["action"]
        assert part.log_prob(samples["action"]).max() < -1e8


EVERYTHING = spaces.Dict({
    "one": spaces.Discrete(3, start=5), "many": spaces.MultiDiscrete([2, 3]), "bits": spaces.MultiBinary(3),
    "push": UNBOUNDED, "free": spaces.Discrete(2),
})  # fmt: skip
ALLOWED = {"one": [0, 1, 0], "many": [1, 0, 0, 1, 1], "bits": [1, 0, 1]}


@pytest.mark.parametrize(
    ("taken", "named"),
    [
        ({}, None),
        ({"one": np.int64(0)}, "one_mask"),
        ({"many": np.int64([1, 2])}, "many_mask"),
        ({"many": np.int64([0, 0])}, "many_mask"),
        ({"bits": np.int8([0, 1, 0])}, "bits_mask"),
        ({"bits": np.int8([0, 0, 0])}, None),
    ],
)
def test_every_mask_is_asked_about_its_own_action(bc, record, taken, named):
    """Beside a Box whose density is low, and choices that have no mask."""
    seen = spaces.Dict({"x": SEEN} | {f"{key}_mask": spaces.MultiBinary(len(mask)) for key, mask in ALLOWED.items()})
    usual = {"one": np.int64(1), "many": np.int64([0, 2]), "bits": np.int8([1, 0, 1]), "push": FAR, "free": np.int64(1)}

    def act(obs):
        for key, mask in ALLOWED.items():
            obs[f"{key}_mask"][...] = mask
        actions = same(usual)(obs)
        for key, value in taken.items():
            actions[key][-1] = value
        return actions

    folder = record(seen, EVERYTHING, [4, 4], act)
    if named is None:
        loss, _ = losses(bc(lambda: SpacesEnv(seen, EVERYTHING), folder).run)
        assert 1e8 < loss.total.item() < np.inf
        return
    with pytest.raises(TrajectoryError, match=f"the action of episode 0, step 3 is forbidden by its mask '{named}'"):
        bc(lambda: SpacesEnv(seen, EVERYTHING), folder).train()


@pytest.mark.slow
def test_a_known_squashed_policy_is_cloned(bc, record):
    """Mean and spread of the teacher are recovered in its own units; a squared error would miss the spread."""
    space = spaces.Box(np.float32([-3]), np.float32([5]))
    rng = np.random.default_rng(1)
    mean, std = 0.9, 0.6

    def teach(obs):
        u = rng.normal(mean, std, (len(obs["observation"]) - 1, 1))
        return {"action": (1 + 4 * np.tanh(u)).astype(np.float32)}

    folder = record(SEEN, space, [200] * 10, teach)
    overrides = {"model.distribution": "squashed_gaussian", "model.log_std_init": 0.5, "algorithm.n_epochs": 12,
                 "callbacks.early_stopping.patience": 0,
                 "algorithm.lr": 0.01, "algorithm.n_eval_episodes": 0}  # fmt: skip
    clone = bc(lambda: SpacesEnv(SEEN, space), folder, overrides)
    clone.train()
    with torch.no_grad():
        part = clone.policy.distribution({"observation": torch.zeros(1, 3)}).parts["action"]
    assert part.mean.item() == pytest.approx(mean, abs=0.1)
    assert part.std.item() == pytest.approx(std, abs=0.06)
