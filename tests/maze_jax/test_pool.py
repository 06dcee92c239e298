"""Pools of simulators in JAX: transitions with known answers, seeds by episode, states that go on exactly."""

from functools import cache

import numpy as np
import pytest
from maze_foreign_envs.native import NativeVectorEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.saved_state import StateError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.interfaces import on_host
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import can_replay
from tests.maze_jax.simulators import counter, needs_jax, with_step

pytestmark = needs_jax
SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
LIMIT = 6


@cache
def counting(num_envs, limit):
    """Steps of the counter, compiled once for all tests: that takes seconds."""
    from maze_jax.stepping import Stepping

    return Stepping(counter(), num_envs, limit)


def pool(num_envs=3, limit=LIMIT, tensors=False, simulator=None):
    from maze_jax.pool import Pool
    from maze_jax.stepping import Stepping

    steps = counting(num_envs, limit) if simulator is None else Stepping(simulator, num_envs, limit)
    return Pool(steps, 0, tensors)


def native(num_envs=3, reset=True, **options):
    env = NativeVectorEnv(on_host(pool(num_envs, **options)))
    out = allocate(space_specs(env.observation_space, "observation"), (num_envs,))
    if reset:
        env.reset(SEEDS, out)
    return env, out


def played(env, out, steps, actions):
    """Return all that `steps` steps give, with the action of each environment and step from `actions` [T, N]."""
    found = []
    for chosen in actions[:steps]:
        result = env.step({"action": chosen}, out)
        found.append(
            (
                {key: leaf.copy() for key, leaf in out.items()},
                result.reward.copy(),
                result.terminated.copy(),
                result.truncated.copy(),
                result.final_indices.copy(),
                result.final_obs,
                result.episodes,
            )
        )
    return found


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


ACTIONS = np.random.default_rng(0).integers(0, 3, (200, 70))


@pytest.mark.parametrize("num_envs", [3, 70])
def test_episodes_end_and_are_cut_as_known(num_envs):
    """The counter ends at 7 or above; six steps are the limit, and an end at the limit is an end."""
    env, out = native(num_envs)
    number, length = out["number"][:, 0].copy(), np.zeros(num_envs, np.int64)
    ends = cuts = 0
    for chosen in ACTIONS[:60, :num_envs]:
        result = env.step({"action": chosen}, out)
        number, length = number + chosen, length + 1
        terminated = number >= 7
        truncated = ~terminated & (length == 6)
        assert np.array_equal(result.reward, chosen)
        assert np.array_equal(result.terminated, terminated)
        assert np.array_equal(result.truncated, truncated)
        over = np.flatnonzero(terminated | truncated)
        assert np.array_equal(result.final_indices, over)
        assert [episode.length for episode in result.episodes] == length[over].tolist()
        if len(over):
            assert np.array_equal(result.final_obs["number"][:, 0], number[over])
        going = ~(terminated | truncated)
        assert np.array_equal(out["number"][going, 0], number[going])
        assert (out["number"][over, 0] < 3).all()
        number[over], length[over] = out["number"][over, 0], 0
        ends, cuts = ends + terminated.sum(), cuts + truncated.sum()
    assert min(ends, cuts) > 0


def test_an_episode_has_the_seed_of_its_environment_and_number():
    """Each episode begins as a single environment does that is reset with this seed, also after many episodes."""
    env, out = native()
    one = pool(1)
    for step in range(200):
        if step % LIMIT == 0:
            for i in range(3):
                first, _ = one.reset(seed=SEEDS(i, step // LIMIT))
                assert np.array_equal(first["number"][0], out["number"][i])
                assert np.array_equal(first["noise"][0], out["noise"][i])
        env.step({"action": np.zeros(3, np.int64)}, out)


def test_how_many_are_stepped_together_makes_no_difference():
    many, seen = native(70)
    together = played(many, seen, 40, ACTIONS)
    few, seen = native()
    apart = played(few, seen, 40, ACTIONS[:, :3])
    for all_of_them, own in zip(together, apart, strict=True):
        assert same({key: leaf[:3] for key, leaf in all_of_them[0].items()}, own[0])
        assert same([each[:3] for each in all_of_them[1:4]], list(own[1:4]))


def test_a_saved_state_goes_on_exactly():
    env, out = native()
    assert not can_replay(env)
    played(env, out, 37, ACTIONS[:, :3])
    state = env.state()
    expected = played(env, out, 60, ACTIONS[40:, :3])
    other, out = native(reset=False)
    other.restore(SEEDS, state, out)
    assert same(other.state(), state)
    assert same(played(other, out, 60, ACTIONS[40:, :3]), expected)


@pytest.mark.parametrize("change", ["shape", "missing", "length"])
def test_a_state_of_other_environments_is_refused(change):
    env, out = native()
    played(env, out, 3, ACTIONS[:, :3])
    state = env.state()
    arrays = state["native"]["arrays"]
    if change == "shape":
        arrays["0000"] = arrays["0000"][:1]
    elif change == "missing":
        del arrays["0001"]
    else:
        state["native"]["length"] = -state["native"]["length"]
    with pytest.raises(StateError, match="native"):
        env.restore(SEEDS, state, out)


def test_other_numbers_of_environments_begin_new_episodes():
    env, out = native(70)
    played(env, out, 3, ACTIONS)
    other, out = native(reset=False)
    with pytest.warns(RuntimeWarning, match="new ones begin"):
        other.restore(SEEDS, env.state(), out)


def test_tensors_give_the_same_as_arrays():
    env, out = native()
    tensors, seen = native(tensors=True)
    assert tensors.tensors() is not None
    assert env.tensors() is None
    tensors.reset(SEEDS, seen)
    assert same(played(env, out, 40, ACTIONS[:, :3]), played(tensors, seen, 40, ACTIONS[:, :3]))


def test_arrays_share_the_memory_of_jax():
    import jax.numpy as jnp
    from maze_jax.pool import _Arrays, _Tensors

    array = jnp.arange(1000.0)
    address = array.unsafe_buffer_pointer()
    assert _Arrays().given(array).ctypes.data == address
    assert _Tensors().given(array).data_ptr() == address


def test_changing_shapes_and_types_are_refused():
    import jax.numpy as jnp

    def grow(outcome, key):
        state = {**outcome.state, "number": jnp.zeros(2, jnp.int32)}
        return outcome._replace(state=state)

    def turn(outcome, key):
        return outcome._replace(state={**outcome.state, "number": outcome.state["number"] * 1.5})

    for change, told in ((grow, r"\['number'\].*shape \(2,\)"), (turn, "from int32.* to float32")):
        with pytest.raises(ConfigError, match=told):
            pool(simulator=with_step(change))
    with pytest.raises(ConfigError, match="structure"):
        pool(simulator=with_step(lambda outcome, key: outcome._replace(state=outcome.state["number"])))
    with pytest.raises(ConfigError, match=r"observation number has shape \(3,\)"):
        pool(simulator=with_step(lambda o, key: o._replace(observation={**o.observation, "number": jnp.zeros(3)})))
    with pytest.raises(ConfigError, match=r"reward has shape \(2,\).*Several agents"):
        pool(simulator=with_step(lambda outcome, key: outcome._replace(reward=jnp.zeros(2))))


def test_what_jax_cannot_compile_is_refused():
    with pytest.raises(ConfigError, match="JAX cannot compile"):
        pool(simulator=with_step(lambda o, key: o if o.reward > 0 else None))


def test_numbers_that_are_none_end_the_run():
    import jax.numpy as jnp

    env, out = native(2, simulator=with_step(lambda outcome, key: outcome._replace(reward=jnp.nan)))
    with pytest.raises(RunError, match=r"environment 0 .*reward that is not finite"):
        env.step({"action": np.zeros(2, np.int64)}, out)


@pytest.mark.slow
def test_an_environment_that_is_not_pure_is_found():
    import jax
    import jax.numpy as jnp
    from maze_jax.purity import check_repeats

    rng, remembered = np.random.default_rng(0), []

    def remember(outcome, key):
        remembered.append(0)
        return outcome._replace(reward=outcome.reward + len(remembered))

    def call(outcome, key):
        drawn = jax.pure_callback(lambda: np.float32(rng.random()), jax.ShapeDtypeStruct((), jnp.float32))
        return outcome._replace(reward=drawn)

    check_repeats(counter())
    with pytest.raises(ConfigError, match=r"not pure: step 1, .*terminated|not pure: step 1, .*reward"):
        check_repeats(with_step(remember))
    with pytest.raises(ConfigError, match="not pure: it calls Python"):
        pool(simulator=with_step(call))
