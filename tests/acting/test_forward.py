"""Acting with numpy: the same decisions as through torch, and only where numpy can make them."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_dqn.network import ValueNetwork
from maze_dqn.returns import Expected, Quantiles
from maze_normalizers.normalizer import ObservationNormalizer

from maze_core.collect.agents.forward import NumpyForward, TorchForward, fastest_forward
from maze_core.models.mlp import MlpConfig, MlpModel

ROWS, STEPS = 6, 50
VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
TWO_LEAVES = spaces.Dict({"far": spaces.Box(-9, 9, (3,), np.float64), "near": VECTOR})
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 5], np.float32))
MATRIX = spaces.Box(-1, 1, (2, 2), np.float32)
MANY = spaces.Dict({"door": spaces.Discrete(4), "pull": BOX})

SIMPLE = {
    "discrete": (VECTOR, spaces.Discrete(3), {}),
    "temperature": (VECTOR, spaces.Discrete(3), {"temperature": 0.2}),
    "no layers": (VECTOR, spaces.Discrete(3), {"hidden": []}),
    "relu": (VECTOR, spaces.Discrete(3), {"activation": "relu"}),
    "normalised layers": (VECTOR, BOX, {"layer_norm": True, "activation": "relu"}),
    "two leaves": (TWO_LEAVES, spaces.Discrete(3), {}),
    "box": (VECTOR, BOX, {"log_std_init": 0.5}),
    "squashed": (VECTOR, BOX, {"distribution": "squashed_gaussian", "log_std_init": -0.5}),
    "dependent std": (VECTOR, BOX, {"state_dependent_std": True, "log_std_init": 0.5}),
    "squashed, dependent std": (VECTOR, BOX, {"distribution": "squashed_gaussian", "state_dependent_std": True}),
    "matrix of actions": (VECTOR, MATRIX, {"critic": "shared"}),
    "actions of two kinds": (TWO_LEAVES, MANY, {}),
    "normaliser": (VECTOR, BOX, {"normalize_observations": True}),
    "normaliser, two leaves": (TWO_LEAVES, spaces.Discrete(3), {"normalize_observations": True}),
}
OTHERS = {
    "beta": (VECTOR, BOX, {"distribution": "beta"}),
    "mask": (spaces.Dict({"x": VECTOR, "action_mask": spaces.MultiBinary(3)}), spaces.Discrete(3), {}),
    "bits": (VECTOR, spaces.MultiBinary(3), {}),
    "several choices": (VECTOR, spaces.MultiDiscrete([3, 2]), {}),
    "one of several": (spaces.Discrete(3), spaces.Discrete(3), {}),
    "bytes": (spaces.Box(0, 255, (5,), np.uint8), spaces.Discrete(3), {}),
    "matrix": (MATRIX, spaces.Discrete(3), {}),
    "another activation": (VECTOR, spaces.Discrete(3), {"activation": "elu"}),
    "large layers": (VECTOR, spaces.Discrete(3), {"hidden": [256, 256]}),
    "described choices": (
        spaces.Dict({"choices": spaces.Box(-1, 1, (3, 2)), "state": VECTOR}),
        spaces.Discrete(3),
        {"choice_features": {"action": "choices"}},
    ),
}


def policy_of(observation_space, action_space, settings):
    config = MlpConfig(name="mlp", orthogonal_init=False, **settings)
    policy = MlpModel(config).build_policy(observation_space, action_space, config)
    if policy.normalizer is not None:
        see(policy, 0.4, 0.3)
    return policy


def see(policy, mean, std):
    """Let the normaliser see some rows; with little spread, so that others are clipped."""
    rows = observations(policy.observation_space, np.random.default_rng(5))
    policy.normalizer.update({key: torch.from_numpy(mean + std * leaf) for key, leaf in rows.items()})


def observations(space, generator):
    leaves = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
    return {key: generator.normal(size=(ROWS, *leaf.shape)).astype(np.float32) for key, leaf in leaves.items()}


def decisions(actor, policy, seed=0, *, noisy=True):
    """Samples and actions of some steps, leaf by leaf [STEPS, ROWS, …]."""
    noise = policy.draw_noise((STEPS, ROWS), torch.Generator().manual_seed(seed))
    generator = np.random.default_rng(seed)
    with torch.inference_mode():
        steps = actor.by_step(noise) if noisy else [{}] * STEPS
        taken = [actor.act(observations(policy.observation_space, generator), row) for row in steps]
    return [{key: np.stack([step[part][key] for step in taken]) for key in taken[0][part]} for part in (0, 1)]


def values_of(action_space, settings=None, observation_space=VECTOR, returns=None, **options):
    """The network of values that DQN makes of a policy."""
    policy = policy_of(observation_space, action_space, settings or {})
    return ValueNetwork(policy, returns or Expected(), **options)


VALUES = {
    "values": lambda: values_of(spaces.Discrete(3)),
    "values, temperature": lambda: values_of(spaces.Discrete(3), temperature=0.3),
    "values, normaliser": lambda: values_of(spaces.Discrete(3), {"normalize_observations": True}),
}
OTHER_VALUES = {
    "hidden layers": lambda: values_of(spaces.Discrete(3), hidden=[4]),
    "dueling": lambda: values_of(spaces.Discrete(3), dueling=True),
    "noisy": lambda: values_of(spaces.Discrete(3), noisy_std=0.5),
    "atoms": lambda: values_of(spaces.Discrete(3), returns=Quantiles(5)),
    "members": lambda: values_of(spaces.MultiDiscrete([3, 2])),
    "bits": lambda: values_of(spaces.MultiBinary(2)),
    "two leaves": lambda: values_of(spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Discrete(2)})),
    "mask": lambda: values_of(spaces.Discrete(3), None, OTHERS["mask"][0]),
    "described": lambda: values_of(spaces.Discrete(3), OTHERS["described choices"][2], OTHERS["described choices"][0]),
}


@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize("name", [*SIMPLE, *VALUES])
def test_numpy_decides_as_torch_does(name, noisy):
    policy = VALUES[name]() if name in VALUES else policy_of(*SIMPLE[name])
    actors = fastest_forward(policy, ROWS, most_likely=not noisy), TorchForward(policy, most_likely=not noisy)
    assert isinstance(actors[0], NumpyForward)
    for ours, expected in zip(*(decisions(actor, policy, noisy=noisy) for actor in actors), strict=True):
        assert ours.keys() == expected.keys()
        for key, leaf in expected.items():
            assert (ours[key].shape, ours[key].dtype) == (leaf.shape, leaf.dtype)
            np.testing.assert_allclose(ours[key], leaf, rtol=1e-5, atol=1e-5, err_msg=key)
            assert len(np.unique(leaf)) > 1


@pytest.mark.parametrize("name", [*OTHERS, *OTHER_VALUES])
def test_what_numpy_does_not_know_goes_through_torch(name):
    policy = OTHER_VALUES[name]() if name in OTHER_VALUES else policy_of(*OTHERS[name])
    assert isinstance(fastest_forward(policy, ROWS), TorchForward)


def test_policies_of_other_kinds_go_through_torch():
    class Mine(torch.nn.Module):
        def __init__(self, policy):
            super().__init__()
            self.policy = policy

    assert isinstance(fastest_forward(Mine(policy_of(*SIMPLE["discrete"])), ROWS), TorchForward)
    hooked = policy_of(*SIMPLE["discrete"])
    hooked.encoder.register_forward_hook(lambda module, args, output: output)
    assert isinstance(fastest_forward(hooked, ROWS), TorchForward)
    assert isinstance(fastest_forward(policy_of(*SIMPLE["discrete"]).double(), ROWS), TorchForward)

    class Normalizer(ObservationNormalizer):
        pass

    class Own(ValueNetwork):
        """Its actions may be others."""

    values = values_of(spaces.Discrete(3))
    values.__class__ = Own
    assert isinstance(fastest_forward(values, ROWS), TorchForward)
    other = policy_of(*SIMPLE["normaliser"])
    other.normalizer.__class__ = Normalizer
    assert isinstance(fastest_forward(other, ROWS), TorchForward)


def test_what_was_decided_stays_and_is_followed_by_the_parameters():
    """Samples are not overwritten by the next step, and a step of the optimizer shows at once."""
    policy = policy_of(*SIMPLE["box"])
    actor = fastest_forward(policy, ROWS, most_likely=True)
    with torch.inference_mode():
        first, second = (actor.act(observations(VECTOR, np.random.default_rng(seed)), {}).samples for seed in (0, 1))
    assert not np.allclose(first["action"], second["action"])
    actor = fastest_forward(policy, ROWS)
    (first, second) = actor.by_step(policy.draw_noise((2, ROWS), torch.Generator()))
    obs = observations(VECTOR, np.random.default_rng(0))
    with torch.inference_mode():
        sample = actor.act(obs, first)[0]["action"]
        copy = sample.copy()
        actor.act(obs, second)
    np.testing.assert_array_equal(sample, copy)
    with torch.no_grad():
        policy.action_heads[0][2].linear.bias += 1
        policy.action_heads[0][2].log_std += 1
    with torch.inference_mode():
        moved = actor.act(obs, first)[0]["action"]
        expected = TorchForward(policy).act(obs, {key: torch.from_numpy(leaf) for key, leaf in first.items()})[0][
            "action"
        ]
    np.testing.assert_allclose(moved, expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(moved, copy + 1)


@pytest.mark.parametrize("distribution", ["squashed_gaussian", "gaussian"])
@pytest.mark.parametrize("dependent", [True, False])
def test_log_standard_deviations_are_bounded_alike(distribution, dependent):
    policy = policy_of(VECTOR, BOX, {"distribution": distribution, "state_dependent_std": dependent})
    head = policy.action_heads[0][2]
    with torch.no_grad():
        (head.linear.weight if dependent else head.log_std).add_(3)
    ours, expected = decisions(fastest_forward(policy, ROWS), policy)[0], decisions(TorchForward(policy), policy)[0]
    np.testing.assert_allclose(ours["action"], expected["action"], rtol=1e-4, atol=1e-4)


def test_statistics_that_change_are_followed_and_far_observations_clipped():
    policy = policy_of(*SIMPLE["normaliser"])
    actor = fastest_forward(policy, ROWS)
    before = decisions(actor, policy)[0]["action"]
    see(policy, -3.0, 0.001)
    ours, expected = decisions(actor, policy)[0]["action"], decisions(TorchForward(policy), policy)[0]["action"]
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(ours, before)
    policy.normalizer.clip = 0.1
    clipped, expected = decisions(actor, policy)[0]["action"], decisions(TorchForward(policy), policy)[0]["action"]
    np.testing.assert_allclose(clipped, expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(clipped, ours)


def test_an_unknown_number_stays_unknown():
    policy = policy_of(*SIMPLE["normaliser"])
    (noise,) = fastest_forward(policy, ROWS).by_step(policy.draw_noise((1, ROWS), torch.Generator()))
    obs = {"observation": np.full((ROWS, 5), np.nan, np.float32)}
    with torch.inference_mode():
        assert np.isnan(fastest_forward(policy, ROWS).act(obs, noise).samples["action"]).all()
