"""How a run's steps are repeated, if they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_compile.compiled import CompileRecorder
from maze_compile.cuda import GraphRecorder
from maze_compile.repeatable import unrepeatable
from maze_compile.steps import RepeatedSteps, note_failure
from maze_core import Adam

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run


def repeated_steps(run: Run) -> RepeatedSteps | None:
    """Return what repeats a run's steps: recordings on a GPU, compiled code on a CPU; None: all are taken as usual.

    Recorded are runs whose algorithm declares what its loss depends on, without other plugins in the loss and with
    networks of Maze and torch only.
    """
    config, kind = run.config, run.device.type
    if kind not in ("cpu", "cuda") or (kind == "cuda" and type(run.learner.optimizer) is not Adam):
        return None  # of Adam the step is recorded, too
    reason = unrepeatable(run)
    if reason is None:
        at_once = config.compile == "on"
        return RepeatedSteps(run, GraphRecorder(run) if kind == "cuda" else CompileRecorder(run, at_once=at_once))
    if kind == "cpu" and config.compile == "on":
        note_failure(config.algorithm.name, CompileRecorder.failure, reason)
    return None
