"""The connection between the learners of a run, through torch.distributed: gloo on CPUs, NCCL between GPUs."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch

from maze_core.base.foreign_settings import variables_set
from maze_core.collect.pools.runner import LOOPBACK

if TYPE_CHECKING:
    from torch import Tensor

_MEETING = timedelta(seconds=60)
"""Time limit for learners that are set up already to connect."""
DRIVER = 0
"""The rank of the process that owns the run."""


class LearnerLost(Exception):  # noqa: N818 — what has happened, not an error of this process
    """Another learner has ended, or does not answer."""


class LearnerGroup:
    """Broadcasts, sums and sends tensors between learners. All of them make the same calls in the same order.

    It is a process group of its own: torch's global one, of which a process has one, stays free. All sockets listen on
    one address only, by default that of the loopback interface.

    Args:
        host: address of the driver, where the learners meet.
        port: where it listens.
        rank: number of this learner; the driver is 0.
        size: number of learners.
        gpu: the GPU of this learner, for NCCL; None: gloo, with tensors on the CPU.
        seconds: time limit of a call.
        listener: the driver's socket that listens at `port`; None for other learners.

    Raises:
        LearnerLost: the others did not come.
    """

    def __init__(
        self,
        host: str,
        port: int,
        rank: int,
        size: int,
        gpu: torch.device | None,
        seconds: float,
        listener: socket.socket | None = None,
    ) -> None:
        distributed = _distributed()
        self.device = gpu or torch.device("cpu")
        """Where tensors must be."""
        limit = timedelta(seconds=seconds)
        meeting = min(limit, _MEETING)
        # Given a socket, the store listens there; otherwise it would listen on all interfaces.
        given: dict[str, Any] = {} if listener is None else {"master_listen_fd": listener.detach()}
        with _told():
            store = distributed.TCPStore(
                host, port, is_master=rank == DRIVER, timeout=meeting, wait_for_workers=False, **given
            )
            self._group: Any = (_gloo if gpu is None else _nccl)(store, rank, size, limit, _address_towards(host))

    def broadcast(self, tensor: Tensor) -> None:
        """Fill `tensor` with that of the driver."""
        self._complete("broadcast", tensor, DRIVER)

    def add_up(self, tensor: Tensor) -> None:
        """Replace the driver's tensor by the sum of all; those of the others are undefined afterwards."""
        self._complete("reduce", tensor, DRIVER)

    def send(self, tensor: Tensor, rank: int) -> Callable[[], None]:
        """Begin to send a tensor; the function that is returned waits until it is sent."""
        with _told():
            work = self._open.send([tensor], rank, 0)

        def wait() -> None:
            with _told():
                work.wait()
            tensor.numel()  # it must live until then

        return wait

    def receive(self, tensor: Tensor) -> None:
        """Fill `tensor` with the next one that the driver sends here."""
        self._complete("recv", [tensor], DRIVER, 0)

    def close(self) -> None:
        """Close all connections: the others notice at once. Safe to call twice."""
        self._group = None  # with the last reference its sockets are closed

    def _complete(self, call: str, *arguments: Any) -> None:
        with _told():
            # No variable for the group: the traceback of an error would keep its sockets open.
            getattr(self._open, call)(*arguments).wait()

    @property
    def _open(self) -> Any:
        if self._group is None:
            raise LearnerLost("the connection is closed")
        return self._group


def listener_at(host: str) -> tuple[socket.socket, int]:
    """Return a socket that listens at this address alone, and its port."""
    listener = socket.create_server((host, 0))
    return listener, listener.getsockname()[1]


@contextmanager
def _told() -> Iterator[None]:
    """Turn torch's errors about connections into LearnerLost."""
    try:
        yield
    except RuntimeError as error:
        raise LearnerLost(str(error).partition("\n")[0]) from error


def _distributed() -> Any:
    """Return torch.distributed, whose classes for single process groups have no types."""
    return importlib.import_module("torch.distributed")


def _gloo(store: Any, rank: int, size: int, limit: timedelta, address: str) -> Any:
    gloo = _distributed().ProcessGroupGloo
    options = gloo._Options()
    options._timeout = limit
    options._devices = [gloo.create_device(hostname=address)]
    return gloo(store, rank, size, options)


def _nccl(store: Any, rank: int, size: int, limit: timedelta, address: str) -> Any:
    nccl = _distributed().ProcessGroupNCCL
    options = nccl.Options()
    options._timeout = limit
    with variables_set({"NCCL_SOCKET_IFNAME": "lo"} if address == LOOPBACK else {}):
        group = nccl(store, rank, size, options)
        group.allreduce(torch.zeros(1, device="cuda")).wait()  # it connects with the first call
    return group


def _address_towards(host: str) -> str:
    """Return this machine's address on the interface that leads to `host`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # nothing is sent
        address: str = probe.getsockname()[0]
        return address
