"""Arguments from a configuration, which has lists, for constructors that ask for arrays."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np


def with_arrays(constructor: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, with an array for each list whose parameter is annotated as one or has one as default."""
    try:
        parameters = inspect.signature(constructor).parameters
    except (TypeError, ValueError):
        return dict(kwargs)
    return {
        name: np.asarray(value) if isinstance(value, list) and _takes_array(parameters.get(name)) else value
        for name, value in kwargs.items()
    }


def _takes_array(parameter: inspect.Parameter | None) -> bool:
    if parameter is None:
        return False
    kind = parameter.annotation
    text = kind if isinstance(kind, str) else getattr(kind, "__name__", "") + str(kind)
    return isinstance(parameter.default, np.ndarray) or "ndarray" in text or "NDArray" in text
