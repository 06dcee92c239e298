"""QMIX: monotonic value function factorisation (Rashid et al., arXiv 1803.11485)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from maze_offpolicy import Target
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core import Dense, Purpose
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import integer_seed
from maze_core.envs.actors import is_for_critics
from maze_core.models.inputs import FlatInput, critic_spaces
from maze_marl.config import QMIXConfig
from maze_marl.vdn import VDN

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from maze_core import AlgorithmConfig, Run, TensorTree

_MIXER = 1
# Separates its random numbers from those of the policy.
_FIRST_SAY = 0.1
# How much the state changes the mixer at first, relative to layers as they are initialized elsewhere.


class Mixer(nn.Module):
    """Mixes the values of A agents into one that rises with each: its weights on them are never negative.

    The weights are computed from the state of D numbers, which itself enters without a sign (section 4, Figure 2). A
    weighted sum of the values is added to the paper's hidden layer: its ELU is flat where values are far below 0, and
    agents would learn nothing there. All begins near the sum, as VDN: units count as a mean, with weights near 1.
    """

    def __init__(self, state: int, agents: int, units: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self._shape = (agents, units)
        self.first, self.first_bias = _layers(state, hidden, agents * units), Dense(state, units)
        self.last, self.last_bias = _layers(state, hidden, units), _layers(state, (units,), 1)
        self.straight = _layers(state, hidden, agents)
        for layers, bias in ((self.first, 1.0), (self.last, 0.5), (self.straight, 0.5)):
            nn.init.constant_(cast("Dense", layers[-1]).bias, bias)
        with torch.no_grad():
            for layer in (self.first[-1], self.last[-1], self.straight[-1], self.first_bias, self.last_bias[-1]):
                cast("Dense", layer).weight.mul_(_FIRST_SAY)

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """Values [S, A], states [S, D] → [S]."""
        weights = self.first(state).abs().reshape(-1, *self._shape)
        hidden = F.elu(torch.einsum("sa,sau->su", values, weights) + self.first_bias(state))
        mixed = (hidden * self.last(state).abs()).mean(-1) + (values * self.straight(state).abs()).sum(-1)
        return cast("Tensor", mixed + self.last_bias(state).squeeze(-1))


def _layers(inputs: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for pair in pairwise([inputs, *hidden, outputs]):
        layers += [Dense(*pair), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class QMIX(VDN):
    """Q-learning of a team, whose value a network mixes from those of the agents, given the state.

    The state is what critics alone see, such as `env.critic=state` of PettingZoo; else the observations of all agents,
    with zeros for those that take no part.
    """

    Config: ClassVar[type[AlgorithmConfig]] = QMIXConfig
    config: QMIXConfig

    def setup_loss(self, run: Run) -> None:
        """Build the target network, the mixer and its target."""
        super().setup_loss(run)
        config, self._policy = self.config, run.policy
        leaves = critic_spaces(run.observation_space, run.action_space)
        alone = {key: space for key, space in leaves.items() if is_for_critics(key)}
        self._is_told, self._flat = bool(alone), FlatInput(alone or leaves).to(run.device)
        size = self._flat.out_features * (1 if self._is_told else self.agents)
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _MIXER)):
            self.mixer = Mixer(size, self.agents, config.mixing_units, config.hyper_hidden).to(run.device)
        self.mixer_target = Target(self.mixer)

    def modules(self) -> dict[str, nn.Module]:
        """Return the target network, the mixer and its target."""
        return {**super().modules(), "mixer": self.mixer, "mixer_target": self.mixer_target.module}

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    def follow(self) -> None:
        """Move the targets towards what learns."""
        super().follow()
        self.mixer_target.follow(self.config.tau)

    def mix(self, values: Tensor, obs: TensorTree, present: Tensor, *, of_target: bool = False) -> Tensor:
        """Return the value of S joint steps, [S], as the mixer sees them; arguments as for VDN."""
        seen = self._flat.forward(self._policy.normalized(obs))
        if self._is_told:  # the rows of all agents hold the same state
            state = seen[:: self.agents]
        else:
            state = torch.where(present.unsqueeze(-1), seen, 0.0).reshape(-1, self.agents * seen.shape[-1])
        mixer = self.mixer_target.module if of_target else self.mixer
        mixed: Tensor = mixer(torch.where(present, values, 0.0).reshape(-1, self.agents), state)
        return mixed
