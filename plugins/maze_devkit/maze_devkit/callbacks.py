"""The checks of callbacks."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core import EpochReport, MazeError, RunSummary, hookimpl
from maze_core.base.foreign_settings import variables_set
from maze_core.plugins.manager import Hooks
from maze_core.plugins.members import Member
from maze_core.run import api
from maze_core.run.saved import saved_run
from maze_devkit import callback_spaces, runs
from maze_devkit.callback_runs import EPOCHS, LEARNING, algorithms, hooks_of, kit_assembly, observes, quiet, started
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.process import left_alone
from maze_devkit.subject import Subject

if TYPE_CHECKING:
    import torch

    from maze_core import Run

_PLANTED = "planted by the conformance kit"


class _Raising:
    """Replaces a callback's class; one hook of the callback it builds raises."""

    def __init__(self, subject: Subject, hook: str) -> None:
        self.Config = subject.plugin.Config
        self._plugin, self._hook = subject.walk.plugin or subject.plugin, hook

    def __call__(self, config: Any) -> Any:
        plugin = self._plugin(config)
        setattr(plugin, self._hook, _fail)
        return plugin


@hookimpl
def _fail(*_: object) -> None:
    raise ZeroDivisionError(_PLANTED)


def _trained(subject: Subject, folder: Path) -> RunSummary:
    """Complete a run with the callback, with its output suppressed.

    Raises:
        NotApplicable: it does not finish, see the check `observes`.
    """
    try:
        with quiet(), started(subject, folder) as run:
            return api.carry_out(run)
    except NotApplicable:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise NotApplicable("a run with it fails, see the check `observes`") from error


def _never_stops(subject: Subject) -> None:
    with quiet(), started(subject, subject.folder / "run") as run:
        try:
            api.carry_out(run)
        except Exception as error:
            raise NotApplicable("a run with it fails, see the check `observes`") from error
        _bears_odd_reports(subject, run)
        _bears_a_lost_folder(subject, run)
    hooks = [name for name, value in inspect.getmembers_static(type(subject.build())) if hasattr(value, "maze_impl")]
    for hook in hooks:
        if hook.startswith("on_"):
            _bears_an_error(subject, hook)


def _bears_an_error(subject: Subject, hook: str) -> None:
    """Check that a run continues when the hook raises, and that a warning says why the callback is not called again."""
    ended = f"where its {hook} raises, a run"
    with quiet() as said, started(subject, subject.folder / hook, instead=_Raising(subject, hook)) as run:
        try:
            outcome = api.carry_out(run).outcome
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise Failed(f"{ended} ends with {type(error).__name__}: {error}") from error
    if outcome not in ("finished", "stopped"):  # some callbacks exist to stop runs
        raise Failed(f"{ended} is {outcome}")
    warnings = [line for line in said.getvalue().splitlines() if _PLANTED in line]
    if len(warnings) != 1 or subject.name not in warnings[0]:
        raise Failed(f"{ended} shows {len(warnings) or 'no'} warnings that name it, not one")


def _bears_a_lost_folder(subject: Subject, run: Run) -> None:
    """Check a run whose directory is gone: a file stands in its place, so nothing can be created below it."""
    place, run.run_dir = run.run_dir, subject.folder / "file" / "run"
    run.run_dir.parent.write_text("")
    report = EpochReport(run.epoch + 1, run.env_steps, run.updates, run.seconds, {"eval/return_mean": 1.0})
    try:
        _told(subject, run, (report,), "a run directory that is gone")
    finally:
        run.run_dir = place


def _bears_odd_reports(subject: Subject, run: Run) -> None:
    report = EpochReport(run.epoch + 1, run.env_steps, run.updates, run.seconds, {"eval/return_mean": float("nan")})
    _told(subject, run, (report, EpochReport(report.epoch, 0, 0, 0.0, {})), "a report without a return")
    if run.stop_reason is not None:
        raise Failed(f"it stops the run at a report without a return: {run.stop_reason}")


def _told(subject: Subject, run: Run, reports: Sequence[EpochReport], what: str) -> None:
    """Call the hooks of a new callback. Raises Failed if one of them ends the run."""
    hooks = Hooks([Member("callback", subject.name, subject.build(), subject.claim.origin)], lambda text: None)
    summary = RunSummary("failed", "an error", run.epoch, run.env_steps, run.updates, run.seconds)
    run.stop_reason = None
    try:
        hooks.on_run_start(run)
        for report in reports:
            hooks.on_metrics(run, report.metrics)
            hooks.on_epoch_end(run, report)
            hooks.on_evaluation(run, report)
        hooks.on_run_end(run, summary)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise Failed(f"{what} makes it end the run with {type(error).__name__}: {error}") from error


def _deterministic(subject: Subject) -> None:
    for algorithm in algorithms(subject):
        if names := runs.differing(_learned(subject, "first", algorithm), _learned(subject, "second", algorithm)):
            raise Failed(f"two runs with the same seed differ in {len(names)} tensors, such as {names[0]}")


def _resumes(subject: Subject) -> None:
    for algorithm in algorithms(subject):
        _resumes_with(subject, algorithm)


def _resumes_with(subject: Subject, algorithm: str) -> None:
    whole, folder = _learned(subject, "whole", algorithm), subject.folder / f"split {algorithm}"
    _learned(subject, "split", algorithm, until=1)
    with quiet(), closing(saved_run.reopen(folder, assembly=kit_assembly(subject))) as run:
        api.carry_out(run)
        names = runs.differing(whole, _all_learned(run))
    if names and runs.differing(whole, _learned(subject, "again", algorithm)):
        raise NotApplicable("two runs with the same seed differ, see the check `deterministic`")
    if names:
        raise Failed(
            f"{EPOCHS} epochs, and one epoch plus {EPOCHS - 1} after the run was reopened, differ in {len(names)} of "
            f"{len(whole)} tensors, such as {names[0]}"
        )


def _learned(subject: Subject, folder: str, algorithm: str, until: int | None = None) -> dict[str, torch.Tensor]:
    """Train a run with the callback to its end, or for `until` epochs of it, and return what it learned.

    Raises:
        NotApplicable: the callback does not take part in learning, or the run fails.
    """
    if not set(hooks_of(subject)) & set(LEARNING):
        raise NotApplicable("it only observes")
    try:
        with quiet(), started(subject, subject.folder / f"{folder} {algorithm}", algorithm) as run:
            run.until_epoch = until or run.until_epoch
            api.carry_out(run)
            return _all_learned(run)
    except (MazeError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise NotApplicable("a run with it fails, see the check `observes`") from error


def _all_learned(run: Run) -> dict[str, torch.Tensor]:
    """Return what the run learned, the networks of callbacks included."""
    return runs.learned(run, run.modules)


def _writes(subject: Subject) -> None:
    here, home = subject.folder / "here", subject.folder / "home"
    for folder in (here, home):
        folder.mkdir(parents=True)
    homes = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config")}
    with variables_set(homes), contextlib.chdir(here):
        _trained(subject, subject.folder / "run")
    found = [path.relative_to(subject.folder) for root in (here, home) for path in root.rglob("*")]
    if found:
        raise Failed(f"it writes outside of the run directory: {', '.join(map(str, found[:3]))}")


def _global_state(subject: Subject) -> None:
    with left_alone("a run with it"):
        _trained(subject, subject.folder / "run")


CHECKS = (
    Check(
        "observes",
        "A run of three epochs with it finishes, and none of its hooks fails.",
        "A callback that fails is reported once and then no longer called.",
        "Read the error. `run.run_dir` may be None; a loss wrapper returns a `Loss`.",
        observes,
    ),
    Check(
        "never_stops_a_run",
        "If one of its hooks raises, the run continues and warns once. It also continues if an evaluation is missing "
        "or not a number, or if the run directory cannot be written to.",
        "A failing logger must not end a training run.",
        'Read metrics by `epoch.metrics.get("eval/return_mean")`, let errors of files and servers pass as they are, '
        "raise RunError and call `run.stop` only for what it is there for, and never SystemExit. `on_run_end` is also "
        "called where `on_run_start` failed.",
        _never_stops,
    ),
    Check(
        "deterministic",
        "If it takes part in learning, two runs with it and the same seed end with bit-equal parameters.",
        "Results that cannot be repeated cannot be compared or debugged.",
        "Draw every random number from `generator(run.seed, Purpose.PLUGIN, …)`; do not use global generators, clocks "
        "or the order of sets.",
        _deterministic,
    ),
    Check(
        "resumes",
        "If it takes part in learning, three epochs give bit-equal results to one epoch plus two more after "
        "reopening the run.",
        "Runs are interrupted; a resumed run must give the same result.",
        "Callbacks have no state of their own: keep numbers that change in buffers of a module that `build_modules` "
        "returns, or give them to `SideLearner.keep`, and seed generators anew in each epoch.",
        _resumes,
    ),
    callback_spaces.CHECK,
    Check(
        "writes_in_the_run_directory",
        "It writes only to the run directory.",
        "Two runs would overwrite each other's files, and a moved run directory would be incomplete.",
        "Build every path from `run.run_dir`.",
        _writes,
    ),
    Check(
        "global_state",
        "A run with it leaves random states, threads, signal handlers, environment variables and the working directory "
        "alone.",
        "An observer must not change the run.",
        "Use your own generators, and end threads in `on_run_end`.",
        _global_state,
        alone=True,
    ),
)
"""The checks of callbacks."""
