"""Shares of this process's connection to Ray: the first opens it, and the last closes it."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core import ConfigError, PluginError
from maze_core.base.foreign_settings import changed_since, put_back
from maze_ray.connection import LOCAL, NODE_ENDED, Connection
from maze_ray.probe import answers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from maze_ray.config import RayConfig


def import_ray() -> Any:
    """Return the module `ray`. Raises PluginError if it is not installed."""
    before = dict(os.environ)
    try:
        import ray
    except ImportError as exc:
        raise PluginError(
            "the runner ray needs Ray, which is not installed here\n"
            'Next: make setup-ray, or: python -m pip install "ray>=2.60,<3"'
        ) from exc
    finally:
        put_back(changed_since(before))
    return ray


class Session:
    """A share of the process's connection to Ray. Ray allows one connection per process, so shares are counted.

    If the process is already connected by its own `ray.init`, that connection is used and not closed. An existing
    cluster keeps running; a Ray started here ends with the last share, with all its processes.

    Raises:
        ConfigError: there is no cluster at the address, or it is incompatible with this installation.
        PluginError: Ray is not installed.
    """

    _shares: ClassVar[int] = 0
    _current: ClassVar[Connection | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, config: RayConfig) -> None:
        ray = import_ray()
        wanted = wanted_address(config)
        self._closed = False
        with Session._lock:
            if Session._current is None:
                Session._current = Connection(ray, wanted, config.code, named=config.address is not None)
            elif Session._current.wanted != wanted:
                raise ConfigError(
                    f"this process is connected to another Ray already: {Session._current.wanted}", "runner.address"
                )
            self.connection = Session._current
            Session._shares += 1

    @classmethod
    def keep_log(cls, folder: Path) -> None:
        """Keep what Ray says in a file of a run directory, if this process is connected."""
        if cls._current is not None:
            cls._current.log.keep_in(folder)

    @classmethod
    def on_loss(cls, tell: Callable[[Exception], object]) -> None:
        """Call `tell` when the cluster is gone, if this process is connected."""
        if cls._current is not None:
            cls._current.tell = tell

    @property
    def is_local(self) -> bool:
        """True for a Ray started by Maze on this machine."""
        return self.connection.folder is not None

    def check(self) -> None:
        """Raise RunError if the head has not answered for long. Takes no time: a thread asks it."""
        if self.connection.lost:
            raise self.connection.loss

    def check_store(self) -> None:
        """Raise RunError if the head, or this machine's node of the cluster, is gone. Takes some microseconds.

        Call it before objects are put or fetched: without its object store, Ray ends the process at once.
        """
        self.check()
        try:
            with socket.socket(socket.AF_UNIX) as store:
                store.connect(self.connection.store)
        except OSError:
            self.connection.lost = self.connection.lost or NODE_ENDED
            self.check()

    def wait_for_head(self) -> None:
        """Return when the head answers; raise RunError if this machine's node or the head is gone, after seconds."""
        self.check_store()
        while not answers(self.connection.address):
            self.check_store()
            time.sleep(0.5)

    def close(self) -> None:
        """Release the share; safe to call twice."""
        with Session._lock:
            if self._closed:
                return
            self._closed = True
            Session._shares -= 1
            if Session._shares == 0 and Session._current is not None:
                connection, Session._current = Session._current, None
                connection.close()


def wanted_address(config: RayConfig) -> str:
    """Return the address that a configuration refers to."""
    return config.address or os.environ.get("RAY_ADDRESS") or LOCAL
