"""Tries what the head of another plugin promises when a policy is built: a mistake names the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core.base.terminal_text import kind_of
from maze_core.envs.spaces import choices_of
from maze_core.models.blocks import in_evaluation_mode
from maze_core.plugins.direct_calls import broken

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.base.errors import PluginError

_ROWS = 3
"""Rows with which a head is tried."""


def check_head(head: Any, name: str, space: Space[Any], features: int) -> None:
    """Raise PluginError unless a few rows give actions of the space, their probabilities and entropies.

    Modes and random numbers stay.
    """
    if not isinstance(head, nn.Module) or not hasattr(head, "shape") or not hasattr(head, "draw_noise"):
        raise _broken(name, f"`head` returned {_kind(head)}, which is no module with `shape` and `draw_noise`")
    with in_evaluation_mode(head), torch.no_grad():
        _try(head, name, space, features)


def _try(head: Any, name: str, space: Space[Any], features: int) -> None:
    generator = torch.Generator().manual_seed(1)
    noise = head.draw_noise((_ROWS, *head.shape), generator)
    found = head(torch.randn(_ROWS, features, generator=generator), None)
    for method, sample in (("sample", found.sample(noise)), ("mode", found.mode())):
        if not isinstance(sample, Tensor) or sample.shape[:1] != (_ROWS,):
            raise _broken(name, f"`{method}` returned {_kind(sample)} for {_ROWS} rows, not a tensor [{_ROWS}, …]")
        _check_action(method, found.env_action(sample), name, space)
        _check_numbers("log_prob", found.log_prob(sample), name)
    _check_numbers("entropy", found.entropy(), name)


def _check_action(method: str, action: Any, name: str, space: Space[Any]) -> None:
    shape = (_ROWS, *(space.shape or ()))
    if not isinstance(action, Tensor) or tuple(action.shape) != shape:
        raise _broken(name, f"`env_action` returned {_kind(action)} for what `{method}` returned, not a tensor {shape}")
    values = action.double()
    if not bool(values.isfinite().all()):
        raise _broken(name, f"the action of `{method}` is not finite")
    if isinstance(space, spaces.Box):
        return
    sizes = torch.as_tensor(choices_of(space))
    whole = isinstance(space, spaces.MultiBinary) or not action.is_floating_point()
    if not whole or not bool(((values == values.round()) & (values >= 0) & (values < sizes)).all()):
        raise _broken(
            name, f"the action of `{method}` is {action.tolist()}, not whole numbers of {space}, counted from 0"
        )


def _check_numbers(method: str, values: Any, name: str) -> None:
    if not isinstance(values, Tensor) or tuple(values.shape) != (_ROWS,):
        raise _broken(name, f"`{method}` returned {_kind(values)} for {_ROWS} rows, not a tensor ({_ROWS},)")
    if not bool(values.isfinite().all()):
        raise _broken(name, f"`{method}` returned {values.tolist()}, which is not finite")


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    return kind_of(value)


def _broken(name: str, problem: str) -> PluginError:
    return broken("distribution", name, problem)
