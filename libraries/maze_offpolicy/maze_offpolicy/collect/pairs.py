"""Which features of collecting and of replay do not go together, and why: the one table of refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from maze_core import ConfigError


@dataclass(frozen=True, slots=True)
class Feature:
    """A way of collecting, storing or drawing data, and the setting that turns it on."""

    name: str
    setting: str
    off: str
    """The override that turns it off; empty for what the environment has."""


HINDSIGHT = Feature("hindsight", "algorithm.her_goals", "algorithm.her_goals=0")
N_STEP = Feature("n-step returns", "algorithm.n_step", "algorithm.n_step=1")
PRIORITIES = Feature("priorities", "algorithm.prioritized", "algorithm.prioritized=false")
MEMORY = Feature("memory", "model.memory", "model.memory=none")
NORMALISER = Feature("normalised observations", "model.normalize_observations", "model.normalize_observations=false")
WORKERS = Feature("workers", "runner", "runner=dev")
LEARNERS = Feature("several learners", "learners", "learners=1")
AGENTS = Feature("several agents", "env", "")
MASKS = Feature("action masks", "env", "")
FRAMES = Feature("stacked frames", "env", "")
FEATURES = (HINDSIGHT, N_STEP, PRIORITIES, MEMORY, FRAMES, MASKS, AGENTS, NORMALISER, WORKERS, LEARNERS)
"""All of them, in the order of the page."""

Pair = frozenset[Feature]
REFUSED: Mapping[Pair, str] = {
    frozenset({HINDSIGHT, N_STEP}): "rewards for other goals are computed for single steps, not summed",
    frozenset({HINDSIGHT, PRIORITIES}): "the priority of a step belongs to its own goal",
    frozenset({HINDSIGHT, MEMORY}): "goals are exchanged in single steps, and the policy remembers the steps before",
    frozenset({HINDSIGHT, AGENTS}): "goals are exchanged in the steps of one agent, and several act here",
}
"""Why two features do not go together."""
OF_NO_ALGORITHM: Mapping[Pair, str] = {
    frozenset({PRIORITIES, LEARNERS}): "dqn, which has priorities, supports only one learner",
}
"""Which features no bundled algorithm has together."""
IN_LOCKSTEP: Mapping[Pair, str] = {
    frozenset({WORKERS, AGENTS}): "rows are computed in groups, whose sizes depend on all environments",
    frozenset({WORKERS, NORMALISER}): "with replay, the statistics change with every step",
    frozenset({WORKERS, MASKS}): "where masks decide which random actions are drawn, as in DQN",
}
"""With which features workers step the environments one step at a time, and this process chooses the actions."""
STORED_WHOLE: Mapping[Pair, str] = {
    frozenset({FRAMES, HINDSIGHT}): "each stack is stored whole",
    frozenset({FRAMES, AGENTS}): "each stack is stored whole",
}
"""With which features a frame that several observations show is stored several times."""


def refused(first: Feature, second: Feature, where: str = "") -> ConfigError:
    """Return the error for a pair of `REFUSED`; `where`: the setting that it names, by default that of `first`."""
    ways = [f"--set {each.off}" for each in (first, second) if each.off]
    return ConfigError(REFUSED[frozenset({first, second})], where or first.setting, f"Next: {', or '.join(ways)}")


def pairs() -> Iterator[tuple[Feature, Feature, str]]:
    """Yield all pairs in the order of the page, with what holds: `trains`, or why not or how otherwise."""
    for first, second in combinations(FEATURES, 2):
        pair = frozenset({first, second})
        if reason := REFUSED.get(pair) or OF_NO_ALGORITHM.get(pair):
            yield first, second, f"refused: {reason}"
        elif pair in IN_LOCKSTEP:
            yield first, second, f"trains in lockstep: {IN_LOCKSTEP[pair]}"
        else:
            yield first, second, f"trains; {STORED_WHOLE[pair]}" if pair in STORED_WHOLE else "trains"
