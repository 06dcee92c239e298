"""Functions that run in RLlib's learners, in this process or in actors: their state as tensors of the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from maze_core.base.saved_state import form_of
from maze_core.learn.optimizers import saved_optimizer

MODULE = "default_policy"
_SCALARS = ("curr_kl_coeffs_per_module", "curr_log_alpha", "moving_avg_sqd_adv_norms_per_module")
"""Values besides networks that RLlib's learners adapt, by attribute; they are not part of the learners' state."""


def weights(learner: Any) -> dict[str, Tensor]:
    """Return parameters and buffers of the whole learning module, target networks included."""
    return {name: leaf.detach().cpu() for name, leaf in _module(learner).state_dict().items()}


def put_weights(learner: Any, values: Mapping[str, Tensor]) -> None:
    """Load some parameters and buffers of the learning module."""
    _module(learner).load_state_dict(values, strict=False)


def learner_state(learner: Any) -> dict[str, Any]:
    """Return what a resumed run needs: networks, optimizers and adapted values."""
    optimizers = {name: saved_optimizer(optimizer) for name, optimizer in learner._named_optimizers.items()}
    scalars = {name: getattr(learner, name)[MODULE] for name in _SCALARS if hasattr(learner, name)}
    return {
        "module": weights(learner),
        "optimizers": _detached(optimizers),
        "scalars": {name: torch.as_tensor(value).detach().cpu().clone() for name, value in scalars.items()},
    }


def learner_form(learner: Any) -> Any:
    """Return the form of the result of `learner_state`."""
    return form_of(partial(learner_state, learner))


def put_state(learner: Any, state: Mapping[str, Any]) -> None:
    """Restore the result of `learner_state`."""
    _module(learner).load_state_dict(state["module"])
    for name, optimizer in learner._named_optimizers.items():
        optimizer.load_state_dict(state["optimizers"][name])
    for name, value in state["scalars"].items():
        getattr(learner, name)[MODULE].data.copy_(value)


def _module(learner: Any) -> Any:
    return learner.module[MODULE].unwrapped()


def _detached(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {key: _detached(each) for key, each in value.items()}
    return [_detached(each) for each in value] if isinstance(value, list | tuple) else value
