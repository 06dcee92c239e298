"""The tree search of AlphaZero: PUCT with a network of policy and value (Silver et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from maze_planning.planner import Decision, Planner
from maze_planning.simulator import Simulator

from maze_core import ConfigError, Tree, take_rows, to_tensors
from maze_core.base.tree import concat_trees
from maze_core.envs.masks import MaskCheck
from maze_core.models.distributions import Categorical

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import Policy, TreeDistribution
    from maze_search.config import AlphaZeroConfig


def log_probs(distribution: TreeDistribution) -> Tensor:
    """Return the log-probability of every action, [B, A].

    Raises:
        ConfigError: the model chooses by no plain softmax.
    """
    leaf = distribution.parts["action"]
    if not isinstance(leaf, Categorical):
        problem = f"the search needs the probability of every action, and the model has a {type(leaf).__name__}"
        raise ConfigError(problem, "model.distribution", "Leave it out.")
    return leaf.log_probs


class Node:
    """A position in the tree.

    Args:
        simulator: stands there.
        reward: [R], of the action that led there.
        truncated: [R], whose part of the episode a time limit has cut; None: nobody's.
    """

    # fmt: off
    __slots__ = (
        "agent_row", "beyond", "children", "cut", "legal", "prior", "reward", "simulator", "total", "value", "visits",
    )
    # fmt: on

    def __init__(self, simulator: Simulator, reward: np.ndarray, truncated: np.ndarray | None = None) -> None:
        self.simulator, self.reward, self.agent_row = simulator, reward, simulator.turn
        self.children: dict[int, Node] = {}
        self.cut = np.zeros(0, np.int64) if truncated is None else np.flatnonzero(truncated)
        """The rows of agents whose future nobody has judged yet, though it is cut here."""
        self.beyond = np.zeros(simulator.rows)
        """[R], what each agent would have been paid after a time limit, discounted to here."""

    def expand(self, prior: np.ndarray, value: float, legal: np.ndarray) -> None:
        """Let actions be tried: `prior` [A] is the network's policy, `value` what it expects, `legal` [A] bool."""
        self.prior, self.value, self.legal = prior, value, legal
        self.visits, self.total = np.zeros(len(prior)), np.zeros(len(prior))

    def row(self) -> Tree:
        """Return what the agent that acts sees, leaves [1, …]."""
        return take_rows(self.simulator.obs, slice(self.agent_row, self.agent_row + 1))


class SearchTree:
    """What is known after a position.

    Args:
        root: the position.
        config: of the algorithm.
    """

    def __init__(self, root: Node, config: AlphaZeroConfig) -> None:
        self.root, self._config = root, config
        self._actions: list[int] = []
        """Those of the last descent."""
        # The returns of a game are known; alone, those that occur in the tree bound the others (MuZero, appendix B).
        self._low, self._high = (-1.0, 1.0) if root.simulator.rows > 1 else (np.inf, -np.inf)

    def descend(self) -> list[Node]:
        """Return the positions from the root to one that is new, or where the episode is over."""
        path, self._actions = [self.root], []
        while (node := path[-1]).agent_row >= 0:
            action = self._promising(node)
            new = action not in node.children
            if new:
                twin = node.simulator.copy()
                outcome = twin.step({"action": np.full(twin.rows, action)})
                node.children[action] = Node(twin, outcome.reward, outcome.truncated)
            self._actions.append(action)
            path.append(node.children[action])
            if new:
                break
        return path

    def _promising(self, node: Node) -> int:
        """Return the action with the largest sum of expected return and of what may be hoped for."""
        config, visits = self._config, node.visits
        expected = np.where(visits > 0, node.total / np.maximum(visits, 1), node.value)
        if self._high > self._low:
            expected = (expected - self._low) / (self._high - self._low)
        hope = config.exploration * node.prior * np.sqrt(1 + visits.sum()) / (1 + visits)
        return int(np.where(node.legal, expected + hope, -np.inf).argmax())

    def back_up(self, path: Sequence[Node]) -> None:
        """Tell the positions of the last descent what it found, each the return of the agent that acts there."""
        returns = _for_all(path[-1])
        for node, action, after in zip(path[-2::-1], reversed(self._actions), path[:0:-1], strict=True):
            if after.agent_row >= 0:
                returns[after.agent_row] *= self._config.gamma
            returns = returns + after.reward
            node.visits[action] += 1
            node.total[action] += returns[node.agent_row]
            mean = node.total[action] / node.visits[action]
            self._low, self._high = min(self._low, mean), max(self._high, mean)


def _for_all(node: Node) -> np.ndarray:
    """Return what each agent expects, [R]: in a game of two what one wins, the other loses."""
    if node.agent_row < 0:
        return node.beyond.copy()
    return np.where(np.arange(node.simulator.rows) == node.agent_row, node.value, -node.value)


class Search(Planner):
    """Takes the most visited action; while it explores, adds noise at the root and draws the first moves.

    Args:
        policy: judges positions.
        config: of the algorithm.
        explores: collect data to learn from.
    """

    def __init__(self, policy: Policy, config: AlphaZeroConfig, *, explores: bool) -> None:
        self._policy, self._config, self._explores = policy, config, explores
        outside = config.n_simulations if config.eval_simulations is None else config.eval_simulations
        self._simulations = config.n_simulations if explores else outside
        self._masks = MaskCheck(policy.observation_space, policy.action_space)
        self.shares: dict[int, np.ndarray] = {}
        """The share of each action in the visits of the last search, [A], by row."""

    def choose(self, decisions: Sequence[Decision], proposed: Tree) -> Tree:
        """Search for all decisions side by side, with one pass of the network for each simulation of all."""
        roots = [Node(each.simulator, np.zeros(each.simulator.rows)) for each in decisions]
        trees = [SearchTree(root, self._config) for root in roots]
        self._judge(roots)
        if self._explores:
            for decision, root in zip(decisions, roots, strict=True):
                self._add_noise(root, decision.rng)
        for _ in range(self._simulations):
            paths = [tree.descend() for tree in trees]
            ends = [path[-1] for path in paths]
            self._judge([end for end in ends if end.agent_row >= 0])
            self._look_beyond([end for end in ends if end.agent_row < 0 and len(end.cut)])
            for tree, path in zip(trees, paths, strict=True):
                tree.back_up(path)
        return {"action": np.array([self._chosen(each, root) for each, root in zip(decisions, roots, strict=True)])}

    def _judge(self, nodes: Sequence[Node]) -> None:
        """Expand positions with what the network thinks of them."""
        if not nodes:
            return
        obs = concat_trees([node.row() for node in nodes])
        self._masks.check(obs)
        distribution, values = self._policy(to_tensors(obs, next(self._policy.parameters()).device))
        priors = log_probs(distribution).exp().double().numpy(force=True)
        legal = np.ones(priors.shape, np.bool_)
        for leaf in self._masks.leaves:
            legal = obs[leaf].reshape(legal.shape) != 0
        for node, prior, value, allowed in zip(nodes, priors, values.tolist(), legal, strict=True):
            node.expand(prior, value, allowed)

    def _look_beyond(self, nodes: Sequence[Node]) -> None:
        """Expect what the network does where a time limit has cut the episode, as in what it learns."""
        if not nodes:
            return
        obs = concat_trees([take_rows(node.simulator.obs, node.cut) for node in nodes])
        values = self._policy.value(to_tensors(obs, next(self._policy.parameters()).device)).numpy(force=True)
        for node, value in zip(nodes, np.split(values, np.cumsum([len(node.cut) for node in nodes])[:-1]), strict=True):
            node.beyond[node.cut] = self._config.gamma * value
            node.cut = node.cut[:0]

    def _add_noise(self, root: Node, rng: np.random.Generator) -> None:
        share, legal = self._config.noise_share, np.flatnonzero(root.legal)
        root.prior *= 1 - share
        root.prior[legal] += share * rng.dirichlet(np.full(len(legal), self._config.noise_alpha))

    def _chosen(self, decision: Decision, root: Node) -> int:
        """Return the action that is taken, and keep the visits."""
        self.shares[decision.row] = (root.visits / root.visits.sum()).astype(np.float32)
        if not self._explores or len(decision.simulator.taken) >= self._config.sampled_moves:
            return int(root.visits.argmax())
        weights = (root.visits / root.visits.max()) ** (1 / self._config.temperature)
        return int(decision.rng.choice(len(weights), p=weights / weights.sum()))
