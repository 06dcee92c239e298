"""A callback that stops a run at an exact moment."""

from __future__ import annotations

import os
import signal
from typing import Any

from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl


def bomb(at: int, *signals: signal.Signals) -> Any:
    """Return a callback that signals this process when the loss is computed for the `at`-th time; 0: never.

    It sends `signals` one after the other, or an interrupt.
    """

    class Bomb(Plugin):
        calls = 0

        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            Bomb.calls += 1
            if Bomb.calls == at:
                for number in signals or (signal.SIGINT,):
                    os.kill(os.getpid(), number)
            return (yield)

    return Bomb
