"""The training loop, the same for every algorithm."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from maze_core.errors import RunError
from maze_core.training.evaluation import EvaluationInterrupted
from maze_core.training.manifest import CHECKPOINTS
from maze_core.training.report import RunSummary
from maze_core.training.run import FINAL_EVALUATION, is_about_memory
from maze_core.wording import argument

if TYPE_CHECKING:
    from maze_core.training.run import Run

Outcome = Literal["finished", "stopped", "interrupted", "failed"]


def train(run: Run) -> RunSummary:
    """Train until the run's end and evaluate the final parameters.

    Raises:
        RunError: the run cannot continue; a note names the last complete checkpoint, which is kept.
    """
    run.check_open()
    run.stop_reason, run.stop_pending, run.interrupted = run.stop_pending, None, False
    run.start_clock()
    try:
        run.hooks.on_run_start(run)
        final = _epochs(run)
        run.summary = summary = _summary(run, *_ending(run), final)
    except BaseException as error:
        run.stop_clock()
        told = _in_plain_words(error)
        _tell_failure(run, told)
        if told is error:
            raise
        raise told from None
    run.hooks.on_run_end(run, summary)
    run.stop_clock()
    return summary


def _epochs(run: Run) -> dict[str, float]:
    """Train to the end and return the final evaluation; empty if the user interrupted an evaluation."""
    try:
        while run.stop_reason is None and not run.finished:
            _epoch(run)
        return run.evaluate(FINAL_EVALUATION)
    except EvaluationInterrupted:
        return {}


def _in_plain_words(error: BaseException) -> BaseException:
    """Return the error itself, or one that says what to do if memory ran out."""
    if not (isinstance(error, Exception) and is_about_memory(error)):
        return error
    reason = str(error).partition("\n")[0] or type(error).__name__
    return RunError(f"there is no memory left for a step of training: {reason}\nNext: smaller rollouts or batches.")


def _tell_failure(run: Run, error: BaseException) -> None:
    """Tell the observers that the run has failed, and the user which checkpoint remains."""
    interrupted = isinstance(error, KeyboardInterrupt)
    reason = "interrupted at once" if interrupted else str(error).partition("\n")[0] or type(error).__name__
    run.summary = _summary(run, "interrupted" if interrupted else "failed", reason, {})
    try:
        run.hooks.on_run_end(run, run.summary)
    except RunError as another:
        error.add_note(str(another))
    if isinstance(error, Exception) and run.run_dir is not None and run.saved_epoch is not None:
        last = run.run_dir / CHECKPOINTS / "last"
        following = f"Next: maze resume {argument(run.run_dir)}"
        error.add_note(f"The last whole checkpoint is {last}, of epoch {run.saved_epoch}. {following}")


def _epoch(run: Run) -> None:
    """Train one epoch, evaluate, tell the observers, write the checkpoint.

    An interruption during training or evaluation leaves the epoch unfinished. The checkpoint stores its progress, and
    a resumed run completes it.
    """
    try:
        started, steps, updates = time.perf_counter(), run.env_steps, run.updates
        if not run.epoch_trained:
            run.algorithm.train_epoch(run.learner, run.epoch_length - run.updates_in_epoch)
            all_taken = run.updates_in_epoch >= run.epoch_length
            run.epoch_trained = all_taken or run.steps_done or not run.interrupted
        if run.epoch_trained:
            elapsed = time.perf_counter() - started
            # Evaluate before the epoch's metrics are cleared: after an interruption the checkpoint must hold them.
            evaluation = run.evaluate(run.epoch + 1)
            metrics = run.statistics.epoch_metrics() | run.learner.epoch_metrics()
            metrics["time/env_steps_per_second"] = (run.env_steps - steps) / elapsed
            metrics["time/updates_per_second"] = (run.updates - updates) / elapsed
            _finish_epoch(run, metrics | evaluation)
    except EvaluationInterrupted:
        _save(run)
        raise
    _save(run)


def _save(run: Run) -> None:
    if run.run_dir is not None:
        run.save_checkpoint("last")


def _finish_epoch(run: Run, metrics: dict[str, float]) -> None:
    run.epoch += 1
    run.updates_in_epoch = 0
    run.epoch_trained = False
    run.progress.updates_in_epoch = 0
    run.hooks.on_epoch_end(run, run.report(run.epoch, metrics))


def _ending(run: Run) -> tuple[Outcome, str]:
    if run.interrupted:
        return "interrupted", run.stop_reason or "interrupted"
    if run.stop_reason is not None:
        return "stopped", run.stop_reason
    if run.steps_done:
        return "finished", f"all {run.total_env_steps:,} environment steps are done"
    return "finished", "its 1 epoch is done" if run.total_epochs == 1 else f"all {run.total_epochs:,} epochs are done"


def _summary(run: Run, outcome: Outcome, reason: str, final: dict[str, float]) -> RunSummary:
    return RunSummary(
        outcome=outcome,
        reason=reason,
        epochs=run.epoch,
        env_steps=run.env_steps,
        updates=run.updates,
        seconds=run.seconds,
        final_evaluation=final,
        best_score=run.best_score,
        best_epoch=run.best_epoch,
    )
