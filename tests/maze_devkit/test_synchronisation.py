"""Which calls count as waiting for the device."""

import pytest
import torch
from maze_devkit.synchronisation import Watch

VALUES = torch.arange(3.0)


@pytest.mark.parametrize(
    ("look", "found"),
    [
        (lambda: VALUES.sum().item(), ["item"]),
        (lambda: bool(VALUES.any()), ["bool"]),
        (lambda: VALUES.tolist(), ["tolist"]),
        (lambda: VALUES.sum() * 2, []),
        (lambda: VALUES.sum().item() if VALUES.is_cpu else VALUES.sum(), []),  # on a device it would not be done
        (lambda: VALUES.sum() if VALUES.is_cpu else VALUES.sum().item(), ["item"]),
    ],
)
def test_what_makes_the_host_wait(look, found):
    with Watch() as watch:
        look()
    assert watch.found[:1] == found
    assert VALUES.is_cpu
