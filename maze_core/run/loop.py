"""The training loop, the same for every algorithm."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from maze_core.base.errors import LostError, PluginError, RunError
from maze_core.base.free_ram import is_about_memory
from maze_core.base.interruption import Preempted
from maze_core.base.metrics import ClosedDict
from maze_core.base.terminal_text import argument
from maze_core.data.batch import OwnStep
from maze_core.learn import answers
from maze_core.learn.checks import check_without_losses
from maze_core.run.episodes.evaluation import EvaluationInterrupted
from maze_core.run.episodes.run_evaluation import FINAL_EVALUATION
from maze_core.run.report import RunSummary
from maze_core.run.saved.manifest import CHECKPOINTS

if TYPE_CHECKING:
    from maze_core.run.run import Run

Outcome = Literal["finished", "stopped", "interrupted", "failed"]


def train(run: Run) -> RunSummary:
    """Train until the run's end and evaluate the final parameters.

    Raises:
        RunError: the run cannot continue; a note names the last complete checkpoint, which is kept.
    """
    run.check_whole()
    run.start_clock()
    try:
        run.hooks.on_run_start(run)
        final = _epochs(run)
        run.summary = summary = _summary(run, *_ending(run), final)
    except BaseException as error:
        run.stop_clock()
        if isinstance(error, KeyboardInterrupt | LostError):
            run.saving.fall_back()
        told = _in_plain_words(error)
        _report_failure(run, told)
        if told is error:
            raise
        raise told from None
    run.hooks.on_run_end(run, summary)
    run.stop_clock()
    return summary


def _epochs(run: Run) -> dict[str, float]:
    """Train to the end of the run and return the final evaluation; empty if a signal did not leave time for it."""
    try:
        if not run.state.epoch_trained:
            run.check_pause()
        while run.stop_reason is None and not run.finished:
            _epoch(run)
            run.save_last()
        if run.interrupted and not run.terminated and not run.paused:
            run.progress.tell("evaluating the final parameters; press Ctrl-C again to skip this")
        return run.evaluate(FINAL_EVALUATION)
    except EvaluationInterrupted:
        return {}
    except Preempted:
        run.saving.fall_back()
        run.stop_reason = f"{run.stop_reason}; the update in progress was given up"
        return {}
    finally:
        run.preemption.settle()


def _epoch(run: Run) -> None:
    """Train one epoch, evaluate the policy and tell the observers.

    An interruption leaves the epoch unfinished. The checkpoint stores its progress, and a resumed run completes it. An
    update that cannot be finished in time is given up: the checkpoint then holds the state of the one before it.
    """
    algorithm, learner, compute_loss, repeated = run.algorithm, run.learner, run.hooks.compute_loss, run.repeated
    learner.check_networks()
    run.take_values(taken=True)
    if repeated is not None:
        repeated.begin_epoch()
    scheduled = algorithm.scheduled
    started, steps, updates, batched = time.perf_counter(), run.env_steps, run.updates, False
    try:
        while run.updates_remain:
            scheduled.follow(run)
            if not algorithm.warm_up():
                break
            scheduled.follow(run)  # steps may have been taken
            learner.set_rates(answers.lr_factor(algorithm, run.fraction_done), scheduled.config)
            for batch in answers.batches(algorithm):
                if isinstance(batch, OwnStep):
                    learner.take(batch)
                    continue
                batched = True
                rows = batch if learner.others is None else learner.share_of(batch)
                if repeated is None or not repeated.step(rows):
                    learner.step(compute_loss(run.policy, rows), batch.group, batch.objective)
            learner.check()
            run.side_learners.learn(run.state.updates_in_epoch, run.epoch_length)
            run.count_update()
            run.saving.keep()
            run.check_time()
        if run.epoch_trained:
            _check_steps(run)
            if not batched and run.updates > updates:
                check_without_losses(run.hooks, algorithm)
            speed = _speed(run, time.perf_counter() - started, steps, updates)
            # Evaluate before the metrics are cleared: after an interruption the checkpoint must hold them.
            results = answers.epoch_metrics(algorithm) | run.evaluate(run.epoch + 1)
            losses = learner.epoch_metrics() | run.side_learners.epoch_metrics()
            numbers = {f"schedule/{name}": float(x) for name, x in scheduled.numbers().items()}
            metrics = run.statistics.epoch_metrics() | losses | speed | numbers | results
            run.histograms |= run.statistics.histograms
            run.statistics.closed = True
            run.end_epoch()
            report = run.report(run.epoch, run.hooks.on_metrics(run, metrics))
            run.take_values(taken=False)
            run.hooks.on_epoch_end(run, report)
    except EvaluationInterrupted:
        run.take_values(taken=False)
        run.save_last()
        raise
    finally:
        run.take_values(taken=False)


def _check_steps(run: Run) -> None:
    """Raise PluginError if steps alone end the run and its algorithm counts none."""
    if run.total_env_steps and not run.total_epochs and not run.env_steps:
        raise PluginError(
            f"{run.config.algorithm.name} has counted no environment steps in an epoch, so a run of "
            f"{run.total_env_steps:,} steps would never end\nNext: --epochs instead of --steps; or let the algorithm "
            "call run.count_env_steps."
        )


def _speed(run: Run, elapsed: float, steps: int, updates: int) -> dict[str, float]:
    """Return steps and updates per second of an epoch that began at these counts; evaluation does not count."""
    return {
        "time/env_steps_per_second": (run.env_steps - steps) / elapsed,
        "time/updates_per_second": (run.updates - updates) / elapsed,
    }


def _in_plain_words(error: BaseException) -> BaseException:
    """Return the error itself, or one that says what to do if memory ran out."""
    if not (isinstance(error, Exception) and is_about_memory(error)):
        return error
    reason = str(error).partition("\n")[0] or type(error).__name__
    return RunError(f"not enough memory for a training step: {reason}\nNext: smaller rollouts or batches.")


def _report_failure(run: Run, error: BaseException) -> None:
    """Tell the observers that the run has failed, and the user which checkpoint remains."""
    interrupted = isinstance(error, KeyboardInterrupt)
    reason = "interrupted immediately" if interrupted else str(error).partition("\n")[0] or type(error).__name__
    run.summary = _summary(run, "interrupted" if interrupted else "failed", reason, {})
    run.hooks.on_run_end(run, run.summary)
    resumable = run.saving.saved_epoch is not None and (run.saving.has_progress or isinstance(error, LostError))
    if isinstance(error, Exception) and run.run_dir is not None and resumable:
        last = run.run_dir / CHECKPOINTS / "last"
        following = f"Next: maze resume {argument(run.run_dir)}"
        error.add_note(f"The last intact checkpoint is {last}, of epoch {run.saving.saved_epoch}. {following}")


def _ending(run: Run) -> tuple[Outcome, str]:
    if run.paused:
        return "stopped", str(run.stop_reason)
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
        final_evaluation=ClosedDict(final),
        best_score=run.best_score,
        best_violation=run.state.best_violation,
        best_epoch=run.state.best_epoch,
    )
