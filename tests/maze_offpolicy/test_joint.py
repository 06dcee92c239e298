"""Joint steps drawn from replay: those that the environments wrote down, all agents of each together."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from maze_actors.vector_env import AgentsVectorEnv
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.joint import Joint
from maze_onpolicy.collect.assembler import Assembler

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.data.rollout import Trajectory
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import StepResult
from tests.agents import Team

GAMMA = 0.5
AGENTS = Team.agents


def filled(steps, capacity, copies=3):
    """The buffer after some steps with random actions, and the environments."""
    env = AgentsVectorEnv(lambda _: Team(), copies)
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(EpisodeSeeds(5, Purpose.TRAIN_EPISODES), out)
    spaces = env.observation_space, env.action_space
    replay = ReplayBuffer(*spaces, capacity, agent_rows=env.num_envs, selector=Joint(), agents=len(AGENTS))
    assembler, rng = Assembler(env.num_envs), np.random.default_rng(2)
    for _ in range(steps):
        actions = {"action": rng.integers(3, size=env.num_envs)}
        before = {key: leaf.copy() for key, leaf in out.items()}
        result = env.step(actions, out)
        replay.add(assembler.add(before, actions, result, out))
        assert not assembler.open.any()
    return replay, env.envs


def plain(obs):
    return tuple((key, np.asarray(obs[key]).tolist()) for key in sorted(obs))


def ahead(played, at, name, n_step):
    """What an agent is paid in n steps, the factor of what follows, and what it sees then."""
    paid = 0.0
    for k in range(n_step):
        _, _, reward, end, after = played[at + k][name]
        paid += GAMMA**k * reward
        if end or at + k + 1 == len(played):
            break
    return paid, 0.0 if end == "terminated" else GAMMA ** (k + 1), plain(after)


def expected(envs, n_step):
    """All joint steps: of each agent that took part what it saw and did, and what followed."""
    return [
        {
            name: (plain(step[name][0]), step[name][1], *ahead(env.played, at, name, n_step))
            for name in AGENTS
            if name in step
        }
        for env in envs
        for at, step in enumerate(env.played)
    ]


def drawn(replay, count, n_step):
    """Joint steps of a batch, as `expected` has them."""
    batch = replay.sample(np.random.default_rng(1), count, GAMMA, n_step=n_step)
    assert len(batch) == count
    assert batch.extra["agent"].tolist() == [*range(len(AGENTS))] * (count // len(AGENTS))
    there = batch.extra["present"]
    assert not batch.extra["reward"][~there].any()
    assert not batch.extra["discount"][~there].any()

    def row(tree, i):
        return plain({key: leaf[i] for key, leaf in tree.items()})

    steps = [{} for _ in range(count // len(AGENTS))]
    for i in np.flatnonzero(there.numpy()):
        numbers = float(batch.extra["reward"][i]), float(batch.extra["discount"][i])
        acted = row(batch.obs, i), int(batch.actions["action"][i])
        steps[i // len(AGENTS)][AGENTS[i % len(AGENTS)]] = (*acted, *numbers, row(batch.next_obs, i))
    return steps


@pytest.mark.parametrize("n_step", [1, 3])
def test_every_joint_step_is_drawn_as_it_was_played(n_step):
    replay, envs = filled(60, 2000)
    known = expected(envs, n_step)
    assert {len(step) for step in known} == {1, 2, 3}
    found = drawn(replay, 6000, n_step)
    assert all(step in known for step in found)
    often = [found.count(step) for step in known]
    assert len(known) == 180
    assert min(often) > 0
    assert max(often) < 30  # 11 on average: all are equally likely


@pytest.mark.parametrize("n_step", [1, 3])
def test_of_a_full_buffer_come_the_newest_joint_steps_whose_rows_are_all_there(n_step):
    replay, envs = filled(100, 72)
    assert replay.rows > 5 * replay.capacity
    known = [env_steps[-40:] for env_steps in np.split(np.array(expected(envs, n_step), object), 3)]
    newest = [step for steps in known for step in steps[-6:]]
    found = drawn(replay, 3000, n_step)
    assert all(any(step in steps for steps in known) for step in found)
    assert all(step in found for step in newest)


def test_the_joint_steps_are_saved_with_the_rows():
    (old, _), env = filled(70, 90), AgentsVectorEnv(lambda _: Team(), 1)
    new = ReplayBuffer(env.observation_space, env.action_space, 90, agent_rows=9, selector=Joint(), agents=3)
    first = old.oldest
    new.restore(first, old.read(first, old.settled - first))
    new.rows, new.steps = old.settled, old.steps
    ring, ring_of_new = (each.selector.rings()["joint-"] for each in (old, new))
    ring_of_new.restore(ring.oldest, ring.read(ring.oldest, ring.settled - ring.oldest))
    new.load_open_state(old.open_state())
    assert drawn(new, 300, 1) == drawn(old, 300, 1)


def test_of_one_agent_each_step_is_a_joint_step_also_a_recorded_one():
    replay = ReplayBuffer(Box(0, 99, (1,)), Discrete(2), 40, selector=Joint())
    assert not replay.ready
    seen, taken = {"observation": np.arange(4.0)[:, None]}, {"action": np.zeros(3)}
    episode = Trajectory(seen, taken, np.arange(3.0), True, False, 3.0)
    replay.add_episode(episode)
    replay.begin({"observation": np.array([[10.0], [20.0]])})
    flags = np.zeros(2, bool)
    result = StepResult(np.array([5.0, 6.0], np.float32), flags, flags, ~flags, np.arange(0))
    replay.step({"action": np.ones(2)}, result, {"observation": np.array([[11.0], [21.0]])})
    batch = replay.sample(np.random.default_rng(0), 100, GAMMA)
    seen, after = batch.obs["observation"][:, 0].tolist(), batch.next_obs["observation"][:, 0].tolist()
    assert set(zip(seen, after, batch.extra["reward"].tolist(), strict=True)) == {
        (0, 1, 0), (1, 2, 1), (2, 3, 2), (10, 11, 5), (20, 21, 6),
    }  # fmt: skip
    assert batch.extra["present"].all()
    assert not batch.extra["agent"].any()
    with pytest.raises(ValueError, match="one by one"):
        replay.sample(np.random.default_rng(0), 4, GAMMA, stretch=2)
    with pytest.raises(ConfigError, match="recorded episodes have the steps of one agent each"):
        filled(1, 90)[0].selector.recorded(np.arange(3))
