"""Process-wide state that training borrows and restores: random states, torch's threads.

A process has only one of each, so one thread at a time may borrow them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch

from maze_core.base.errors import ConfigError


class HasRandomState(Protocol):
    """What has states of torch's global generators of its own, such as a run."""

    torch_rng: torch.Tensor
    cuda_rng: torch.Tensor | None
    """Of the GPU's generator; None for a run without a GPU."""


class _Turn:
    """The thread that borrows from the process, and the run it trains; one per process, like what is borrowed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.training: str | None = None


_TURN = _Turn()
_LOOK_AGAIN = 0.05
"""Seconds between two checks whether the other thread has begun to train."""


@contextmanager
def process_turn(training: str | None = None) -> Iterator[None]:
    """Keep other threads from borrowing process state inside the block. Turns of one thread may be nested.

    Waits while another thread builds, evaluates or plays, which is short; raises if one trains.

    Args:
        training: name of the run trained inside, for messages.

    Raises:
        ConfigError: another thread is training a run.
    """
    while not _TURN.lock.acquire(timeout=_LOOK_AGAIN):
        if (other := _TURN.training) is not None:
            raise ConfigError(
                f"another run is training in this process: {other}",
                hint="Torch has one random state and one set of threads per process. Wait until it is done, or use a "
                "process of its own for each run, as `maze sweep` does.",
            )
    before = _TURN.training
    _TURN.training = training or before
    try:
        yield
    finally:
        _TURN.training = before
        _TURN.lock.release()


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads inside the block; 0 changes nothing."""
    with process_turn():
        before = torch.get_num_threads()
        if count:
            torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Seed torch's global generators inside the block, and restore them afterwards.

    Of several GPUs, the current one's; a GPU that nobody uses yet is left alone.
    """
    with process_turn(), torch.random.fork_rng(_gpus()):
        # `torch.manual_seed` also formats a stack for each kind of accelerator, there or not.
        torch.default_generator.manual_seed(seed)
        for gpu in _gpus():
            torch.cuda.default_generators[gpu].manual_seed(seed)
        yield


@contextmanager
def borrowed_rng(owner: HasRandomState) -> Iterator[None]:
    """Use the owner's states of torch's global generators inside the block, and restore the outer ones afterwards."""
    on_gpu = owner.cuda_rng is not None
    with process_turn(), torch.random.fork_rng([torch.cuda.current_device()] if on_gpu else []):
        torch.set_rng_state(owner.torch_rng)
        if owner.cuda_rng is not None:
            torch.cuda.set_rng_state(owner.cuda_rng)
        try:
            yield
        finally:
            owner.torch_rng, owner.cuda_rng = global_states(on_gpu)


def global_states(on_gpu: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the states of torch's global generators: the CPU's, and the current GPU's if wanted."""
    return torch.get_rng_state(), torch.cuda.get_rng_state() if on_gpu else None


def _gpus() -> list[int]:
    started: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return [torch.cuda.current_device()] if started else []
