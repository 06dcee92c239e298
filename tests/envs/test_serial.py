import warnings

import gymnasium
import numpy as np
import pytest
from maze_devkit.envs import CountingEnv, FailingEnv, SeededWalk, SpacesEnv

from maze_core import RunContext
from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs

SEEDS = EpisodeSeeds(11, Purpose.TRAIN_EPISODES)


def start(make, n, seeds=SEEDS):
    env = SerialVectorEnv(make, n)
    out = allocate(space_specs(env.observation_space, "observation"), (n,))
    env.reset(seeds, out)
    return env, out


def actions_at(t, n):
    return {"action": np.random.default_rng([t, 9]).integers(0, 3, n)}


def drive(env, out, times):
    """Everything a collector would see, copied."""
    seen = []
    for t in times:
        result = env.step(actions_at(t, env.num_envs), out)
        final = {} if result.final_obs is None else {k: v.copy() for k, v in result.final_obs.items()}
        seen.append(
            (
                {k: v.copy() for k, v in out.items()},
                result.reward.copy(),
                result.terminated.copy(),
                result.truncated.copy(),
                result.final_indices.copy(),
                final,
                list(result.episodes),
            )
        )
    return seen


def assert_same(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_equal(x, y)


def by_hand(seeds, index, steps):
    """One environment in a plain gymnasium loop: (observation before, reward, over, observation after)."""
    env, episode = SeededWalk(), 0
    obs, _ = env.reset(seed=seeds(index, 0))
    rows = []
    for t in range(steps):
        after, reward, terminated, truncated, _ = env.step(actions_at(t, 4)["action"][index])
        rows.append((obs, reward, terminated, truncated and not terminated, after))
        obs = after
        if terminated or truncated:
            episode += 1
            obs, _ = env.reset(seed=seeds(index, episode))
    return rows


def test_transitions_equal_a_plain_loop():
    env, out = start(lambda i: SeededWalk(), 4)
    expected = [by_hand(SEEDS, i, 100) for i in range(4)]
    before = {k: v.copy() for k, v in out.items()}
    for t in range(100):
        result = env.step(actions_at(t, 4), out)
        for i in range(4):
            obs, reward, terminated, truncated, after = expected[i][t]
            np.testing.assert_array_equal(before["observation"][i], obs.astype(np.float32))
            assert result.reward[i] == np.float32(reward)
            assert (result.terminated[i], result.truncated[i]) == (terminated, truncated)
            if terminated or truncated:
                row = result.final_indices.tolist().index(i)
                np.testing.assert_array_equal(result.final_obs["observation"][row], after.astype(np.float32))
        before = {k: v.copy() for k, v in out.items()}


def test_episode_statistics_are_the_true_ones():
    env, out = start(lambda i: CountingEnv(length=2 + i, tag=i), 3)
    episodes = [e for seen in drive(env, out, range(12)) for e in seen[-1]]
    for i, length in enumerate((2, 3, 4)):
        mine = [e for e in episodes if e.env_index == i]
        assert [e.episode_number for e in mine] == list(range(12 // length))
        assert {e.length for e in mine} == {length}
        true_return = sum(i + k / 100 for k in range(1, length + 1))
        assert all(e.episode_return == pytest.approx(true_return, abs=1e-12) for e in mine)


def test_termination_wins_over_truncation():
    class Both(CountingEnv):
        def step(self, action):
            obs, reward, over, _, info = super().step(action)
            return obs, reward, over, over, info

    env, out = start(lambda i: Both(length=1), 1)
    result = env.step({"action": np.array([0])}, out)
    assert result.terminated.tolist() == [True]
    assert result.truncated.tolist() == [False]


def test_stored_observations_do_not_alias_the_environments_buffer():
    env, _out = start(lambda i: CountingEnv(length=100), 2)  # overwrites one buffer at each step
    storage = allocate(space_specs(env.observation_space, "observation"), (6, 2))
    for t in range(6):
        env.step(actions_at(t, 2), {k: v[t] for k, v in storage.items()})
    assert storage["observation"][:, 0, 2].tolist() == [1, 2, 3, 4, 5, 6]


def test_actions_do_not_alias_the_callers_buffer():
    space = gymnasium.spaces.Box(-1, 1, (2,))
    inner = SpacesEnv(space, space)
    env, out = start(lambda i: inner, 1)
    actions = {"action": np.full((1, 2), 0.5, np.float32)}
    env.step(actions, out)
    actions["action"][:] = 0
    assert inner.last_action.tolist() == [0.5, 0.5]


def test_every_environment_and_episode_has_its_own_seed_and_a_run_repeats():
    env, out = start(lambda i: SeededWalk(), 4)
    firsts = [tuple(out["observation"][:, 0])]
    firsts += [
        tuple(seen[0]["observation"][i, 0] for i in seen[4]) for seen in drive(env, out, range(60)) if len(seen[4])
    ]
    flat = [x for row in firsts for x in row]
    assert len(flat) > 8
    assert len(set(flat)) == len(flat)
    again, out2 = start(lambda i: SeededWalk(), 4)
    _other, out3 = start(lambda i: SeededWalk(), 4, EpisodeSeeds(12, Purpose.TRAIN_EPISODES))
    assert tuple(out2["observation"][:, 0]) == firsts[0]
    assert not set(out3["observation"][:, 0]) & set(flat)
    assert_same(drive(again, out2, range(60)), drive(*start(lambda i: SeededWalk(), 4), range(60)))


def test_restore_goes_on_bit_for_bit():
    env, out = start(lambda i: SeededWalk(), 3)
    drive(env, out, range(37))
    state = env.state()
    assert len(state["actions"]["action"]) == max(state["length"]) <= 30
    rest = drive(env, out, range(37, 90))
    fresh, out2 = start(lambda i: SeededWalk(), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh.restore(SEEDS, state, out2)
    np.testing.assert_equal(out2, state["observation"])
    assert_same(rest, drive(fresh, out2, range(37, 90)))


def test_a_restored_run_can_be_saved_again_at_once():
    env, out = start(lambda i: SeededWalk(), 3)
    drive(env, out, range(23))
    state = env.state()
    env.restore(SEEDS, state, out)
    np.testing.assert_equal(env.state(), state)


def test_the_state_does_not_change_when_the_run_goes_on():
    env, out = start(lambda i: SeededWalk(), 2)
    drive(env, out, range(7))
    state = env.state()
    copy = {k: v.copy() if not isinstance(v, dict) else {a: b.copy() for a, b in v.items()} for k, v in state.items()}
    drive(env, out, range(7, 40))
    np.testing.assert_equal(state, copy)


def test_an_environment_that_does_not_repeat_itself_is_warned_of():
    class Moody(SeededWalk):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=None)

    env, out = start(lambda i: Moody(), 2)
    drive(env, out, range(5))
    with pytest.warns(RuntimeWarning, match="not reproducible"):
        env.restore(SEEDS, env.state(), out)
    drive(env, out, range(50))


def test_an_environment_that_raises_in_a_replay_is_told_of_the_replay():
    failing = FailingEnv("raise", at=9)
    env, out = start(lambda i: failing, 1)
    env.step({"action": np.array([2])}, out)
    state, failing._at = env.state(), 1
    with pytest.raises(RunError) as caught:
        env.restore(SEEDS, state, out)
    what, when, following = str(caught.value).splitlines()
    assert what == "environment 0 (episode 0, step 1) raised ZeroDivisionError: the wheel came off"
    assert when.startswith("An unfinished episode was being replayed from its seed and actions")
    assert following.endswith("maze train ALGORITHM --init-from RUN")


def test_another_number_of_environments_is_refused():
    env, _out = start(lambda i: SeededWalk(), 2)
    state = env.state()
    other, out3 = start(lambda i: SeededWalk(), 3)
    with pytest.raises(ConfigError, match="steps 2 environments"):
        other.restore(SEEDS, state, out3)


def test_the_step_record_stays_as_short_as_the_longest_unfinished_episode():
    env, out = start(lambda i: CountingEnv(length=40 + 60 * i), 2)
    longest = 0
    for t in range(1000):
        env.step(actions_at(t, 2), out)
        longest = max(longest, len(env.state()["actions"]["action"]))
    assert longest <= 100
    assert len(env._log._actions["action"]) == len(env._log._rewards) <= 256


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("raise", "ZeroDivisionError: the wheel came off"),
        ("nan_observation", "'observation' that is not finite"),
        ("nan_reward", "reward that is not finite"),
        ("no_reward", "reward that is not a number: 'much'"),
    ],
)
def test_failures_name_the_environment_and_the_step(way, message):
    env, out = start(lambda i: FailingEnv(way) if i == 1 else SeededWalk(), 3)
    with pytest.raises(RunError, match=message) as caught:
        drive(env, out, range(3))
    assert "environment 1 (episode 0, step" in str(caught.value)
    if way == "raise":
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_last_observation_that_is_not_finite_is_found(value):
    class Bad(CountingEnv):
        def step(self, action):
            obs, *rest = super().step(action)
            if rest[1]:
                obs[0] = value
            return obs, *rest

    env, out = start(lambda i: Bad(), 2)
    with pytest.raises(RunError, match="last observation 'observation' that is not finite"):
        drive(env, out, range(3))


@pytest.mark.parametrize(
    ("spoilt", "place"),
    [
        (("observation", 1, 2), "value of observation"),
        (("observation", 1, 3), "value of the last observation"),
        (("observation", 2, 0), "value of observation"),
        (("reward", 1, 2), "reward"),
        (("reward", 1, 3), "reward"),
    ],
)
def test_what_is_not_finite_is_placed_in_its_own_episode(spoilt, place):
    """The first, middle and last step of an episode: number and step are those of the spoilt value."""
    _, episode, step = spoilt

    class Spoilt(CountingEnv):
        def reset(self, **options):
            observation, info = super().reset(**options)
            return self.spoil(observation, "observation"), info

        def step(self, action):
            observation, reward, *rest = super().step(action)
            return self.spoil(observation, "observation"), self.spoil(np.array([reward]), "reward")[0], *rest

        def spoil(self, values, what):
            if (what, self._episode, self._step) == spoilt:
                values[0] = np.nan
            return values

    env, out = start(lambda i: Spoilt(3, one_buffer=False) if i == 1 else CountingEnv(length=5), 2)
    moment = rf"\(episode {episode}, step {step}\)" if step else f"at the reset of episode {episode}"
    with pytest.raises(RunError, match=rf"environment 1 {moment} returned a {place}"):
        drive(env, out, range(12))


def test_huge_finite_numbers_pass():
    class Huge(CountingEnv):
        def step(self, action):
            obs, _, *rest = super().step(action)
            obs[0] = 3e38
            return obs, 1e30, *rest

    env, out = start(lambda i: Huge(), 2)
    drive(env, out, range(5))


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_reward_beyond_float32_is_not_finite():
    class Rich(CountingEnv):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, 1e200, *rest

    env, out = start(lambda i: Rich(), 2)
    with pytest.raises(RunError, match="reward that is not finite: 1e\\+200"):
        drive(env, out, range(1))


def test_a_failing_reset_names_environment_and_episode():
    class Broken(CountingEnv):
        def reset(self, *, seed=None, options=None):
            if self._episode == 1:
                raise KeyError("level 2")
            return super().reset(seed=seed)

    env, out = start(lambda i: Broken(length=2), 1)
    with pytest.raises(RunError, match="environment 0 at the reset of episode 2 raised KeyError"):
        drive(env, out, range(4))


@pytest.mark.parametrize("space", [None, np.zeros(3), gymnasium.spaces.Box])
def test_what_is_no_space_is_refused(space):
    class Spaceless(CountingEnv):
        def __init__(self, i):
            super().__init__()
            self.observation_space = space

    with pytest.raises(ConfigError, match=r"which is not a gymnasium\.Space"):
        SerialVectorEnv(Spaceless, 1)


def test_environments_with_different_spaces_are_refused_and_closed():
    closed = []

    class Wide(CountingEnv):
        def __init__(self, i):
            super().__init__()
            self.i = i
            self.action_space = gymnasium.spaces.Discrete(2 + i)

        def close(self):
            closed.append(self.i)

    with pytest.raises(ConfigError, match="environment 1 has the action_space"):
        SerialVectorEnv(Wide, 2)
    assert closed == [0, 1]


def test_one_environment_returned_twice_is_refused():
    one = CountingEnv()
    with pytest.raises(ConfigError, match="environment 2 is an earlier one again"):
        SerialVectorEnv(lambda i: gymnasium.Wrapper(CountingEnv() if i == 1 else one), 3)
    with RunContext(lambda: one, "ppo", overrides={"algorithm.num_envs": 1}, preset="none") as context:  # noqa: SIM117
        with pytest.raises(ConfigError, match="the same object was returned twice"):
            context.train()


def test_close_twice():
    env, _ = start(lambda i: CountingEnv(), 2)
    env.close()
    env.close()


def test_reset_begins_again_at_episode_zero():
    env, out = start(lambda i: SeededWalk(), 2)
    first = {k: v.copy() for k, v in out.items()}
    seen = drive(env, out, range(40))
    env.reset(SEEDS, out)
    np.testing.assert_equal(out, first)
    assert_same(seen, drive(env, out, range(40)))
