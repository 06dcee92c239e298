"""What a process imports before it forks: all that the commands will need, so that a case takes a tenth of a second."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maze_core.plugins.discovery import Declaration

MODULES = (
    "gymnasium.envs.classic_control",
    "maze_core.cli.main",
    "maze_core.run.context",
    "maze_compare.groups",
    "maze_compare.records",
    "maze_compare.report.html_page",
    "maze_compare.report.text_pages",
    "maze_publish.opening",
    "maze_publish.publishing",
    "maze_recordings.loader",
    "maze_core.run.api",
    "maze_recordings.rollouts",
    "maze_core.run.episodes.saved_evaluation",
    "tensorboard.backend.event_processing.event_accumulator",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.summary.writer.record_writer",
    "torch.distributions",
    "torch.optim",
)
"""What every command may need that the core and its plugins import late."""
OF_ATTACKED_RUNS = (
    "cma",
    "maze_compile.choice",
    "maze_memories.recurrent",
    "mpe2.simple_spread_v3",
    "pettingzoo.classic.tictactoe_v3",
    "rich.table",
)
"""What only the runs that are attacked import late."""
PLUGINS = ("algorithm", "model", "runner", "callback", "wrapper", "env", "policy", "command")
NOT_BUNDLED = ("maze-ray", "maze-rllib", "maze-optuna")


def bundled() -> list[str]:
    """The modules of all bundled plugins but the heaviest ones."""
    from maze_core.plugins import discovery

    return [each.entry_point.module for each in discovery.declarations() if _is_wanted(each)]


def warm_up() -> None:
    """Import everything, so that no child has to."""
    from tests.attack.children import adopt_orphans

    for name in (*MODULES, *OF_ATTACKED_RUNS):
        import_module(name)
    from maze_core.plugins import discovery

    for found in discovery.declarations():
        if _is_wanted(found):
            discovery.load(found.kind, found.name)
    gc.freeze()  # to look through all of this for garbage would copy it, in each child
    gc.set_threshold(7000)  # as the tests themselves
    adopt_orphans()


def _is_wanted(found: Declaration) -> bool:
    return found.kind in PLUGINS and found.distribution not in NOT_BUNDLED
