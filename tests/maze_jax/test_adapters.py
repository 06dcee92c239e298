"""The adapters: truncations and terminations as each library says them, by stand-ins and by the libraries."""

from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tests.maze_jax.simulators import needs_jax

pytestmark = needs_jax


def made(env_id, **parameters):
    from maze_jax.source import JaxConfig, simulator_of

    return simulator_of(JaxConfig(name="jax", id=env_id, **parameters))


def walked(simulator, steps, choose, limit=None, seed=0):
    """Return rewards, flags and lengths of one environment's steps: `choose` takes the observation."""
    from maze_jax.pool import Pool
    from maze_jax.stepping import Stepping

    pool = Pool(Stepping(simulator, 1, simulator.limit if limit is None else limit), 0, False)
    observation, _ = pool.reset(seed=seed)
    found = []
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = pool.step(choose(observation))
        found.append((float(reward[0]), bool(terminated[0]), bool(truncated[0])))
    return found


def has(module):
    return pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is an extra of maze-jax")


def test_states_like_those_of_brax():
    """`done` ends an episode, unless `truncation` says that it was cut; a limit around it truncates."""
    import jax.numpy as jnp
    from flax import struct
    from maze_jax.adapters.brax import of_states

    @struct.dataclass
    class State:
        obs: object
        reward: object
        done: object
        info: object

    class Env:
        action_size = 2

        def reset(self, key):
            return State(jnp.zeros(3), jnp.float32(0), jnp.float32(0), {"truncation": jnp.float32(0)})

        def step(self, state, action):
            at = state.obs + 1
            cut = (at[0] == 3) & (action[0] < 0)
            over = (at[0] == 3).astype(jnp.float32)
            return State(at, action.sum(), over, {"truncation": cut.astype(jnp.float32)})

    simulator = of_states(Env(), 2)
    assert simulator.observation_space == spaces.Box(-np.inf, np.inf, (3,), np.float32)
    assert simulator.action_space == spaces.Box(-1, 1, (2,), np.float32)
    ends = walked(simulator, 3, lambda _: np.ones((1, 2), np.float32), limit=9)
    assert ends == [(2, False, False), (2, False, False), (2, True, False)]
    cuts = walked(simulator, 3, lambda _: -np.ones((1, 2), np.float32), limit=9)
    assert cuts == [(-2, False, False), (-2, False, False), (-2, False, True)]
    assert [flags for _, *flags in walked(simulator, 2, lambda _: np.ones((1, 2), np.float32))][1] == [False, True]


def test_steps_like_those_of_jumanji(monkeypatch):
    """A last step with the discount 0 ends an episode, one with another discount is cut; masks keep their name."""
    import sys

    import jax.numpy as jnp

    moments = {2: (1, 1.0), 3: (2, 0.0), 4: (2, 1.0)}

    class Env:
        action_spec = SimpleNamespace(num_values=4)

        def reset(self, key):
            return jnp.int32(0), self.at(jnp.int32(0))

        def step(self, state, action):
            return state + action, self.at(state + action)

        def at(self, state):
            last = state >= 3
            discount = jnp.where(state == 3, moments[3][1], 1.0)
            kind = jnp.where(last, jnp.int8(2), jnp.int8(1))
            observation = {"at": state, "action_mask": jnp.ones(4, bool)}
            return SimpleNamespace(step_type=kind, discount=discount, reward=1.0 * state, observation=observation)

    library = SimpleNamespace(make=lambda name: Env(), registered_environments=lambda: ["Walk-v0"])
    monkeypatch.setitem(sys.modules, "jumanji", library)
    simulator = made("jumanji:Walk-v0")
    assert simulator.action_space == spaces.Discrete(4)
    assert simulator.observation_space["action_mask"] == spaces.MultiBinary(4)
    steps = walked(simulator, 3, lambda seen: np.array([1]))
    assert steps == [(1, False, False), (2, False, False), (3, True, False)]
    assert walked(simulator, 2, lambda seen: np.array([2]))[1] == (4, False, True)


def test_masks_of_combinations_allow_a_choice_of_which_some_combination_is_allowed():
    import jax.numpy as jnp
    from maze_jax.adapters.masked import flat_mask, mask_of

    actions = spaces.MultiDiscrete([2, 3])
    mask = flat_mask(jnp, actions, {"action_mask": jnp.array([[0, 1, 0], [0, 0, 0]], bool)})["action_mask"]
    assert mask.tolist() == [1, 0, 0, 1, 0]
    seen = spaces.Dict({"action_mask": spaces.Box(0, 1, (5,), np.int8)})
    assert mask_of(actions, seen)["action_mask"] == spaces.MultiBinary(5)


def test_what_playground_calls_privileged_is_for_critics():
    from maze_jax.adapters.playground import _with_critic
    from maze_jax.simulator import Simulator, Transition

    def seen(state):
        return {"state": state, "privileged_state": state + 1}

    box = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    plain = Simulator(
        spaces.Dict(seen_space := {"state": box, "privileged_state": box}),
        spaces.Discrete(2),
        lambda key: (0.0, seen(0.0)),
        lambda key, state, action: Transition(state, seen(state), 0, False, False),
    )
    assert set(seen_space) == {"state", "privileged_state"}
    named = _with_critic(plain)
    assert set(named.observation_space.spaces) == {"observation", "critic"}
    assert named.reset(None)[1] == {"observation": 0.0, "critic": 1.0}
    assert named.step(None, 4.0, 0).observation == {"observation": 4.0, "critic": 5.0}


@has("navix")
def test_navix_ends_at_the_goal_and_is_cut_at_its_limit():
    """In the empty room the goal is two steps ahead, a turn, and two steps: 0 and 1 turn, 2 goes."""
    room = made("navix:Navix-Empty-5x5-v0", kwargs={"max_steps": 20})
    path = iter([2, 2, 1, 2, 2])
    steps = walked(room, 5, lambda _: np.array([next(path)]))
    assert [flags for _, *flags in steps] == [[False, False]] * 4 + [[True, False]]
    assert steps[-1][0] > 0
    turning = walked(room, 20, lambda _: np.array([0]))
    assert [flags for _, *flags in turning] == [[False, False]] * 19 + [[False, True]]


@has("brax")
@pytest.mark.slow
def test_brax_falls_or_is_cut():
    pendulum = made("brax:inverted_pendulum")
    assert pendulum.limit == 1000
    steps = walked(pendulum, 30, lambda _: np.ones((1, 1), np.float32))
    assert any(terminated for _, terminated, _ in steps)
    assert not any(truncated for _, _, truncated in steps)
    cut = walked(pendulum, 3, lambda _: np.zeros((1, 1), np.float32), limit=3)
    assert [flags for _, *flags in cut] == [[False, False], [False, False], [False, True]]


@has("mujoco_playground")
@pytest.mark.slow
def test_playground_is_cut_after_its_length():
    pole = made("playground:CartpoleBalance", kwargs={"episode_length": 4})
    steps = walked(pole, 4, lambda _: np.zeros((1, 1), np.float32))
    assert [flags for _, *flags in steps] == [[False, False]] * 3 + [[False, True]]


@has("jumanji")
@pytest.mark.slow
def test_jumanjis_snake_dies_at_the_wall():
    snake = made("jumanji:Snake-v1")
    steps = walked(snake, 13, lambda _: np.array([0]))
    assert any(terminated for _, terminated, _ in steps)


@has("craftax")
@pytest.mark.slow
def test_craftax_is_cut_at_its_limit():
    crafter = made("craftax:Craftax-Classic-Symbolic-v1", params={"max_timesteps": 5})
    steps = walked(crafter, 5, lambda _: np.array([0]))
    assert [flags for _, *flags in steps] == [[False, False]] * 4 + [[False, True]]


@has("pgx")
def test_noughts_and_crosses():
    """The first player fills the left column: 0, 3, 6; the other one loses."""
    from maze_jax.adapters.pgx import Game

    game = Game("tic_tac_toe", True)
    now = game.reset(0)
    for move in (0, 1, 3, 4, 6):
        (player,) = now.acting
        assert now.acting[player]["action_mask"][move]
        assert now.acting[player]["observation"].shape == (18,)
        now = game.step({player: move})
    assert not now.acting
    assert now.rewards == {name: 1.0 if name == player else -1.0 for name in game.agents}
    assert set(now.terminated) == set(game.agents)
