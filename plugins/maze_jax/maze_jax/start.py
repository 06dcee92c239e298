"""Starts JAX: with as many threads as torch has, in single precision, on a device that is there."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from maze_core import ConfigError
from maze_core.base.foreign_settings import unchanged_variables
from maze_core.plugins.discovery import describe

_THREADS = "NPROC"
"""The variable from which XLA takes the number of its threads, once, when its client for the CPU starts."""


def jax_for(library: str) -> Any:
    """Return the module jax, started, for a library of simulators.

    Where JAX has not computed anything yet in this process, it gets as many threads as torch has now.

    Raises:
        ConfigError: JAX is not installed, has no device, or computes in double precision.
    """
    jax = imported("jax", library)
    if jax.config.jax_enable_x64:
        raise ConfigError(
            "JAX computes in double precision (jax_enable_x64), and the simulators' arrays are of single precision",
            "env",
            "Next: unset JAX_ENABLE_X64, or do not set jax_enable_x64.",
        )
    import torch  # imported by every run

    with unchanged_variables():
        os.environ.setdefault(_THREADS, str(torch.get_num_threads()))
        try:
            jax.devices()
        except RuntimeError as error:
            raise ConfigError(
                f"JAX has no device: {describe(error)}", "env", "Next: JAX_PLATFORMS=cpu, or unset JAX_PLATFORMS."
            ) from error
    return jax


def imported(module: str, library: str) -> Any:
    """Return a module of a library, which is imported.

    Raises:
        ConfigError: it is missing, or something that it needs is.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = module.partition(".")[0]
        found = importlib.util.find_spec(missing) is not None
        what = f"{missing} cannot be imported: {describe(error)}" if found else f"this needs {missing}"
        raise ConfigError(what, "env.id", f'Install it: pip install "maze-jax[{library}]"') from error


def on_cpu() -> bool:
    """Return True where JAX computes on the CPU."""
    import jax

    return bool(jax.default_backend() == "cpu")
