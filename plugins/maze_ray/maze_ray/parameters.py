"""Parameters on their way to the workers: small ones with the call, large ones through Ray's object store."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from maze_core import Shared

if TYPE_CHECKING:
    from maze_core.collect.pools.workers import Arrays

SMALL = 64 * 1024
"""Most bytes that travel with the calls. Ray sends arguments of up to 100 kB this way; an object in its store takes
milliseconds more."""

Sent = tuple[int, Any]
"""The version, and its parameters: bytes, a reference to arrays (which Ray replaces by them), or None where the worker
has that version."""


class Parameters:
    """One version of the parameters, by default none at all.

    Args:
        ray: the module.
        version: its number.
        arrays: the parameters; they are copied.
        lines: some workers are on a line, which takes parameters of any size.
    """

    def __init__(self, ray: Any, version: int = 0, arrays: Arrays | None = None, lines: bool = False) -> None:
        self.version = version
        self._ray = ray
        arrays = arrays or {}
        self._is_small = sum(array.nbytes for array in arrays.values()) <= SMALL
        self._packed = pickle.dumps(arrays, protocol=5) if lines or self._is_small else b""
        self._stored = None if self._packed else ray.put(arrays)

    def for_line(self, known: int) -> Sent:
        """Return what to send over a line to a worker that has the version `known`."""
        return self.version, None if known == self.version else self._packed

    def for_call(self, known: int) -> Sent:
        """Return what to pass to a call of a worker that has the version `known`."""
        if self._is_small or known == self.version:
            return self.for_line(known)
        if self._stored is None:
            self._stored = self._ray.put(pickle.loads(self._packed))  # noqa: S301 — our own
        return self.version, self._stored


def received(sent: Sent) -> Shared:
    """Return the parameters in a worker."""
    version, arrays = sent
    if isinstance(arrays, bytes):
        arrays = pickle.loads(arrays)  # noqa: S301 — from the driver
        for array in arrays.values():
            array.flags.writeable = False
    return Shared(version, arrays)
