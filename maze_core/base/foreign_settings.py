"""Settings that code of others reads or changes: environment variables, files of the current folder, torch's defaults.

They are set for a while, put back, or refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from maze_core.base.errors import ConfigError

Variables = Mapping[str, str | None]
"""Values of environment variables; None: not set."""


@contextmanager
def variables_set(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables inside the block and restore them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        put_back(before)


@contextmanager
def unchanged_variables() -> Iterator[None]:
    """Restore what the block changes, such as the variables of audio and pygame that an import of PettingZoo sets."""
    before = dict(os.environ)
    try:
        yield
    finally:
        put_back(changed_since(before))


def changed_since(before: Mapping[str, str]) -> Variables:
    """Return the variables that differ from `before`, an earlier copy of all, with their earlier values."""
    return {name: before.get(name) for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}


def put_back(variables: Variables) -> None:
    """Restore variables to the given values."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def refuse_settings_here(library: str, names: Iterable[str], where: str | None = None) -> None:
    """Raise ConfigError where the current folder has one of the files from which a library takes settings unasked.

    Args:
        library: its name.
        names: of the files.
        where: the part of the configuration that uses the library.
    """
    for name in names:
        if os.path.lexists(name):
            raise ConfigError(
                f"{library} would take settings from {name} of the current folder, which may come from others",
                where,
                "Next: move that file away, or use another folder.",
            )


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
        if np.geterr() != errors:  # once they are set, each operation of NumPy looks them up
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
