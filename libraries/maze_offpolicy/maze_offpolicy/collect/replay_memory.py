"""What off-policy algorithms need for policies that remember: sequences from replay, and memories of networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch

from maze_core import POLICY, ConfigError, Sequences, remembers, subtree
from maze_core.base.tree import to_device
from maze_core.models.memory import Memory
from maze_offpolicy.replay.by_sequence import BySequence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from maze_core import Policy, TensorTree
    from maze_core.plugins.hookspecs import Run


class Remembering(Protocol):
    """A network that remembers."""

    def initial_state(self, rows: int) -> TensorTree:
        """Return what is remembered where episodes begin, leaves [rows, …]."""

    def state_after(self, obs: TensorTree, sequences: Sequences) -> TensorTree:
        """Return what is remembered after each sequence of observations, leaves [S, …]."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """A target network that remembers. It reads the burn-in itself, from what its leader remembered before (R2D2)."""

    leader: str
    """The name of the network that it follows; `POLICY` for that of the policy."""
    network: Remembering


@dataclass
class ReplayMemory:
    """How an algorithm learns with memory from replay: in sequences, which begin with what its networks remembered.

        targets = {"targets": TargetMemory("critics", self._targets.module)}
        memory = ReplayMemory.of(run.policy, config.sequence_length, config.burn_in, targets, critics=self._critics)
        collector = ReplayCollector(…, memory=memory)

    Its batches then have `sequences`, with what each network remembers and what follows each row.
    """

    policy: Policy
    length: int
    """Most steps of a sequence."""
    burn_in: int
    """Most steps before it that are read without gradient."""
    others: Mapping[str, Remembering] = field(default_factory=dict)
    """Further networks that remember, by name. They get normalised observations."""
    targets: Mapping[str, TargetMemory] = field(default_factory=dict)
    """The target networks of those that remember, by name."""

    @staticmethod
    def of(
        policy: Policy,
        length: int,
        burn_in: int,
        targets: Mapping[str, TargetMemory] | None = None,
        **others: Remembering,
    ) -> ReplayMemory | None:
        """Return it for a policy that remembers; None for others.

        Raises:
            ConfigError: a policy class of one's own does not say what it remembers after a sequence.
        """
        if not remembers(policy):
            return None
        if not hasattr(policy, "state_after"):
            raise ConfigError(
                f"learning from replay needs the method `state_after`, which {type(policy).__name__} does not have",
                "model",
                "Write it as `maze_core.models.policy.Policy` does, or set model.memory=none.",
            )
        return ReplayMemory(policy, length, burn_in, others, targets or {})

    def selector(self, agent_rows: int, priority_exponent: float | None = None) -> BySequence:
        """Return what draws sequences of so many agent rows: environments, or agents of all of them."""
        leaders = {name: target.leader for name, target in self.targets.items()}
        initial = self.initial_state(1)
        return BySequence(agent_rows, self.length, self.burn_in, initial, self.after, leaders, priority_exponent)

    def initial_state(self, rows: int) -> TensorTree:
        """Return what all networks but targets remember where episodes begin, leaves [rows, …] named `NETWORK/…`."""
        networks: dict[str, Remembering] = {POLICY: self.policy, **self.others}
        return _joined({name: network.initial_state(rows) for name, network in networks.items()})

    @torch.no_grad()
    def after(self, obs: TensorTree, lengths: np.ndarray, state: TensorTree) -> TensorTree:
        """Return what networks remember after sequences of observations, leaves [S, …] named `NETWORK/…`.

        Args:
            obs: leaves [B, …], sequence by sequence.
            lengths: [S] int64, rows of each sequence.
            state: before each sequence, leaves [S, …] named `NETWORK/…`; the networks without leaves are left out.
        """
        device = next(self.policy.parameters()).device
        seen, before = (to_device(tree, device) for tree in (obs, state))
        normalized = self.policy.normalized(seen) if self.others else seen
        after = {}
        for name, (network, normalizes) in self._networks.items():
            if own := subtree(before, f"{name}/"):
                after[name] = network.state_after(seen if normalizes else normalized, Sequences(lengths, own))
        return _joined(after)

    @property
    def _networks(self) -> dict[str, tuple[Remembering, bool]]:
        """All networks, and whether they normalise observations themselves, as the policy and its target do."""
        networks: dict[str, tuple[Remembering, bool]] = {POLICY: (self.policy, True)}
        networks |= {name: (network, False) for name, network in self.others.items()}
        return networks | {name: (each.network, each.leader == POLICY) for name, each in self.targets.items()}


def memory_builder(run: Run) -> Callable[[int], Memory] | None:
    """Return what builds memories for further networks like the model's for the policy; None for policies without one.

    It takes the width of the features. Raises ConfigError if the policy remembers and `model.memory` does not say how.
    """
    if not remembers(run.policy):
        return None
    config: Any = run.config.model
    if getattr(config, "memory", "none") == "none":
        raise ConfigError(
            f"the critics need a memory too, and {type(run.policy).__name__} does not say which",
            "model.memory",
            "Next: --set model.memory=gru",
        )
    return cast("Callable[[int], Memory]", config.make_memory)


def _joined(trees: Mapping[str, TensorTree]) -> TensorTree:
    return {f"{name}/{key}": leaf for name, tree in trees.items() for key, leaf in tree.items()}
