from functools import reduce

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from maze_devkit.envs import SpacesEnv
from maze_onpolicy.data.tensor_codecs import TensorActions

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, allocated_bytes, flatten_space, leaf_spec, space_specs

SEEDS = EpisodeSeeds(5, Purpose.TRAIN_EPISODES)
NESTED = Dict(
    {
        "image": Box(0, 255, (4, 6, 3), np.uint8),
        "self": Dict({"speed": Box(-1, 1, (2,), np.float64), "gear": Discrete(5, start=-1)}),
        "pair": Tuple((MultiBinary(3), MultiDiscrete([3, 4], start=[2, -5]))),
    }
)
ACTIONS = [
    Discrete(3, start=7),
    Discrete(4),
    MultiDiscrete([2, 3], start=[1, -4]),
    MultiBinary(4),
    Box(np.array([-3, 0], np.float32), np.array([1, 10], np.float32)),
    Box(-0.3, 0.7, (2, 2), np.float64),
    Box(-2, 9, (3,), np.int32),
    Box(-1.0, 2.0, (), np.float32),
    Tuple((Discrete(2, start=1), Dict({"x": Box(0, 1, (1,))}))),
    NESTED,
]


def test_keys_follow_the_nesting():
    assert list(flatten_space(NESTED, "observation")) == ["image", "pair/0", "pair/1", "self/gear", "self/speed"]
    assert list(flatten_space(Discrete(2), "action")) == ["action"]
    assert list(flatten_space(Box(0, 1, (2,)), "observation")) == ["observation"]


@pytest.mark.parametrize(
    ("space", "where"),
    [
        (spaces.Text(4), "observation space is a Text"),
        (None, "observation space is None, which is not a gymnasium.Space"),
        (np.zeros(3), "is array.*, which is not a gymnasium.Space"),
        (Box, "which is not a gymnasium.Space"),
        (reduce(lambda inner, _: Dict({"a": inner}), range(300), Discrete(2)), "at 'a/a/a' has more than 50 levels"),
        (Dict({"a": Dict({"b": spaces.Graph(Discrete(2), None)})}), "at 'a/b' is a Graph"),
        (Tuple((Discrete(2), spaces.Sequence(Discrete(2)))), "at '1' is a Sequence"),
        (spaces.OneOf([Discrete(2), Discrete(3)]), "OneOf"),
        (Dict({"a/b": Discrete(2)}), "'a/b'"),
        (Dict({"x": Dict({"a.b": Discrete(2)})}), "at 'x' has the key 'a.b'"),
        (Dict({}), "empty Dict"),
        (Dict({"x": Tuple(())}), "at 'x' is an empty Tuple"),
        (Box(0, 1, (3, 0)), r"shape \(3, 0\)"),
        (MultiDiscrete([[2, 3], [4, 5]]), "one dimension"),
    ],
)
def test_unsupported_spaces_are_refused_by_name_with_the_way_out(space, where):
    with pytest.raises(ConfigError, match=where) as caught:
        flatten_space(space, "observation")
    assert "ObservationWrapper" in str(caught.value)


def test_storage_keeps_bytes_small_and_images_as_they_are():
    specs = space_specs(NESTED, "observation")
    assert specs["image"].dtype == np.uint8
    assert specs["image"].shape == (4, 6, 3)  # not square: height and width stay in place
    assert specs["self/speed"].dtype == np.float32
    assert leaf_spec(Box(0, 1, (2,), np.float64), "action").dtype == np.float32
    assert specs["self/gear"].dtype == specs["pair/1"].dtype == np.int64
    assert specs["pair/0"].dtype == np.int8


def test_predicted_bytes_are_those_of_the_arrays():
    specs = space_specs(NESTED, "observation")
    tree = allocate(specs, (7, 3))
    assert sum(array.nbytes for array in tree.values()) == allocated_bytes(specs, (7, 3))
    # by hand: 72 image bytes, two float32, one int64, three int8, two int64
    assert allocated_bytes(specs, (7, 3)) == 21 * (72 + 8 + 8 + 3 + 16)


def test_an_image_is_stored_pixel_for_pixel():
    space = Box(0, 255, (5, 8, 3), np.uint8)
    env = SpacesEnv(space, Discrete(2))
    vector = SerialVectorEnv(lambda i: env, 1)
    out = allocate(space_specs(space, "observation"), (1,))
    vector.reset(SEEDS, out)
    assert out["observation"].dtype == np.uint8
    assert np.array_equal(out["observation"][0], env.last_observation)


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_every_stored_action_becomes_one_the_environment_contains(space):
    codec = ActionCodec(space)
    rng = np.random.default_rng(0)
    tree = {}
    for key, leaf in flatten_space(space, "action").items():
        shape = (64, *codec.specs[key].shape)
        if isinstance(leaf, Box):
            tree[key] = (rng.normal(size=shape) * 20).astype(np.float32)  # far outside: clipped
        elif isinstance(leaf, MultiDiscrete):
            tree[key] = rng.integers(0, leaf.nvec, shape)
        else:
            tree[key] = rng.integers(0, leaf.n if isinstance(leaf, Discrete) else 2, shape)
        tree[key] = tree[key].astype(codec.specs[key].dtype)
    for action in codec.rows(tree):
        assert space.contains(action)


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_a_users_action_survives_the_way_into_a_tree_and_back(space):
    codec = ActionCodec(space)
    space.seed(3)
    for _ in range(20):
        action = space.sample()
        (back,) = codec.rows(codec.tree(action))
        assert space.contains(back)
        assert_close(action, back)


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_a_users_observation_survives_the_way_into_a_tree_and_back(space):
    codec = ObservationCodec(space)
    space.seed(4)
    for _ in range(20):
        observation = space.sample()
        codec.check(observation)
        assert_close(observation, codec.nested(codec.tree(observation), 0))


def assert_close(a, b):
    if isinstance(a, dict):
        assert set(a) == set(b)
        for key in a:
            assert_close(a[key], b[key])
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_close(x, y)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_environments_that_insist_on_their_spaces_run(space):
    vector = SerialVectorEnv(lambda i: SpacesEnv(space, space), 2)
    out = allocate(space_specs(space, "observation"), (2,))
    vector.reset(SEEDS, out)
    actions = allocate(space_specs(space, "action"), (2,))
    for _ in range(6):
        vector.step(actions, out)


def test_discrete_values_count_from_zero_inside():
    codec = ObservationCodec(NESTED)
    observation = NESTED.sample()
    observation["self"]["gear"], observation["pair"] = np.int64(-1), (np.ones(3, np.int8), np.array([4, -5]))
    tree = codec.tree(observation)
    assert tree["self/gear"].tolist() == [0]
    assert tree["pair/1"].tolist() == [[2, 0]]
    assert ActionCodec(Discrete(3, start=7)).rows({"action": np.array([0, 2])}) == [7, 9]


def test_a_bound_that_float32_rounds_outwards_still_holds():
    space = Box(-0.1, 0.1, (1,), np.float64)  # float32(0.1) > 0.1
    (action,) = ActionCodec(space).rows({"action": np.array([[0.1]], np.float32)})
    assert space.contains(action)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64])
def test_numbers_beyond_every_integer_end_at_their_own_bound(kind):
    """As float64 the largest integer of 64 bits is one more, and a cast would make it the smallest one."""
    space = Box(np.iinfo(kind).min, np.iinfo(kind).max, (2,), kind)
    far, stored = np.array([[-1e30, 1e30]], np.float32), ActionCodec(space).executed
    (action,) = ActionCodec(space).rows({"action": far})
    for low, high in (action, stored({"action": far})["action"][0], _of_tensors(space, far)):
        assert low == float(space.low[0])
        assert high == pytest.approx(float(space.high[0]), rel=1e-6)


def _of_tensors(space, values):
    if space.dtype == np.uint64:  # torch cannot clamp it
        return [0, 2**64]
    return TensorActions(space, torch.device("cpu")).batch({"action": torch.from_numpy(values)})[0].tolist()


@pytest.mark.parametrize(
    ("space", "value", "problem"),
    [
        (Box(0, 1, (2,)), np.zeros(3, np.float32), "shape"),
        (Box(0, 255, (2,), np.uint8), np.zeros(2, np.float32), "dtype"),
        (Dict({"a": Discrete(2)}), {"b": 1}, "keys"),
        (Dict({"a": Discrete(2)}), {"a": 1, "b": 1}, "keys"),
        (Dict({"a": Dict({"b": Discrete(2)})}), {"a": {"b": 5}}, "'a/b'"),
        (Discrete(3, start=1), 0, "Discrete"),
        (MultiBinary(2), np.array([0, 2]), "MultiBinary"),
        (Tuple((Discrete(2), Discrete(2))), (1,), "tuple of 2"),
    ],
)
def test_an_observation_unlike_its_space_is_an_error_on_the_first_reset(space, value, problem):
    env = SpacesEnv(space, Discrete(2))
    env.observe = lambda: value
    vector = SerialVectorEnv(lambda i: env, 1)
    with pytest.raises(ConfigError, match=problem):
        vector.reset(SEEDS, allocate(space_specs(space, "observation"), (1,)))


@pytest.mark.parametrize("key", ["a.b", "a/b", "", "text/x", "le texte.", 3])
@pytest.mark.parametrize("role", ["observation", "action"])
def test_a_key_is_to_be_renamed_whatever_it_is(key, role):
    space = Dict({"x": Discrete(2)})
    space.spaces[key] = Discrete(2)  # gymnasium's constructor would refuse some of them itself
    with pytest.raises(ConfigError, match="Rename it") as caught:
        flatten_space(space, role)
    assert repr(key) in str(caught.value)
    assert "tokenize" not in str(caught.value)
