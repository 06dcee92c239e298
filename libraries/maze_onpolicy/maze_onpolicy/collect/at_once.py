"""Rollouts that environments take in one compiled call, the policy's actions included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import RunError, take_rows
from maze_core.base.tolerant_output import to_stderr
from maze_core.base.tree import flat_rows
from maze_core.envs.checks import MisfitError
from maze_core.envs.codecs import ObservationCodec
from maze_core.envs.spaces import allocate
from maze_onpolicy.collect.plain_network import PlainNetwork, plain_network

if TYPE_CHECKING:
    from maze_core import NetworkAgent, Rollout, Tree
    from maze_core.collect.stepper import Stepper
    from maze_onpolicy.collect.rollout_sink import RolloutSink


class AtOnce:
    """Takes the steps of rollouts in one call where the environments and the policy allow it, and says where not.

    The noise of samples is that of single steps, so that the actions are the same but for rounding.

    Args:
        network: acts.
        env: the environments, which count episodes.
        layer: their layer that takes whole rollouts, or why there is none.
    """

    def __init__(self, network: NetworkAgent, env: Any, layer: Any) -> None:
        self._agent, self._env, self._layer = network, env, layer
        self._plain: PlainNetwork | None = None
        self._told = False
        self._observations = ObservationCodec(env.observation_space)

    @classmethod
    def of(cls, network: NetworkAgent, env: Any, reason: str = "") -> AtOnce | None:
        """Return what takes the rollouts of these environments; None: they do not know how to take whole ones.

        `reason`: why it must not, as a sentence without its end; empty: it may.
        """
        layer = env.at_once()
        return None if layer is None else cls(network, env, reason or layer)

    def fill(self, sink: RolloutSink, stepper: Stepper, steps: int) -> bool:
        """Take all steps of a rollout; return False where they have to be taken one by one.

        Raises:
            RunError: the environments failed, or returned what cannot be used.
        """
        plain = self._network()
        if plain is None:
            return False
        noise = self._agent.ahead(steps, self._env.num_envs, counted=False).noise
        start = 0
        for part in self._layer.roll(plain, noise):
            start += self._write(sink, part, start)
        rollout = sink.rollout
        _, episodes = self._env.count(rollout.rewards, rollout.terminated, rollout.truncated)
        rollout.episodes += episodes
        stepper.continue_from(sink.current, np.flatnonzero(rollout.ended[-1]).tolist())
        sink.tell(steps)
        return True

    def _network(self) -> PlainNetwork | None:
        """Return the policy as it is now; None where it is no plain network, which is told once."""
        policy = self._agent.policy
        if self._plain is None or not self._plain.holds(policy):
            found = self._layer if isinstance(self._layer, str) else plain_network(policy)
            self._plain = None if isinstance(found, str) else found
            if isinstance(found, str) and not self._told:
                self._told = True
                to_stderr(f"note: rollouts are not compiled, but taken step by step: {found}")
        return self._plain

    def _write(self, sink: RolloutSink, part: Any, start: int) -> int:
        """Write some steps of a rollout from the step `start` on; return how many they are."""
        rollout, outcome = sink.rollout, part.outcome
        rows = slice(start, start + len(outcome.reward))
        for key, sample in part.samples.items():
            rollout.actions[key][rows] = sample
        rollout.rewards[rows], rollout.terminated[rows] = outcome.reward, outcome.terminated
        rollout.truncated[rows] = outcome.truncated
        following = take_rows(rollout.obs, slice(rows.start + 1, rows.stop + 1))
        self._store(flat_rows(following), part.observation, np.s_[:], rollout, start)
        if len(ended := np.flatnonzero(outcome.terminated | outcome.truncated)):
            last = allocate(self._observations.specs, (len(ended),))
            self._store(last, outcome.last, ended, rollout, start)
            _cut(rollout, start, outcome.truncated, ended, last)
        return len(outcome.reward)

    def _store(self, out: Tree, given: Any, rows: Any, rollout: Any, start: int) -> None:
        """Write some of the observations [T * N] that were given, leaves [T, N, …], into arrays."""

        def flat(tree: Any) -> Any:
            if isinstance(tree, dict):
                return {key: flat(each) for key, each in tree.items()}
            if isinstance(tree, tuple):
                return tuple(map(flat, tree))
            return tree.reshape(-1, *tree.shape[2:])[rows]

        self._observations.write_all(out, flat(given))
        wrong = self._observations.wrong(out)
        if wrong is not None:
            self._refuse(wrong, rows, rollout, start)

    def _refuse(self, wrong: tuple[int, MisfitError], rows: Any, rollout: Any, start: int) -> None:
        """Raise the error of an observation, or of a reward of an earlier step."""
        count = self._env.num_envs
        first = wrong[0] if isinstance(rows, slice) else int(rows[wrong[0]])
        t, row = start + first // count, first % count
        ended = rollout.terminated | rollout.truncated
        self._env.count(rollout.rewards[:t].copy(), rollout.terminated[:t].copy(), rollout.truncated[:t].copy())
        place = self._env.place_within(ended[t:], rollout.valid[t:], 0, row)
        raise RunError(f"{place} returned {wrong[1]}")


def _cut(rollout: Rollout, start: int, truncated: np.ndarray, ended: np.ndarray, last: Tree) -> None:
    """Keep the last observations of the episodes that a time limit cut.

    Args:
        rollout: takes them.
        start: the first of the steps.
        truncated: [T, N], those that are cut.
        ended: [K], the numbers, among all T * N, of the steps that ended an episode.
        last: the last observations of those episodes, leaves [K, …].
    """
    which = np.flatnonzero(truncated.reshape(-1)[ended])
    steps, rows = np.divmod(ended[which], truncated.shape[1])
    for t in np.unique(steps).tolist():
        at = steps == t
        rollout.truncations.append((start + t, rows[at], take_rows(last, which[at])))
