"""Segments of several agents: the steps of each agent row as they were played, and what is remembered before them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_actors.vector_env import AgentsVectorEnv
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.by_sequence import BySequence
from maze_onpolicy.collect.assembler import Assembler

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.spaces import allocate, space_specs
from tests.agents import Crowd, Mixed

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
SIZES = [(1, 0), (2, 3), (4, 2), (100, 5)]
"""Steps of a segment, and of its burn-in."""


def total(obs):
    """The sum of all numbers of each row."""
    return sum(torch.as_tensor(leaf).reshape(len(leaf), -1).double().sum(1) for leaf in obs.values())


def summed(obs, lengths, state):
    """A network that remembers the sum and the count of all it saw."""
    sums = torch.stack([part.sum() for part in total(obs).split(lengths.tolist())])
    return {"policy/sum": state["policy/sum"] + sums, "policy/n": state["policy/n"] + torch.from_numpy(lengths)}


class Played:
    """The buffer after some steps with random allowed actions, and each agent row's episodes, kept by hand."""

    def __init__(self, make, steps, length, burn_in, copies=2, rows=None):
        self.env = env = AgentsVectorEnv(lambda _: make(), copies)
        initial = {"policy/sum": torch.zeros(1, dtype=torch.float64), "policy/n": torch.zeros(1, dtype=torch.int64)}
        spaces = env.observation_space, env.action_space
        rows = rows or 4000
        self.selector = BySequence(env.num_envs, length, burn_in, initial, summed)
        self.buffer = ReplayBuffer(*spaces, rows, agent_rows=env.num_envs, selector=self.selector)
        self.assembler = Assembler(env.num_envs)
        self.out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
        env.reset(SEEDS, self.out)
        self.rng, self.finished, self.episodes = np.random.default_rng(2), [], {}
        self.go_on(steps)

    def go_on(self, steps):
        for _ in range(steps):
            actions = self.random_actions()
            before = {key: leaf.copy() for key, leaf in self.out.items()}
            result = self.env.step(actions, self.out)
            self.buffer.add(self.assembler.add(before, actions, result, self.out))
            self.note(before, actions, result)
            self.acting = result.acting

    def random_actions(self):
        actions, space = {}, self.env.action_space
        for key, leaf in getattr(space, "spaces", {"action": space}).items():
            drawn = [leaf.sample() for _ in range(self.env.num_envs)]
            place = next((k for k in ("action_mask", f"{key}/action_mask") if k in self.out), None)
            if place is not None and not leaf.shape:
                drawn = [self.rng.choice(np.flatnonzero(mask)) for mask in self.out[place]]
            actions[key] = np.array(drawn)
        return actions

    def note(self, before, actions, result):
        for agent_row in range(self.env.num_envs):
            steps = self.episodes.setdefault(agent_row, [])
            if result.valid[agent_row]:
                steps.append(
                    ({k: v[agent_row] for k, v in before.items()}, {k: v[agent_row] for k, v in actions.items()}, 0.0)
                )
            if steps:
                seen, taken, paid = steps[-1]
                steps[-1] = (seen, taken, paid + float(result.reward[agent_row]))
            if agent_row in result.final_indices:
                last = {
                    k: v[result.final_indices.tolist().index(agent_row)].copy() for k, v in result.final_obs.items()
                }
                if steps:
                    self.finished.append((steps, last, bool(result.terminated[agent_row])))
                self.episodes[agent_row] = []

    def expected(self):
        """All complete segments, as `stored` returns them, in no order."""
        length, burn_in, found = self.selector.length, self.selector.burn_in, []
        unfinished = [(steps, self.acted_on_next(agent_row), False) for agent_row, steps in self.episodes.items()]
        every = [(*each, False) for each in self.finished] + [(*each, True) for each in unfinished]
        for steps, last, terminated, agent_row_goes_on in every:
            observations = [seen for seen, _, _ in steps] + ([] if last is None else [last])
            sums = [float(total({key: leaf[None] for key, leaf in seen.items()})) for seen in observations]
            for start in range(0, len(steps), length):
                stop = min(start + length, len(steps))
                if stop >= len(observations) or (agent_row_goes_on and stop - start < length):
                    continue  # what follows is not known yet
                read = start - min(burn_in, start)
                found.append((
                    [plain(seen) for seen in observations[read : stop + 1]],
                    [plain(taken) for _, taken, _ in steps[start:stop]],
                    [round(paid, 4) for _, _, paid in steps[start:stop]],
                    terminated and stop == len(steps), start - read, read, round(float(sum(sums[:read])), 2),
                ))  # fmt: skip
        return found

    def acted_on_next(self, agent_row):
        """What an agent acts on in the next step; None where it waits."""
        return {key: leaf[agent_row].copy() for key, leaf in self.out.items()} if self.acting[agent_row] else None

    def stored(self):
        """All complete sequences of which every row is held."""
        buffer, index = self.buffer, self.selector.index
        oldest = max(0, buffer.rows - buffer.capacity)
        rows = buffer.read(oldest, len(buffer))
        records = index.sequences.read(index.sequences.oldest, index.sequences.rows - index.sequences.oldest)
        remembered = index.remembered(records["state"])
        for i, first in enumerate(records["first"]):
            if first < oldest:
                continue
            burnt, steps = int(records["burnt"][i]), int(records["steps"][i])
            places = [int(first) - oldest]
            for _ in range(burnt + steps):
                places.append(places[-1] + int(rows["ahead"][places[-1]]))
            obs = [plain(part(rows, "obs/", place)) for place in places]
            actions = [plain(part(rows, "action/", place)) for place in places[burnt:-1]]
            rewards = [round(float(rows["reward"][place]), 4) for place in places[burnt:-1]]
            terminated = bool(rows["terminated"][places[-2]])
            seen = int(remembered["policy/n"][i]), round(float(remembered["policy/sum"][i]), 2)
            yield (obs, actions, rewards, terminated, burnt, *seen)


def part(rows, prefix, place):
    return {key.removeprefix(prefix): column[place] for key, column in rows.items() if key.startswith(prefix)}


def plain(tree):
    return tuple((key, np.asarray(tree[key]).tolist()) for key in sorted(tree))


@pytest.mark.parametrize("make", [Crowd, Mixed])
@pytest.mark.parametrize(("length", "burn_in"), SIZES)
def test_every_complete_segment_is_in_the_buffer_once_as_it_was_played(make, length, burn_in):
    played = Played(make, 80, length, burn_in)
    expected = played.expected()
    assert sorted(played.stored(), key=str) == sorted(expected, key=str)
    assert len(expected) > 20
    assert {terminated for *_, terminated, _, _, _ in expected} == {True, False}
    assert any(burnt for *_, burnt, _, _ in expected) == (burn_in > 0 and length < 5)


def test_a_full_buffer_holds_the_newest_segments():
    played = Played(Crowd, 80, 3, 2, rows=100)
    found = list(played.stored())
    assert len(found) > 8
    assert set(map(str, found)) < set(map(str, played.expected()))


def test_the_memory_of_an_agent_row_that_waits_does_not_change():
    played = Played(Crowd, 40, 3, 2)
    rows = np.flatnonzero(played.assembler.open)
    obs = {key: leaf[rows] for key, leaf in played.assembler.obs.items()}
    remembered = played.selector.memory(rows, obs)["policy/n"].tolist()
    assert remembered == [len(played.episodes[agent_row]) for agent_row in range(played.env.num_envs)]
    assert max(remembered) > 3


def test_batches_end_where_an_agent_terminates_and_discount_by_rounds():
    class Rounds(Mixed):
        elapsed = "round"

    played = Played(Rounds, 60, 3, 1)
    batch = played.buffer.sample(np.random.default_rng(0), 500, 0.5)
    elapsed = batch.next_obs["turn/elapsed"]
    terminated = batch.extra["discount"] == 0
    assert terminated.any()
    assert (elapsed > 1).any()
    assert torch.equal(batch.extra["discount"][~terminated], 0.5 ** elapsed[~terminated])
    assert batch.sequences.lengths.sum() == len(batch)
