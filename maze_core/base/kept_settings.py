"""Settings of the whole process that an environment may change for itself, and that are then put back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def settings_kept() -> Iterator[None]:
    """Put back after the block what code of others changed in it: defaults of torch, and how NumPy treats its errors.

    Environments that compute with torch set its defaults for themselves; the networks need those that were there.
    Where torch is not imported yet, nobody needs them.
    """
    torch: Any = sys.modules.get("torch")
    errors, settings = np.geterr(), [] if torch is None else _settings_of(torch)
    before = [read() for read, _ in settings]
    try:
        yield
    finally:
        for (read, write), value in zip(settings, before, strict=True):
            if read() != value:
                write(value)
        np.seterr(**errors)


def _settings_of(torch: Any) -> list[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Return how each of torch's settings is read and written."""
    return [
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (torch.get_num_threads, torch.set_num_threads),
        (torch.get_default_device, lambda device: torch.set_default_device(None if device.type == "cpu" else device)),
        (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    ]
