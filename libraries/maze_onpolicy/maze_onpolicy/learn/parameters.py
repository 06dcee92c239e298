"""Which parameters of a policy network decide, which estimate values, and which do both."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from maze_core import TensorTree, to_tensors
from maze_core.base.process_state import isolated_rng
from maze_core.base.tree import concat_trees
from maze_core.envs.actors import TURN, actors_of
from maze_core.envs.codecs import ObservationCodec
from maze_core.models.blocks import in_evaluation_mode
from maze_core.models.memory import separate_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from maze_core import Policy

Result = TypeVar("Result")

_ROWS = 8


@dataclass(frozen=True)
class PolicyParameters:
    """The parameters of a policy network that learn, by what depends on them; each is in one of the lists."""

    policy: list[nn.Parameter]
    """Those that only the decisions depend on."""
    critic: list[nn.Parameter]
    """Those that only the values depend on; empty without a critic."""
    shared: list[nn.Parameter]
    """Those that both depend on: a trunk with a policy's head and a critic's."""
    unused: list[nn.Parameter]
    """Those that neither depends on."""

    @property
    def deciding(self) -> list[nn.Parameter]:
        """All that the decisions depend on."""
        return [*self.shared, *self.policy]

    @property
    def estimating(self) -> list[nn.Parameter]:
        """All that the values depend on."""
        return [*self.shared, *self.critic]


def policy_parameters(policy: Policy) -> PolicyParameters:
    """Return which parameters of a policy network decide and which estimate values.

    It follows the gradients of a few made-up observations, so it holds for every network, also for one of your own. The
    policy is left as it was; random numbers of torch are not used up.
    """
    learning = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    with in_evaluation_mode(policy), isolated_rng(0), torch.enable_grad():  # statistics must not move
        deciding, estimating = _reached(policy, learning)
    kinds: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for parameter in learning:
        kinds.setdefault((id(parameter) in deciding, id(parameter) in estimating), []).append(parameter)
    return PolicyParameters(
        policy=kinds.get((True, False), []),
        critic=kinds.get((False, True), []),
        shared=kinds.get((True, True), []),
        unused=kinds.get((False, False), []),
    )


def _reached(policy: Policy, learning: list[nn.Parameter]) -> tuple[set[int], set[int]]:
    """Return the ids of the parameters that decisions depend on, and of those that values depend on."""
    device = learning[0].device if learning else torch.device("cpu")
    obs = _made_up(policy.observation_space, device)
    sequences = separate_rows(policy, len(next(iter(obs.values()))))
    more = () if sequences is None else (sequences,)
    distribution = policy.distribution(obs, *more)
    deciding = _depends(distribution.log_prob(distribution.mode()).sum() + distribution.entropy().sum(), learning)
    if not getattr(policy, "has_critic", False):
        return deciding, set()
    return deciding, _depends(policy.value(obs, *more).sum(), learning)


def _depends(result: Tensor, learning: list[nn.Parameter]) -> set[int]:
    if not learning or not result.requires_grad:
        return set()
    gradients = torch.autograd.grad(result, learning, allow_unused=True)
    return {id(parameter) for parameter, gradient in zip(learning, gradients, strict=True) if gradient is not None}


def _made_up(space: Any, device: torch.device) -> TensorTree:
    """Return observations as policies get them, leaves [B, …]; each actor has its turn in some of them."""
    drawn, codec = copy.deepcopy(space), ObservationCodec(space)
    drawn.seed(0)
    actors = actors_of(space)
    count = _ROWS if actors is None else max(_ROWS, len(actors.names))
    rows = []
    for row in range(count):
        observation = drawn.sample()
        if actors is not None:
            observation[TURN]["actor"] = np.int64(row % len(actors.names))
        rows.append(codec.tree(observation))
    return to_tensors(concat_trees(rows), device)


class _Called(nn.Module):
    """A module and a function of it, as a module."""

    def __init__(self, module: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self._call = module, call

    def forward(self, *inputs: Any) -> Any:
        """Return what the function returns."""
        return self._call(*inputs)


def with_parameters(
    module: nn.Module, parameters: Mapping[str, Tensor], call: Callable[..., Result], *inputs: Any
) -> Result:
    """Return what `call(*inputs)` returns while a module has other parameters, differentiable in them.

    Args:
        module: such as a policy; it has its own parameters again afterwards.
        parameters: those of `named_parameters` that are others, by name.
        call: a method of the module, or a function that uses it.
        inputs: of `call`.
    """
    named = {f"module.{name}": value for name, value in parameters.items()}
    result: Result = torch.func.functional_call(_Called(module, call), named, inputs)
    return result
