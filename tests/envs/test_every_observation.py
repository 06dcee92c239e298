"""Every observation, reward and flag is looked at, not only the first: what storing it would change is refused."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from maze_actors.agents import MultiAgentEnv, Round
from maze_actors.vector_env import AgentsVectorEnv
from maze_foreign_envs.native import NativeVectorEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from tests.process_envs import process_envs

SEEDS = EpisodeSeeds(5, Purpose.TRAIN_EPISODES)
LENGTH = 4
IMAGE = spaces.Box(0, 255, (3, 2), np.uint8)
VECTOR = spaces.Box(-9, 9, (4,), np.float32)
NESTED = spaces.Dict({"deep": spaces.Dict({"at": spaces.Discrete(5), "seen": VECTOR}), "pair": spaces.Tuple([IMAGE])})


class Turning(gymnasium.Env):
    """Episodes of four steps of good values; one value of one episode and step is another."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, good, bad=None, at=(1, 2), reward=1.0, flags=None):
        self.observation_space = space
        self.good, self.bad, self.at = good, good if bad is None else bad, at
        self.reward, self.flags = reward, flags
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        self.episode, self.step_number = self.episode + 1, 0
        return self.seen(), {}

    def step(self, action):
        self.step_number += 1
        over = self.step_number == LENGTH
        now = (self.episode, self.step_number) == self.at
        return self.seen(), self.reward if now else 1.0, *(self.flags if now and self.flags else (over, False)), {}

    def seen(self):
        return self.bad if (self.episode, self.step_number) == self.at else self.good


def play(env, steps=12, seeds=SEEDS):
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(seeds, out)
    for _ in range(steps):
        env.step({"action": np.zeros(env.num_envs, np.int64)}, out)
    return out


def serial(*args, **options):
    return SerialVectorEnv(lambda i: Turning(*args, **options) if i == 1 else Turning(*args[:2]), 2)


def nested(**leaves):
    whole = {"at": 1, "seen": np.zeros(4, np.float32), "image": np.zeros((3, 2), np.uint8), **leaves}
    return {"deep": {"at": whole["at"], "seen": whole["seen"]}, "pair": (whole["image"],)}


ZEROS = np.zeros(4, np.float32)
REFUSED = {
    "floats for an image": (IMAGE, np.zeros((3, 2), np.uint8), np.full((3, 2), 0.5), "dtype uint8 .* float64"),
    "too large": (IMAGE, np.zeros((3, 2), np.uint8), np.full((3, 2), 300), "uint8 is declared, which cannot hold 300"),
    "negative": (IMAGE, np.zeros((3, 2), np.uint8), np.full((3, 2), -1), "cannot hold -1"),
    "nearly the shape": (IMAGE, np.zeros((3, 2), np.uint8), np.zeros((3, 1), np.uint8), r"shape \(3, 1\)"),
    "a fraction": (spaces.Box(-9, 9, (2,), np.int32), np.zeros(2, np.int32), [1.7, 1.0], "dtype int32 .* float64"),
    "whole floats": (spaces.Box(-9, 9, (2,), np.int32), np.zeros(2, np.int32), np.ones(2), "dtype int32 .* float64"),
    "a scalar for a vector": (VECTOR, ZEROS, np.float32(3), r"shape \(4,\) is declared, the value has shape \(\)"),
    "one for four": (VECTOR, ZEROS, np.ones(1, np.float32), r"shape \(1,\)"),
    "a row": (VECTOR, ZEROS, np.ones((1, 4), np.float32), r"shape \(1, 4\)"),
    "a list too short": (VECTOR, ZEROS, [1.0], r"shape \(1,\)"),
    "complex": (VECTOR, ZEROS, np.ones(4, np.complex64), "dtype float32 .* complex64"),
    "text": (VECTOR, ZEROS, ["1", "2", "3", "4"], "dtype float32"),
    "ragged": (VECTOR, ZEROS, [1.0, [2.0], 3.0, 4.0], "is not an array"),
    "nothing": (VECTOR, ZEROS, [None] * 4, "dtype object"),
    "outside": (spaces.Discrete(5), 1, 6, r"Discrete\(5\) is declared, the value is 6"),
    "just outside": (spaces.Discrete(5), 1, np.int64(5), "the value is 5"),
    "below": (spaces.Discrete(5, start=3), 4, 2, "the value is 2"),
    "a float choice": (spaces.Discrete(5), 1, 1.7, "integers are declared, the value has dtype float64"),
    "two choices": (spaces.Discrete(5), 1, np.array([1, 2]), r"shape \(2,\)"),
    "a huge choice": (spaces.Discrete(5), 1, 2**70, "the value is 1180591620717411303424"),
    "a member outside": (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), np.array([1, 3]), r"the value is \[1 3\]"),
    "a member below": (
        spaces.MultiDiscrete([2, 3], start=[5, 5]),
        np.array([5, 5]),
        np.array([5, 4]),
        r"the value is \[5 4\]",
    ),
    "no bit": (spaces.MultiBinary(3), np.ones(3, np.int8), np.array([0, 1, 2], np.int8), r"the value is \[0 1 2\]"),
    "no bit at all": (spaces.MultiBinary(3), np.ones(3, np.int8), np.full(3, 256), "cannot hold 256"),
    "no boolean": (spaces.Box(0, 1, (2,), np.bool_), np.zeros(2, np.bool_), np.array([0, 2]), "cannot hold 2"),
    "deep": (NESTED, nested(), nested(at=9), "at 'deep/at': .* the value is 9"),
    "deep shape": (NESTED, nested(), nested(seen=np.float32(1)), "at 'deep/seen'"),
    "in a tuple": (NESTED, nested(), nested(image=np.full((3, 2), 0.1)), "at 'pair/0'"),
    "a key more": (NESTED, nested(), {**nested(), "x": 1}, r"keys \['deep', 'pair'\] is declared, .* 'x'\]"),
    "a key less": (NESTED, nested(), {"deep": nested()["deep"]}, "the value is .'deep'"),
    "another member": (NESTED, nested(), {**nested(), "deep": {"at": 1, "other": 2}}, "at 'deep': a dict"),
    "a longer tuple": (NESTED, nested(), {**nested(), "pair": (1, 2)}, "at 'pair': a tuple of 1"),
    "no dict": (NESTED, nested(), 7, "the value is a int"),
}


@pytest.mark.parametrize(
    ("case", "at"),
    [*((case, (2, 3)) for case in REFUSED), *(("too large", at) for at in ((0, 1), (0, LENGTH), (2, 0)))],
    ids=str,
)
def test_a_later_observation_that_would_change_is_refused_with_its_place(case, at):
    space, good, bad, message = REFUSED[case]
    env = serial(space, good, bad, at)
    with pytest.raises(RunError, match=message) as caught:
        play(env)
    place = f"(episode {at[0]}, step {at[1]})" if at[1] else f"at the reset of episode {at[0]}"
    assert str(caught.value).startswith(f"environment 1 {place} returned an observation that ")
    assert "Correct the environment, or its observation_space." in str(caught.value)


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_the_first_observation_is_held_to_the_same(case):
    space, good, bad, message = REFUSED[case]
    with pytest.raises(ConfigError, match=f"the first observation does not match(?s:.*){message}"):
        play(serial(space, good, bad, at=(0, 0)))


class Endless(Turning):
    """An episode that never ends, and returns other values from a step on."""

    def __init__(self, *args, since):
        super().__init__(*args)
        self._since = since

    def step(self, action):
        self.step_number += 1
        return self.good if self.step_number < self._since else self.bad, 1.0, False, False, {}


@pytest.mark.parametrize("case", ["floats for an image", "one for four", "a row", "too large", "outside"])
def test_an_environment_that_changes_late_is_refused_within_a_few_steps(case):
    space, good, bad, message = REFUSED[case]
    env = SerialVectorEnv(lambda i: Endless(space, good, bad, since=1100), 1)
    with pytest.raises(RunError, match=message) as caught:
        play(env, 1200)
    assert 1100 <= int(re.search(r"step (\d+)\)", str(caught.value))[1]) < 1120


@pytest.mark.parametrize("at", [(299, LENGTH), (300, 0)], ids=["last", "reset"])
@pytest.mark.parametrize("case", ["floats for an image", "one for four", "a row"])
def test_first_and_last_observations_are_looked_at_however_late(case, at):
    space, good, bad, message = REFUSED[case]
    with pytest.raises(RunError, match=rf"{'step 4' if at[1] else 'at the reset'}.* returned (?s:.*){message}"):
        play(serial(space, good, bad, at), 1300)


ALLOWED = {
    "wider floats": (VECTOR, ZEROS, np.full(4, 1.5), np.full(4, 1.5)),
    "integers for floats": (VECTOR, ZEROS, [1, 2, 3, 4], [1, 2, 3, 4]),
    "a python number": (spaces.Box(-1, 1, (), np.float32), np.float32(0), 0.5, 0.5),
    "an array of no dimension": (spaces.Box(-1, 1, (), np.float32), 0.0, np.array(0.5), 0.5),
    "narrower integers": (spaces.Box(-9, 9, (2,), np.int64), np.zeros(2, int), np.array([1, -2], np.int8), [1, -2]),
    "wider integers that fit": (IMAGE, np.zeros((3, 2), np.uint8), np.full((3, 2), 255), np.full((3, 2), 255)),
    "outside of the bounds": (VECTOR, ZEROS, np.full(4, 9.5, np.float32), np.full(4, 9.5)),
    "a numpy choice": (spaces.Discrete(5, start=2), 2, np.uint8(6), 4),
    "a choice in an array": (spaces.Discrete(5), 0, np.array(4), 4),
    "truth": (spaces.MultiBinary(2), np.zeros(2, np.int8), np.array([True, False]), [1, 0]),
    "other byte order": (VECTOR, ZEROS, np.full(4, 2, ">f4"), np.full(4, 2)),
}


@pytest.mark.parametrize("at", [(0, 0), (0, 2)], ids=["first", "later"])
@pytest.mark.parametrize("case", ALLOWED, ids=list(ALLOWED))
def test_what_is_stored_unchanged_is_accepted(case, at):
    space, good, other, stored = ALLOWED[case]
    out = play(serial(space, good, other, at), steps=at[1])
    np.testing.assert_array_equal(out["observation"][1], np.asarray(stored))


@pytest.mark.parametrize("reward", ["1.5", np.ones(1), [1.0], None, 1j, {}, b"2"], ids=repr)
def test_a_reward_that_is_no_number_is_refused(reward):
    env = SerialVectorEnv(lambda i: Turning(VECTOR, ZEROS, at=(1, 2), reward=reward), 3)
    with pytest.raises(RunError, match=r"environment 0 \(episode 1, step 2\) returned a reward that is not a number"):
        play(env)


@pytest.mark.parametrize("reward", [2, np.int8(2), np.array(2.0), np.float32(2), True])
def test_numbers_of_any_type_are_rewards(reward):
    env = SerialVectorEnv(lambda i: Turning(VECTOR, ZEROS, at=(0, 1), reward=reward), 2)
    out = allocate(space_specs(VECTOR, "observation"), (2,))
    env.reset(SEEDS, out)
    assert env.step({"action": np.zeros(2, np.int64)}, out).reward.tolist() == [float(reward)] * 2


@pytest.mark.parametrize("flags", [("False", False), (False, None), (False, {}), (np.ones(1, bool), False), (2, False)])
def test_a_flag_that_is_no_boolean_is_refused(flags):
    name = "truncated" if flags[0] is False else "terminated"
    env = SerialVectorEnv(lambda i: Turning(VECTOR, ZEROS, at=(1, 2), flags=flags), 2)
    with pytest.raises(RunError, match=rf"environment 0 \(episode 1, step 2\) returned `{name}` that is not a boolean"):
        play(env)


@pytest.mark.parametrize("flags", [(np.True_, False), (1, 0), (0.0, 1.0), (np.array(True), np.array(False))])
def test_booleans_of_any_type_are_flags(flags):
    env = SerialVectorEnv(lambda i: Turning(VECTOR, ZEROS, at=(0, 1), flags=flags), 1)
    out = allocate(space_specs(VECTOR, "observation"), (1,))
    env.reset(SEEDS, out)
    result = env.step({"action": np.zeros(1, np.int64)}, out)
    assert (result.terminated[0], result.truncated[0]) == (bool(flags[0]), bool(flags[1]))


def test_worker_processes_look_too():
    env = process_envs(Builder(), 2, 2)
    with pytest.raises(RunError, match=r"environment 1 \(episode 1, step 2\) returned an observation .* 'observation'"):
        play(env)


class Builder:
    """Builds environments in a worker."""

    several_agents = False

    def __call__(self, index):
        return Turning(IMAGE, np.zeros((3, 2), np.uint8), np.full((3, 2), 0.5) if index else None)


class Batch(SyncVectorEnv):
    """Returns the observations of its environments as one array of whatever dtype they have."""

    def step(self, actions):
        observation, *rest = super().step(actions)
        late = self.envs[1].episode == 1 and self.envs[1].step_number == 2
        return self.spoil(observation) if late else observation, *rest


def batch(space, good, spoil, mode):
    env = Batch([lambda: Turning(space, good)] * 3, autoreset_mode=mode)
    env.spoil = spoil
    return NativeVectorEnv(env)


def second(value):
    def spoil(seen):
        seen = seen.astype(np.asarray(value).dtype if np.asarray(value).dtype.kind == "f" else np.int64)
        seen[1] = value
        return seen

    return spoil


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_batched_observations_are_held_to_the_same_in_every_mode(mode):
    with pytest.raises(RunError, match=r"environment 1 \(episode 1, step 2\) returned .* which cannot hold 300"):
        play(batch(IMAGE, np.zeros((3, 2), np.uint8), second(300), mode), 20)


@pytest.mark.parametrize(
    ("space", "good", "spoil", "message"),
    [
        (IMAGE, np.zeros((3, 2), np.uint8), second(0.5), "environment 0 .* the value has dtype float64"),
        (spaces.Discrete(5), 1, second(6), r"environment 1 .* Discrete\(5\) is declared, the value is 6"),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), second([0, 3]), r"environment 1 .* the value is \[0 3\]"),
        (spaces.MultiBinary(2), np.ones(2, np.int8), second([0, 2]), r"environment 1 .* the value is \[0 2\]"),
        (VECTOR, ZEROS, lambda seen: seen[0], r"shape \(3, 4\) is declared, the value has shape \(4,\)"),
        (VECTOR, ZEROS, lambda seen: seen[:, :1], r"the value has shape \(3, 1\)"),
    ],
)
def test_batched_observations_are_held_to_the_same(space, good, spoil, message):
    with pytest.raises(RunError, match=r"\(episode 1, step 2\) returned an observation(?s:.*)") as caught:
        play(batch(space, good, spoil, AutoresetMode.NEXT_STEP), 20)
    assert re.search(message, str(caught.value))


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ((np.array(["1", "2"]), [0, 0], [0, 0]), "`rewards` of shape"),
        ((np.ones((2, 1)), [0, 0], [0, 0]), r"`rewards` of shape \(2, 1\)"),
        ((np.ones(1), [0, 0], [0, 0]), r"`rewards` of shape \(1,\)"),
        ((np.ones(2), ["", ""], [0, 0]), "`terminated` of shape"),
        ((np.ones(2), [0, 2], [0, 0]), "environment 1 .* `terminated` that is not a boolean: "),
        ((np.ones(2), [0, 0], [[0, 0]]), "`truncated` of shape"),
    ],
)
def test_batched_rewards_and_flags_are_numbers_of_each_environment(results, message):
    class Odd(SyncVectorEnv):
        def step(self, actions):
            observation, *_, info = super().step(actions)
            return observation, *results, info

    env = NativeVectorEnv(Odd([lambda: Turning(VECTOR, ZEROS)] * 2))
    with pytest.raises(RunError, match=message):
        play(env)


class Pair(MultiAgentEnv):
    """Two agents that act together; the second one's observation changes at the third round."""

    agents = ("a", "b")

    def __init__(self, space, good, bad, reward=0.0):
        self.observation_spaces = dict.fromkeys(self.agents, space)
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(2))
        self.good, self.bad, self.reward = good, bad, reward

    def reset(self, seed):
        self.rounds = 0
        return Round(dict.fromkeys(self.agents, self.good))

    def step(self, actions):
        self.rounds += 1
        late = self.rounds == 3
        seen = {"a": self.good, "b": self.bad if late else self.good}
        return Round(seen, {"a": 0.0, "b": self.reward if late else 0.0})


@pytest.mark.parametrize("case", ["floats for an image", "a scalar for a vector", "outside", "no bit", "deep"])
def test_each_agents_observation_is_looked_at(case):
    space, good, bad, message = REFUSED[case]
    with pytest.raises(RunError, match=message) as caught:
        play(AgentsVectorEnv(lambda _: Pair(space, good, bad), 2))
    assert str(caught.value).startswith("environment 0 (episode 0, step 3) returned an observation")


@pytest.mark.parametrize("reward", ["1", np.ones(1), None])
def test_each_agents_reward_is_a_number(reward):
    with pytest.raises(RunError, match=r"environment 0 \(episode 0, step 3\) returned a reward that is not a number"):
        play(AgentsVectorEnv(lambda _: Pair(VECTOR, ZEROS, ZEROS, reward), 1))


class Halving(gymnasium.ObservationWrapper):
    """Declares the space below it, and returns floats."""

    def observation(self, observation):
        return observation if self.unwrapped.step_number < 2 else observation / 2


def test_what_a_wrapper_makes_of_observations_is_looked_at():
    env = SerialVectorEnv(lambda i: Halving(Turning(IMAGE, np.zeros((3, 2), np.uint8))), 2)
    with pytest.raises(RunError, match=r"environment 0 \(episode 0, step 2\) .* has dtype float64"):
        play(env)


def test_the_replay_of_an_episode_is_looked_at():
    env = SerialVectorEnv(lambda i: Turning(VECTOR, ZEROS, ZEROS + 1, at=(0, 2)), 1)
    play(env, 2)
    again = SerialVectorEnv(lambda i: Turning(VECTOR, ZEROS, np.float32(1), at=(0, 2)), 1)
    with pytest.raises(RunError, match=r"environment 0 \(episode 0, step 2\) returned an observation"):
        again.restore(SEEDS, env.state(), allocate(space_specs(VECTOR, "observation"), (1,)))
