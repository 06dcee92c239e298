"""Opens saved runs: to train on, or to evaluate and to act."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import CheckpointError, ConfigError, MazeError
from maze_core.base.plain_json import is_count
from maze_core.base.process_state import process_turn, torch_threads
from maze_core.base.saved_state import StateError, check_state, form_of
from maze_core.base.terminal_text import argument, counted, printable
from maze_core.base.tolerant_output import to_stderr, tolerant_output
from maze_core.collect.policies.said_classes import said_classes
from maze_core.plugins.config.assembly import INSTALLED, Assembly
from maze_core.plugins.config.checksummed_yaml import read_checksummed
from maze_core.plugins.config.record import CONFIG, changed_since, read_record
from maze_core.plugins.config.run import RunConfig
from maze_core.plugins.discovery import describe
from maze_core.run.api import to_its_end
from maze_core.run.building import build
from maze_core.run.report import RunSummary
from maze_core.run.run import Run
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.changed_env import differing, naming_changes
from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint
from maze_core.run.saved.found_run import checkpoint_folder, find_run
from maze_core.run.saved.manifest import MODEL, STATE
from maze_core.run.saved.metrics_file import damage, read_metrics
from maze_core.run.saved.run_dir import lock
from maze_core.run.saved.run_record import describe_run, noted_observers, rewrite_config, spaces_of
from maze_core.run.saving import EVALUATED

if TYPE_CHECKING:
    from maze_core.plugins.config.raw import Raw

_ENDS = ("steps", "algorithm.n_epochs")
"""Settings that every saved run can have changed."""
_OTHERWISE = "Resume it with its own configuration, or start a new run from its parameters: --init-from"


@process_turn()
def open_policy(
    run_dir: Path,
    checkpoint: str | None = None,
    overrides: Sequence[str] = (),
    *,
    assembly: Assembly = INSTALLED,
    agreed: Raw | None = None,
) -> Run:
    """Open a saved run with its policy, to evaluate or to act; it cannot train. Close it when done with it.

    Only an evaluation builds its environments and starts workers.

    Parts with effects outside the run, such as the wrapper `record` and the runner `ray`, are left out unless an
    override sets them. So are callbacks that only observe and cannot be used here. A line says so, and another one
    names the distributions whose version is not that of the training.
    `checkpoint` is best, last or previous; None: the best, or the last if there is none. `assembly` makes the
    configuration; `agreed` is the caller's own, for `load_config_to_act`.
    """
    run_dir = find_run(run_dir)
    observers = noted_observers(run_dir)
    assembly = Assembly(said_classes((), overrides, assembly.load))
    config, reaching, missing = assembly.load_config_to_act(run_dir / CONFIG, overrides, observers, agreed)
    if reaching:
        to_stderr(f"note: not used, because they write or connect outside of the run: {', '.join(reaching)}")
    if missing:
        to_stderr(f"note: not used, because they only observe and cannot be used here: {', '.join(missing)}")
    _tell_versions(run_dir)
    folder = checkpoint_folder(run_dir, checkpoint)
    saved = read_checkpoint(folder)
    if config.algorithm.device == "cuda":  # a policy that was trained on a GPU acts where there is none
        config = config.model_copy(update={"algorithm": config.algorithm.model_copy(update={"device": "auto"})})
    run = Run(config, to_act=True)
    try:
        run.run_dir, run.checkpoint = run_dir, folder.name
        _check_spaces(run, run_dir)
        run.build_policy()
        with _fitting(folder, "Open it with its own configuration."):
            check_state(saved.model, run.policy.state_dict(), MODEL)
            check_state(saved.state, form_of(run.state.saved) | EVALUATED, STATE)
            run.policy.load_state_dict(saved.model)
            run.state.epoch, run.state.env_steps = saved.state["epoch"], saved.state["env_steps"]
            run.recall_wrappers(saved.state)
    except BaseException:
        run.close()
        raise
    return run


@process_turn()
@tolerant_output()
def reopen(
    run_dir: Path,
    overrides: Sequence[str] = (),
    checkpoint: str = "last",
    *,
    assembly: Assembly = INSTALLED,
    agreed: Raw | None = None,
    named: Path | None = None,
) -> Run:
    """Open a saved run with the exact state of a checkpoint. Close the run when done with it.

    `assembly` makes the configuration; `agreed` is the caller's own, for `load_saved_config`. `named`: the run that the
    user knows, for messages; None: this one.

    Raises:
        ConfigError: there is no run, it is finished, another process trains in it, or an override does not fit.
        CheckpointError: the checkpoint is missing, damaged, or not of this configuration.
    """
    run_dir = find_run(run_dir)
    named = named or run_dir
    assembly = Assembly(said_classes((), overrides, assembly.load))
    with lock(run_dir):
        config = assembly.load_saved_config(run_dir / CONFIG, overrides, agreed)
        changed: list[str] = []
        if overrides:
            before = read_checksummed(run_dir / CONFIG)
            changed = [path for path, *_ in differing(before, config.model_dump(mode="json"))]
            _check_algorithm(config, before.get("algorithm"), named)
            _check_seed(config.seed, before.get("seed"), named)
        _tell_versions(run_dir)
        folder = checkpoint_folder(run_dir, checkpoint)
        saved = read_checkpoint(folder)
        run = Run(config, preset=read_record(run_dir)["preset"])
        try:
            run.run_dir = run_dir
            _check_spaces(run, run_dir)
            of_env = [path for path in changed if path.partition(".")[0] in ("env", "wrappers")]
            with torch_threads(config.threads), naming_changes(of_env):
                build(run)
                with _fitting(named / folder.relative_to(run_dir), _OTHERWISE, changed):
                    run.saving.load(saved)
            run.saving.saved_epoch = run.epoch if checkpoint == "last" else None
            describe_run(run)
            _check_metrics(run_dir, saved)
            if overrides:
                run.stop_pending = None  # what made it stop may have been changed
            _check_summary(run)
            if overrides:
                rewrite_config(run, run_dir)
        except BaseException:
            run.close()
            raise
    return run


def resume(
    run_dir: Path,
    overrides: Sequence[str] = (),
    checkpoint: str = "last",
    *,
    assembly: Assembly = INSTALLED,
    agreed: Raw | None = None,
) -> RunSummary:
    """Continue a saved run to its end, see `to_its_end`. Arguments and errors as for `reopen`."""
    with closing(reopen(run_dir, overrides, checkpoint, assembly=assembly, agreed=agreed)) as run:
        return to_its_end(run)


def _tell_versions(run_dir: Path) -> None:
    """Print which distributions have another version than when the run was written: its numbers may differ."""
    if changed := changed_since(run_dir):
        to_stderr(f"note: results may differ: the run was written with {', '.join(changed)}")


@contextmanager
def _fitting(folder: Path, hint: str, changed: Sequence[str] = ()) -> Iterator[None]:
    """Turn errors of loading a checkpoint that does not fit this configuration into a plain message.

    `changed`: the settings that differ from those of the saved run, of which one may be why.
    """
    try:
        yield
    except StateError as error:
        raise CheckpointError(f"{_misfit(folder, str(error), changed)}\n{hint}") from error
    except MazeError:
        raise
    except Exception as error:
        reason = printable(describe(error), 500)
        raise CheckpointError(f"{_misfit(folder, reason, changed)}\n{hint}") from error


def _misfit(folder: Path, reason: str, changed: Sequence[str]) -> str:
    checkpoint = f"the checkpoint {printable(folder)} does not fit"
    if not (names := [path for path in changed if path not in _ENDS]):
        return f"{checkpoint} this run: {reason}"
    return f"{', '.join(names)} cannot {'all ' * (len(names) > 1)}change here: {checkpoint} then: {reason}"


def _check_metrics(run_dir: Path, saved: Checkpoint) -> None:
    """Warn about damage in `metrics.jsonl`; training can continue without it."""
    path = run_dir / METRICS_FILE
    try:
        problem = damage(run_dir, read_metrics(path), saved.extents)
    except OSError as error:
        raise ConfigError(f"{path} cannot be used: {error.strerror}") from error
    if problem:
        warnings.warn(problem, RuntimeWarning, stacklevel=3)


def _check_algorithm(config: RunConfig, saved: Any, run_dir: Path) -> None:
    name = saved.get("name") if isinstance(saved, dict) else saved
    if config.algorithm.name != name:
        raise ConfigError(
            f"{run_dir} was trained by {printable(name)}; another algorithm cannot resume it",
            "algorithm.name",
            f"Next: maze train {config.algorithm.name} --init-from {argument(run_dir)}",
        )


def _check_seed(seed: int | None, saved: Any, run_dir: Path) -> None:
    if is_count(saved) and seed != saved:
        raise ConfigError(
            f"was {saved} when {run_dir} began, and cannot change: its unfinished episodes and its random numbers "
            "follow from it",
            "seed",
            f"Leave it out; or begin a new run with the parameters of this one: --init-from {argument(run_dir)}",
        )


def _check_summary(run: Run) -> None:
    """Refuse a finished run, except one that was killed before it recorded its end."""
    summary = read_record(run.run_dir).get("summary") if run.run_dir else None
    if run.run_dir and summary and summary.get("outcome") in ("finished", "stopped"):
        check_end(run, run.run_dir, "resume")


def check_end(run: Run, run_dir: Path, command: str) -> None:
    """Raise ConfigError where nothing is left to train. `run_dir`: of the run that the user named for `command`."""
    if run.stop_pending:
        raise ConfigError(
            f"{run_dir} has stopped: {run.stop_pending}",
            hint="To continue, change the setting that stopped it, for example: "
            f"maze {command} {argument(run_dir)} --set callbacks.early_stopping.patience=0",
        )
    if run.finished:
        further = f"steps={2 * run.env_steps}" if run.steps_done else f"algorithm.n_epochs={2 * run.epoch}"
        raise ConfigError(
            f"{run_dir} is finished ({counted(run.epoch, 'epoch')}, {counted(run.env_steps, 'step')})",
            hint=f"To continue, raise its limit, for example: maze {command} {argument(run_dir)} --set {further}",
        )


def _check_spaces(run: Run, run_dir: Path) -> None:
    record = read_record(run_dir)
    for name, now in spaces_of(run).items():
        if record[name] != now:
            raise ConfigError(f"the environment's {name} was {printable(record[name], 500)} and is now {now}", "env")
