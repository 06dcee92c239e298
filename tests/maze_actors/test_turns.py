"""Environments with several actors: their spaces, what they refuse, and that they step like any other."""

from __future__ import annotations

import copy
import pickle
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from maze_actors.agent_rows import ActorSpaces
from maze_actors.turns import Turn, TurnEnv
from maze_devkit.soundness import honest, other_seed, replays, same_seed
from maze_devkit.turns import Carousel, Shelves
from maze_recordings.space_json import space_from_json, space_to_json

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.actors import ActorId, actors_of
from maze_core.envs.masks import mask_leaves
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs

SEEN, TWO = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)


class Given(TurnEnv):
    """Returns turns that a test gives."""

    def __init__(self, *turns, actors=None, **more):
        super().__init__({"a": (SEEN, TWO), "b": (SEEN, spaces.Discrete(3))} if actors is None else actors, **more)
        self.turns, self.taken = list(turns), []

    def first_turn(self):
        return self.turns.pop(0)

    def next_turn(self, actor, action):
        self.taken.append((actor, action))
        return self.turns.pop(0)


def zeros():
    return np.zeros(2, np.float32)


def test_a_row_has_whose_turn_it_is_what_has_elapsed_and_zeros_where_actors_wait():
    env = Carousel()
    first, _ = env.reset(seed=3)
    assert actors_of(env.observation_space).actors == {"choose": "choose", "left": "left", "right": "left"}
    assert (int(first["turn"]["actor"]), float(first["turn"]["elapsed"])) == (0, 1.0)
    np.testing.assert_array_equal(first["left"]["level"], [5, 5])  # zero is outside of its bounds
    second, reward, *flags, _ = env.step({"choose": {"turns": 2}, "left": {"force": np.full(2, 9.0), "hold": 0}})
    assert (int(second["turn"]["actor"]), float(second["turn"]["elapsed"]), reward, flags) == (1, 0.0, 0.0, [False] * 2)
    np.testing.assert_array_equal(second["choose"]["turns_mask"], [1, 1, 1])
    np.testing.assert_array_equal(second["choose"]["at"], [0])
    assert (second["left"]["level"] > 5).all()
    assert second["critic"]["position"] != 0


def test_only_the_acting_actors_part_of_the_action_is_read():
    env = Given(Turn("a", zeros()), Turn("b", zeros(), 2.5, elapsed=0.0), Turn("a", zeros(), terminated=True))
    env.reset()
    assert env.step({"a": 1, "b": 2})[1] == 2.5
    assert env.step({"a": 0, "b": 1})[2] is True
    assert env.taken == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("kind", [Shelves, Carousel])
def test_it_is_a_sound_gymnasium_environment(kind):
    with closing(kind()) as env:
        check_env(env, skip_render_check=True)
    for ask in (same_seed, other_seed, honest, replays):
        ask(lambda index: kind())


def test_masks_of_an_actor_are_found_by_the_leaf_of_its_action():
    shelves, carousel = Shelves(), Carousel()
    assert mask_leaves(shelves.observation_space, shelves.action_space) == {"pick": ("pick/action_mask",)}
    assert mask_leaves(carousel.observation_space, carousel.action_space) == {"choose/turns": ("choose/turns_mask",)}


def test_the_actors_survive_json_pickling_copies_and_wrappers():
    space = Carousel().observation_space
    for again in (space_from_json(space_to_json(space)), pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert again == space
        assert actors_of(again).actors == actors_of(space).actors
    with closing(SerialVectorEnv(lambda _: gymnasium.wrappers.TimeLimit(Carousel(), 9), 2)) as env:
        out = allocate(space_specs(env.observation_space, "observation"), (2,))
        env.reset(EpisodeSeeds(0, Purpose.TRAIN_EPISODES), out)
        assert out["turn/actor"].dtype == np.int64
        assert out["turn/elapsed"].dtype == np.float32
        assert actors_of(env.observation_space) == actors_of(space)
    assert ActorId({"a": "a", "b": "a"}) != ActorId({"b": "a", "a": "a"})
    assert ActorId({"a": "a"}) != spaces.Discrete(1)
    for hostile in ([], [["a", "a"], ["a", "b"]], [["a/b", "a"]], [["a"]], None, 3, [[1, "a"]]):
        with pytest.raises(ValueError, match="does not describe a space"):
            space_from_json({"type": "ActorId", "actors": hostile})


@pytest.mark.parametrize(
    ("actors", "message"),
    [
        ({}, "the actors must be a mapping from names to spaces"),
        ([("a", TWO)], "the actors must be a mapping"),
        ({"a": (SEEN, TWO), "b": None}, "the actor 'b' has no spaces: None"),
        ({"a": SEEN}, "the actor 'a' has no spaces"),
        ({"a": (SEEN,)}, "the actor 'a' has no spaces"),
        ({"a": (SEEN, 2)}, "the actor 'a' has no spaces"),
        ({"a": ActorSpaces(spaces.Text(3), TWO)}, "observation space at 'a' is a Text"),
        ({"a": ActorSpaces(SEEN, spaces.Dict({}))}, "action space at 'a' is an empty Dict"),
        ({"a/b": (SEEN, TWO)}, "must be text without"),
        ({"turn": (SEEN, TWO)}, "no actor may be called 'turn'"),
        ({"critic": (SEEN, TWO)}, "no actor may be called 'critic'"),
        ({1: (SEEN, TWO)}, "the actor's name 1 must be text"),
    ],
)
def test_wrong_declarations_are_refused(actors, message):
    with pytest.raises(ConfigError, match=message):
        Given(actors=actors)


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (Turn("c", zeros()), "names the unknown actor 'c'; the actors are a, b"),
        (Turn("a", np.zeros(3, np.float32)), "the observation of the actor 'a' is not in its declared space"),
        (Turn("a", {"x": zeros()}), "the observation of the actor 'a' is not in its declared space"),
        (("a", zeros()), "must return a Turn, but it returned"),
    ],
)
def test_wrong_turns_are_refused_also_late_in_an_episode(turn, message):
    with pytest.raises(ConfigError, match=f"first_turn.*{message}" if "actor 'c'" in message else message):
        Given(turn).reset()
    env = Given(Turn("b", zeros()), Turn("b", zeros()), turn)
    env.reset()
    env.step({"b": 1})
    with pytest.raises(ConfigError, match=message):
        env.step({"b": 1})


def test_what_critics_see_may_not_change_its_space():
    env = Given(Turn("a", zeros(), critic=zeros()), Turn("a", zeros()), critic=SEEN)
    env.reset()
    with pytest.raises(ConfigError, match="what critics see is not in its declared space"):
        env.step({"a": 0, "b": 0})
