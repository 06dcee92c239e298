"""Replay of several agents: every closed transition once, with the rewards of all the time until its agent's next."""

from __future__ import annotations

import numpy as np
import pytest
from maze_actors.agents import Round
from maze_actors.vector_env import AgentsVectorEnv
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_onpolicy.collect.assembler import Assembler

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.spaces import allocate, space_specs
from tests.agents import Crowd, Mixed, Script

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
GAMMA = 0.5


def o(value):
    return np.array([value], np.float32)


TURNS = [
    Round({"a": o(1)}),
    Round({"b": o(2)}, {"a": 5}),
    Round({"a": o(3)}, {"a": 7, "b": 11}),  # a is paid while it waits
    Round({"b": o(4)}, {"a": 13}),
    Round({}, {"a": 17, "b": 19}, {"a": o(6)}, {"b": o(7)}),  # b's action ends the game for a, who waits; b is cut
]


def filled(make, steps, capacity=1000, copies=1, **more):
    """Return the buffer after some steps with random allowed actions, and what happened, by hand."""
    env = AgentsVectorEnv(make, copies, **more)
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(SEEDS, out)
    replay = ReplayBuffer(env.observation_space, env.action_space, capacity, "there", agent_rows=env.num_envs)
    assembler = Assembler(env.num_envs)
    rng, closed, opened = np.random.default_rng(2), [], {}
    for _ in range(steps):
        actions = {}
        for key, space in getattr(env.action_space, "spaces", {"action": env.action_space}).items():
            drawn = [space.sample() for _ in range(env.num_envs)]
            place = next((k for k in ("action_mask", f"{key}/action_mask") if k in out), None)
            if place is not None and not space.shape:
                drawn = [rng.choice(np.flatnonzero(mask)) for mask in out[place]]
            actions[key] = np.array(drawn)
        before = {key: leaf.copy() for key, leaf in out.items()}
        result = env.step(actions, out)
        replay.add(assembler.add(before, actions, result, out))
        for agent_row in range(env.num_envs):
            if result.valid[agent_row]:
                seen = {key: leaf[agent_row] for key, leaf in before.items()}
                if agent_row in opened:
                    closed.append((*opened[agent_row], "", seen))
                opened[agent_row] = (seen, {key: leaf[agent_row] for key, leaf in actions.items()}, 0.0)
            if agent_row in opened:
                seen, taken, paid = opened[agent_row]
                opened[agent_row] = (seen, taken, paid + float(result.reward[agent_row]))
            if agent_row in result.final_indices and agent_row in opened:
                place = result.final_indices.tolist().index(agent_row)
                end = "terminated" if result.terminated[agent_row] else "truncated"
                closed.append((*opened.pop(agent_row), end, {k: v[place].copy() for k, v in result.final_obs.items()}))
    acting = {
        agent_row: {key: leaf[agent_row] for key, leaf in out.items()} for agent_row in np.flatnonzero(result.acting)
    }
    closed += [(*opened[agent_row], "", obs) for agent_row, obs in acting.items() if agent_row in opened]
    return replay, closed


def plain(tree):
    return tuple((key, np.asarray(tree[key]).tolist()) for key in sorted(tree))


def stored(replay):
    """The transitions that can be sampled, in no order."""
    found = []
    for number in range(max(0, replay.rows - replay.capacity), replay.rows):
        row = {key: leaf[0] for key, leaf in replay.read(number, 1).items()}
        if row["ahead"] == 0:
            continue
        after = {key: leaf[0] for key, leaf in replay.read(number + int(row["ahead"]), 1).items()}
        end = "terminated" if row["terminated"] else "truncated" if row["truncated"] else ""
        obs, following = ({k[4:]: v for k, v in each.items() if k.startswith("obs/")} for each in (row, after))
        action = {k[7:]: v for k, v in row.items() if k.startswith("action/")}
        found.append((plain(obs), plain(action), round(float(row["reward"]), 4), end, plain(following)))
    return found


def written(closed):
    return [(plain(a), plain(b), round(c, 4), end, plain(d)) for a, b, c, end, d in closed]


@pytest.mark.parametrize("make", [Crowd, Mixed])
def test_every_closed_transition_is_in_the_buffer_once(make):
    replay, closed = filled(lambda _: make(), 150, copies=2)
    assert sorted(stored(replay), key=str) == sorted(written(closed), key=str)
    assert replay.steps == len(closed) > 100
    assert {end for *_, end, _ in closed} == {"", "terminated", "truncated"}
    assert replay.settled <= replay.rows - 1


def test_a_full_buffer_holds_the_newest_rows():
    replay, closed = filled(lambda _: Crowd(), 300, capacity=50, copies=2)
    found, all_of_them = stored(replay), written(closed)
    assert 25 < len(found) < 50
    assert len(set(map(str, found))) == len(found)
    assert set(map(str, found)) <= set(map(str, all_of_them[-60:]))


def test_an_open_step_that_was_overwritten_is_gone():
    class Sleeper(Script):
        """`a` acts once and waits for ever while `b` acts."""

        def step(self, actions):
            self.count = getattr(self, "count", 0) + 1
            return Round({"b": o(self.count)}, {"a": 1, "b": self.count})

    replay, _ = filled(lambda _: Sleeper([Round({"a": o(100)})]), 60, capacity=16)
    assert all(obs != (("observation", [100.0]),) for obs, *_ in stored(replay))
    assert len(stored(replay)) == 15
    assert replay.settled == replay.rows - 1


def test_steps_are_sampled_with_the_numbers_computed_by_hand():
    replay, _ = filled(lambda _: Script(TURNS), 4)
    found = {row[0][0][1][0]: row[2:] for row in stored(replay)}
    # a: 1 → 3 with 5 + 7; 3 → end with 13 + 17. b: 2 → 4 with 11; 4 → cut with 19.
    assert {seen: (reward, end) for seen, (reward, end, _) in found.items()} == {
        1: (12, ""), 2: (11, ""), 3: (30, "terminated"), 4: (19, "truncated"),
    }  # fmt: skip
    batch = replay.sample(np.random.default_rng(0), 200, GAMMA, n_step=2)
    values = batch.obs["observation"][:, 0], batch.extra["reward"], batch.extra["discount"]
    rows = {tuple(map(float, row)) for row in zip(*values, batch.next_obs["observation"][:, 0], strict=True)}
    assert rows == {
        (1, 12 + GAMMA * 30, 0, 6), (3, 30, 0, 6),
        (2, 11 + GAMMA * 19, GAMMA**2, 7), (4, 19, GAMMA, 7),
    }  # fmt: skip


def test_rounds_discount_sampled_steps_by_the_time_between():
    def make(_):
        env = Script(TURNS)
        env.elapsed = "round"
        return env

    replay, _ = filled(make, 4)
    batch = replay.sample(np.random.default_rng(0), 100, GAMMA)
    seen = {float(obs): float(d) for obs, d in zip(batch.obs["a"][:, 0], batch.extra["discount"], strict=True)}
    assert seen == {1: GAMMA**2, 2: GAMMA**2, 3: 0, 4: GAMMA}


@pytest.mark.parametrize("steps", [3, 40])
def test_what_is_open_is_saved(steps):
    def copied(old):
        new = ReplayBuffer(env.observation_space, env.action_space, 60, agent_rows=6)
        new.restore(max(0, old.rows - 60), old.read(max(0, old.rows - 60), old.settled - max(0, old.rows - 60)))
        new.rows, new.steps = old.settled, old.steps
        new.load_open_state(old.open_state())
        return new

    env = AgentsVectorEnv(lambda _: Crowd(), 2)
    old, _ = filled(lambda _: Crowd(), steps, capacity=60, copies=2)
    new = copied(old)
    assert (new.rows, new.steps, new.open, new.settled) == (old.rows, old.steps, old.open, old.settled)
    assert stored(new) == stored(old)
    assert new.open_state()["latest"].tolist() == old.open_state()["latest"].tolist()


def test_a_buffer_too_small_for_its_agent_rows_is_refused():
    with pytest.raises(ConfigError, match="there: must be at least 48 where 6 agents act"):
        filled(lambda _: Crowd(), 1, capacity=40, copies=2)
