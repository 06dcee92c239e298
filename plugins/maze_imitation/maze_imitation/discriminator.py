"""What tells the expert's steps from the policy's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_offpolicy import JointActions, build_critics
from torch import Tensor, nn

if TYPE_CHECKING:
    from maze_core import Batch, Policy
    from maze_imitation.config import AdversarialConfig


class Discriminator(nn.Module):
    """Steps of the environment → logits [B]: above 0 where a step looks like the expert's.

    Discrete actions are rated as a critic of states rates them, one output for each choice; Box actions are inputs.

    Args:
        policy: its observations are read, through copies of its encoder where they are images.
        config: layers, and the discount.
        shaped: the logit is g(s, a) + gamma h(s') - h(s) instead of g(s, a), minus the actions' log-probability.
    """

    def __init__(self, policy: Policy, config: AdversarialConfig, *, shaped: bool) -> None:
        super().__init__()
        layers = config.discriminator_hidden, config.discriminator_activation, 1
        self.actions = JointActions(policy.observation_space, policy.action_space)
        self.reward = build_critics(policy, self.actions.box_size, self.actions.outputs, *layers)
        self.potential = build_critics(policy, 0, 1, *layers) if shaped else None

    def forward(self, policy: Policy, steps: Batch) -> Tensor:
        """Return the logits of B steps with actions in environment units, [B].

        Shaped, the steps also need `next_obs`, and in `extra` their `discount` and the `log_prob` of their actions.
        """
        values = self.reward.values(
            self.reward.features(policy.normalized(steps.obs)), self.actions.canonical(steps.actions)
        )
        logit = self.actions.chosen(values, steps.actions)[0]
        if self.potential is None:
            return logit
        now, following = (
            self.potential.values(self.potential.features(policy.normalized(obs)), None)[0, :, 0]
            for obs in (steps.obs, steps.next_obs)
        )
        return logit + steps.extra["discount"] * following - now - steps.extra["log_prob"]
