"""What a process imports before it forks: all that the commands will need, so that a case takes a tenth of a second."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "gymnasium.envs.classic_control",
    "maze_core.cli.main",
    "maze_compare.groups",
    "maze_compare.records",
    "maze_core.data.trajectories_loader",
    "maze_core.training.api",
    "maze_core.training.rollouts",
    "maze_core.training.saved_evaluation",
    "tensorboard.backend.event_processing.event_accumulator",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.summary.writer.record_writer",
    "torch.distributions",
    "torch.optim",
)
PLUGINS = ("algorithm", "model", "runner", "callback", "wrapper", "env", "policy", "command")


NOT_BUNDLED = ("maze-ray", "maze-rllib", "maze-optuna")


def warm_up() -> None:
    """Import everything, so that no child has to."""
    from tests.attack.children import adopt_orphans

    for name in MODULES:
        import_module(name)
    from maze_core.plugins import discovery

    for found in discovery.declarations():
        if found.kind in PLUGINS and found.distribution not in NOT_BUNDLED:
            discovery.load(found.kind, found.name)
    adopt_orphans()
