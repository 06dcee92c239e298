"""How encoded observation leaves become the features of one network: concatenated, or by a module of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import cast

import torch
from torch import Tensor, nn

from maze_core import ConfigError

Composer = Callable[[dict[str, int]], nn.Module]
"""A module's class, or a function that returns one, called with the width of each encoded leaf by its key.

The module has `out_features`, and maps a dict of the encoded leaves, [B, width] each, to features [B, out_features].
"""
_WAYS = (
    "A composer is called with {key: width}; it has `out_features`, and maps {key: [B, width]} to [B, out_features]."
)


class Composition(nn.Module):
    """Encoded leaves → features [B, out_features].

    Args:
        widths: of each encoded leaf.
        composer: joins them; None: they are concatenated in their order.

    Raises:
        ConfigError: the composer is unusable; says why.
    """

    def __init__(self, widths: Mapping[str, int], composer: Composer | None = None) -> None:
        super().__init__()
        self.composer: nn.Module | None = None
        self.out_features = sum(widths.values())
        if composer is not None:
            self.composer = _built(composer, dict(widths))
            self.out_features = cast(int, self.composer.out_features)

    def forward(self, encoded: dict[str, Tensor]) -> Tensor:
        """Leaves [B, width] → [B, out_features]."""
        if self.composer is not None:
            joined: Tensor = self.composer(encoded)
            return joined
        rows = list(encoded.values())
        return rows[0] if len(rows) == 1 else torch.cat(rows, -1)


def _built(composer: Composer, widths: dict[str, int]) -> nn.Module:
    """Return the composer's module, called once on two rows of zeros so that a mistake shows before the first step."""
    name = getattr(composer, "__name__", type(composer).__name__)
    try:
        module = composer(widths)
        if not isinstance(module, nn.Module) or not isinstance(getattr(module, "out_features", None), Integral):
            raise _unusable(f"{name} gives {type(module).__name__}, which is no module with `out_features`")
        with torch.no_grad():
            found = module({key: torch.zeros(2, width) for key, width in widths.items()})
    except ConfigError:
        raise
    except Exception as error:
        raise _unusable(f"{name} failed on {widths}: {error!r}") from error
    wanted = (2, cast(int, module.out_features))
    if not isinstance(found, Tensor) or tuple(found.shape) != wanted:
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise _unusable(f"{name} returned {got} for two rows, not a tensor of shape {wanted}")
    return module


def _unusable(problem: str) -> ConfigError:
    return ConfigError(f"this composer cannot be used: {problem}", "model", _WAYS)
