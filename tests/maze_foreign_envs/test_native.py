"""All three autoreset modes, and stepping in turn, give the same transitions."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from maze_devkit.envs import CountingEnv, SeededWalk, SpacesEnv
from maze_foreign_envs.native import NativeVectorEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs

SEEDS = EpisodeSeeds(2, Purpose.TRAIN_EPISODES)
LENGTHS = (2, 3, 5)
MODES = list(AutoresetMode)


def make(i):
    # Not one buffer: in SAME_STEP mode gymnasium's own SyncVectorEnv keeps the last observation without a copy.
    return CountingEnv(length=LENGTHS[i], tag=i, truncate=i == 1, one_buffer=False)


def native(mode, make=make, n=3):
    return NativeVectorEnv(SyncVectorEnv([lambda i=i: make(i) for i in range(n)], autoreset_mode=mode))


def collect(env, steps):
    """Per environment: the valid transitions (obs, reward, terminated, truncated, next obs), and the episodes."""
    n = env.num_envs
    out = allocate(space_specs(env.observation_space, "observation"), (n,))
    env.reset(SEEDS, out)
    rows, episodes = [[] for _ in range(n)], []
    before = out["observation"].copy()
    for t in range(steps):
        actions = {"action": np.full(n, t % 3)}
        result = env.step(actions, out)
        for i in np.flatnonzero(result.valid):
            after = out["observation"][i].copy()
            if i in result.final_indices:
                after = result.final_obs["observation"][result.final_indices.tolist().index(i)].copy()
            flags = bool(result.terminated[i]), bool(result.truncated[i])
            rows[i].append((before[i].tolist(), float(result.reward[i]), *flags, after.tolist()))
        episodes += result.episodes
        before = out["observation"].copy()
    return rows, episodes


def expected(i, count):
    """Written from the definition of CountingEnv."""
    rows, length = [], LENGTHS[i]
    for t in range(count):
        episode, step = divmod(t, length)
        over = step + 1 == length
        reward = float(np.float32(i + (step + 1) / 100))
        flags = (over and i != 1, over and i == 1)
        rows.append(([i, episode, step], reward, *flags, [i, episode, step + 1]))
    return rows


@pytest.mark.parametrize("mode", [*MODES, None], ids=str)
def test_all_modes_give_the_same_transitions(mode):
    env = native(mode) if mode else SerialVectorEnv(make, 3)
    rows, episodes = collect(env, 30)
    for i in range(3):
        filler = 30 // (LENGTHS[i] + 1) if mode is AutoresetMode.NEXT_STEP else 0
        assert rows[i] == expected(i, len(rows[i]))
        assert len(rows[i]) == 30 - filler
        mine = [e for e in episodes if e.env_index == i]
        assert [e.episode_number for e in mine] == list(range(len(rows[i]) // LENGTHS[i]))
        assert {e.length for e in mine} == {LENGTHS[i]}
        true = sum(i + k / 100 for k in range(1, LENGTHS[i] + 1))
        assert all(e.episode_return == pytest.approx(true) for e in mine)


class Careless(SyncVectorEnv):
    """Puts rubbish into the rows of the step in which it resets."""

    def step(self, actions):
        filler = self._autoreset_envs.copy()
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, np.where(filler, np.nan, reward), terminated | filler, truncated | filler, info


def test_filler_rows_carry_neither_reward_nor_flags():
    env = NativeVectorEnv(Careless([lambda i=i: make(i) for i in range(3)], autoreset_mode=AutoresetMode.NEXT_STEP))
    out = allocate(space_specs(env.observation_space, "observation"), (3,))
    env.reset(SEEDS, out)
    fillers = 0
    for _ in range(12):
        result = env.step({"action": np.zeros(3, np.int64)}, out)
        rows = ~result.valid
        fillers += rows.sum()
        assert not result.reward[rows].any()
        assert not (result.terminated | result.truncated)[rows].any()
    assert fillers == 12 // 3 + 12 // 4 + 12 // 6


def test_without_autoreset_the_episodes_are_seeded_like_our_own():
    a, _ = collect(native(AutoresetMode.DISABLED, lambda i: SeededWalk()), 60)
    b, _ = collect(SerialVectorEnv(lambda i: SeededWalk(), 3), 60)
    assert a == b


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_nested_spaces_and_shifted_actions(mode):
    observation = spaces.Dict({"a": spaces.Box(0, 255, (2, 3), np.uint8), "b": spaces.Discrete(4, start=2)})
    action = spaces.Dict({"x": spaces.Discrete(3, start=5), "y": spaces.Box(-1, 3, (2,))})
    env = native(mode, lambda i: SpacesEnv(observation, action), 2)
    out = allocate(space_specs(observation, "observation"), (2,))
    env.reset(SEEDS, out)
    actions = {"x": np.array([0, 2]), "y": np.array([[-9, 9], [0, 0]], np.float32)}
    ended = 0
    for _ in range(12):
        result = env.step(actions, out)
        assert out["a"].dtype == np.uint8
        assert 0 <= out["b"].min() <= out["b"].max() < 4
        if result.final_obs is not None:
            ended += len(result.final_indices)
            assert result.final_obs["a"].shape == (len(result.final_indices), 2, 3)
            assert 0 <= result.final_obs["b"].min() <= result.final_obs["b"].max() < 4
    assert ended == 4


def test_gymnasiums_own_vectorised_cartpole():
    env = NativeVectorEnv(gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point"))
    rows, episodes = collect_cartpole(env, 200)
    assert len(episodes) > 10
    assert sum(e.length for e in episodes) <= rows
    assert all(e.episode_return == e.length for e in episodes)


def collect_cartpole(env, steps):
    out = allocate(space_specs(env.observation_space, "observation"), (3,))
    env.reset(SEEDS, out)
    rows, episodes = 0, []
    for t in range(steps):
        result = env.step({"action": np.full(3, t % 2)}, out)
        rows += int(result.valid.sum())
        episodes += result.episodes
    return rows, episodes


def test_restore_begins_new_episodes_and_says_so():
    env = native(AutoresetMode.NEXT_STEP, lambda i: SeededWalk())
    out = allocate(space_specs(env.observation_space, "observation"), (3,))
    env.reset(SEEDS, out)
    first = out["observation"].copy()
    state = env.state()
    with pytest.warns(RuntimeWarning, match="new ones begin"):
        env.restore(SEEDS, state, out)
    assert not np.intersect1d(out["observation"], first).size
    assert out["observation"][:, 1].tolist() == [SEEDS(i, 1) % 1000 for i in range(3)]


def test_a_mode_must_be_stated():
    env = SyncVectorEnv([lambda: CountingEnv()])
    env.metadata = {}
    with pytest.raises(ConfigError, match="autoreset_mode"):
        NativeVectorEnv(env)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_numbers_that_are_not_finite_stop_the_run(mode):
    class Bad(CountingEnv):
        def step(self, action):
            obs, *rest = super().step(action)
            if self._step == 5:
                obs[1] = np.nan
            return obs, *rest

    with pytest.raises(RunError, match=r"environment 2 .*'observation' that is not finite"):
        collect(native(mode, lambda i: Bad(length=LENGTHS[i], one_buffer=False)), 10)
