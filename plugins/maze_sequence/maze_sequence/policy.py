"""The policy that acts for a return: the model's encoder and heads, and the transformer between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from maze_offpolicy import JointActions

from maze_core import ConfigError, Policy, flatten_space, subtree
from maze_core.models.inputs import FlatInput
from maze_sequence.context import Context

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import Batch, Sequences, TensorTree
    from maze_sequence.config import DTConfig


class SequencePolicy(Policy):
    """Acts by the last steps of the episode: what was seen, what was done, and how much return was still wanted.

    Args:
        policy: what the model built; its encoder and its normaliser are used.
        config: the algorithm's.
        head_options: those of the model.

    Raises:
        ConfigError: the model has a memory of its own, or the policy has no encoder.
    """

    hears = True

    def __init__(self, policy: Any, config: DTConfig, head_options: Any) -> None:
        if not isinstance(policy, Policy):
            problem = f"a transformer follows the encoder, and the policy {type(policy).__name__} has none"
            raise ConfigError(problem, "model", "Next: pass only the encoder to Maze.")
        if policy.remembers:
            problem = f"{config.name} has a memory of its own, the last {config.context} steps, and takes no other one"
            raise ConfigError(problem, "model.memory", "Next: --set model.memory=none")
        leaves = flatten_space(policy.action_space, "action")
        joint = JointActions(policy.observation_space, policy.action_space)
        flat = FlatInput({key: space for key, space in leaves.items() if key in joint.choices})
        super().__init__(
            policy.observation_space,
            policy.action_space,
            policy.encoder,
            has_critic=False,
            head_options=head_options,
            normalizer=policy.normalizer,
            make_memory=lambda features: Context(features, joint.box_size + flat.out_features, config),
        )
        self.joint, self.flat = joint, flat

    @property
    def context(self) -> Context:
        """The transformer."""
        assert isinstance(self.memory, Context)  # noqa: S101
        return self.memory

    def vectors(self, actions: TensorTree) -> Tensor:
        """Return actions in environment units as vectors [B, A]: Boxes in [-1, 1], choices one-hot."""
        box = self.joint.canonical(self.joint.executed(actions))
        parts = [] if box is None else [box]
        return torch.cat([*parts, self.flat.forward(actions)] if self.joint.choices else parts, -1)

    def heard(self, state: TensorTree, actions: TensorTree, rewards: Tensor) -> TensorTree:
        """Return what is remembered once the last row's actions were executed and paid."""
        after = self.context.heard(subtree(state, "policy/"), self.vectors(actions), rewards)
        return {f"policy/{key}": leaf for key, leaf in after.items()}

    def reach_loss(self, batch: Batch, expectile: float) -> Tensor:
        """Return the expectile loss of the returns within reach, from which the encoder does not learn.

        The batch has `return_to_go` [B] and `time` [B], the steps of the episode before a row.
        """
        features = self.encoder(self.normalized(batch.obs)).detach()
        reached = self.context.within_reach(features, batch.extra["time"])
        error = batch.extra["return_to_go"] / self.context.scale - reached
        return (torch.where(error > 0, expectile, 1 - expectile) * error.square()).mean()

    def recorded(self, actions: TensorTree, returns: Tensor, times: Tensor, sequences: Sequences) -> TensorTree:
        """Return the state of recorded stretches, see `Context.recorded`; actions are in environment units."""
        found = self.context.recorded(self.vectors(actions), returns, times, sequences)
        return {f"policy/{key}": leaf for key, leaf in found.items()}
