"""An agent that plays some agent rows with frozen policies, and counts who wins against them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core import Count, remembers, take_rows, varies
from maze_core.base.saved_state import Array, Each, Entries, Number
from maze_core.base.seeding import load_random_state, random_state
from maze_core.base.tree import copy_tree, put_rows
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.agents.forward import TorchForward
from maze_core.collect.agents.row_memory import RowMemory

if TYPE_CHECKING:
    from maze_core import Policy, Tree
    from maze_core.envs.vector import Episode

NOBODY = -1
"""The opponent before there is one, and in copies without opponents."""


class PoolAgent(Agent):
    """Acts with the learner's agent, but in the opponents' agent rows with policies of a pool.

    Each episode of a copy with opponents' rows has one frozen policy for them, drawn when it begins. Policies that
    remember keep a memory for each agent row.

    Args:
        agent: the learner's.
        policy: the learner's, of which frozen copies are made.
        agent_rows: [C, A] bool, the opponents' agent rows in each copy; none where the learner plays all.
        size: most frozen policies to draw from, at least 2. They stay spread evenly from the first to the newest.
        seed: decides opponents and their actions.
    """

    def __init__(self, agent: Agent, policy: Policy, agent_rows: np.ndarray, size: int, seed: int) -> None:
        self.agent_rows = agent_rows
        self._agent, self._policy, self._size = agent, policy, size
        self._rng = np.random.default_rng(seed)
        self._noise = torch.Generator().manual_seed(seed)
        self._memory = RowMemory(policy) if remembers(policy) else None
        """What the frozen policies remember of their agent rows, a row for every agent row; the learner has its own."""
        self._pool: dict[int, Policy] = {}
        """Frozen policies by the epoch after which they were frozen; also dropped ones that still play."""
        self._members: list[int] = []
        """The epochs of those that are drawn, in order."""
        if self._memory is not None:
            self._memory.current(agent_rows.size)
        self._opponents = np.full(len(agent_rows), NOBODY, np.int64)
        """The epoch of each copy's opponent."""
        self._playing: list[list[int]] = [[] for _ in agent_rows]
        """The opponents of each copy's episodes that are not counted yet, the current one last."""
        self._results: dict[int, list[float]] = {}
        """Games and points against each frozen policy: 1 for a win, 0.5 for a draw."""

    @property
    def win_rates(self) -> dict[int, float]:
        """The share of points against each frozen policy that was met, by its epoch."""
        return {epoch: points / games for epoch, (games, points) in sorted(self._results.items())}

    def freeze(self, epoch: int) -> None:
        """Add a copy of the policy to the pool."""
        self._pool[epoch] = copy.deepcopy(self._policy).eval().requires_grad_(False)
        members = self._members
        members.append(epoch)
        if len(members) > self._size:
            inner = range(1, len(members) - 1)
            del members[min(inner, key=lambda i: members[i + 1] - members[i - 1])]
        needed = {*members, *self._opponents.tolist()}  # one that plays ends its game
        self._pool = {number: each for number, each in self._pool.items() if number in needed}

    def count(self, episodes: Sequence[Episode], agents: Sequence[str]) -> list[float]:
        """Count the results of episodes against frozen policies; return the points of each, in order."""
        found = []
        for episode in episodes:
            playing = self._playing[episode.env_index]
            opponent = playing.pop(0) if playing else NOBODY
            if opponent == NOBODY:
                continue
            opposing = self.agent_rows[episode.env_index]
            returns = np.array([episode.metrics.get(f"actor/{name}/return_mean", 0.0) for name in agents])
            mine, theirs = returns[~opposing].mean(), returns[opposing].mean()
            points = 0.5 if mine == theirs else float(mine > theirs)
            games, total = self._results.get(opponent, [0.0, 0.0])
            self._results[opponent] = [games + 1, total + points]
            found.append(points)
        return found

    def begin(self, rows: Sequence[int]) -> None:
        """Draw an opponent for each copy of which an episode begins."""
        self._agent.begin(rows)
        if self._memory is not None:
            self._memory.begin(rows)
        agent_rows = self.agent_rows.shape[1]
        counts = np.bincount(np.asarray(rows, np.int64) // agent_rows, minlength=len(self.agent_rows))
        for copy_number in np.flatnonzero(counts == agent_rows).tolist():  # fewer: some end, and the episode goes on
            self._opponents[copy_number] = self._drawn() if self.agent_rows[copy_number].any() else NOBODY
            self._playing[copy_number].append(int(self._opponents[copy_number]))

    def wait(self, rows: Sequence[int] | np.ndarray) -> None:
        """Forget the last observation of these rows."""
        self._agent.wait(rows)
        if self._memory is not None:
            self._memory.wait(rows)

    def refresh(self) -> None:
        """Look at the learner's network anew."""
        self._agent.refresh()

    def expect(self, steps: int) -> None:
        """Prepare the learner's agent for so many steps."""
        self._agent.expect(steps)

    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row: the opponents' by their policies."""
        choice = self._agent.act(obs)
        if not (self._opponents != NOBODY).any():
            return choice
        samples, actions = (copy_tree(tree) for tree in choice)
        if self._memory is not None:
            self._memory.before = self._memory.current(self.agent_rows.size)
        for opponent in np.unique(self._opponents[self._opponents != NOBODY]):
            rows = np.flatnonzero((self.agent_rows & (self._opponents == opponent)[:, None]).reshape(-1))
            theirs = self._chosen(self._pool[int(opponent)], obs, rows)
            for mine, their in ((samples, theirs.samples), (actions, theirs.actions)):
                put_rows(mine, rows, their)
        return Choice(samples, actions)

    def state(self) -> dict[str, Any]:
        """Return the learner's state, the pool, and who plays whom."""
        pool = {str(epoch): policy.state_dict() for epoch, policy in self._pool.items()}
        results = {str(epoch): list(pair) for epoch, pair in self._results.items()}
        copies = len(self._playing)
        own = {
            "pool": varies(pool, Entries(self._policy.state_dict())),
            "members": varies(list(self._members), Each(Count())),
            "opponents": varies(self._opponents.copy(), Array(self._opponents.dtype, (copies,), NOBODY, 2**53)),
            "playing": varies([list(each) for each in self._playing], [Each(Count(NOBODY))] * copies),
            "results": varies(results, Entries([Number(1.0), Number(0.0)])),
            "rng": random_state(self._rng),
            "noise": random_state(self._noise),
            "memory": {} if self._memory is None else self._memory.state(),
        }
        return {**self._agent.state(), "self_play": own}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._agent.load_state(state)
        own = state["self_play"]
        self._pool = {}
        for epoch, parameters in own["pool"].items():
            frozen = copy.deepcopy(self._policy).eval().requires_grad_(False)
            frozen.load_state_dict(parameters)
            self._pool[int(epoch)] = frozen
        self._members = list(own["members"])
        self._opponents[:] = own["opponents"]
        if not {*self._members, *self._opponents.tolist()} <= {NOBODY, *self._pool}:
            raise ValueError("its opponents are not in its pool")
        self._playing = [list(each) for each in own["playing"]]
        self._results = {int(epoch): list(pair) for epoch, pair in own["results"].items()}
        load_random_state(self._rng, own["rng"])
        load_random_state(self._noise, own["noise"])
        if self._memory is not None:
            self._memory.load_state(own["memory"])

    def _drawn(self) -> int:
        return int(self._rng.choice(self._members)) if self._members else NOBODY

    def _chosen(self, policy: Policy, obs: Tree, rows: np.ndarray) -> Choice:
        """Return a frozen policy's choice for some of the rows, and remember what it saw there."""
        memory = None if self._memory is None else self._memory.some(rows, policy)
        forward = TorchForward(policy, memory=memory)
        drawn = policy.draw_noise((1, len(rows)), self._noise)
        seen = take_rows(obs, rows)
        choice = forward.act(seen, forward.by_step(drawn)[0] if drawn else {})
        if self._memory is not None and memory is not None:
            self._memory.put(rows, memory)
        return choice
