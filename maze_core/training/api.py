"""Start, resume, open and train runs. `RunContext` and the CLI are built on this."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from maze_core.config.run import RunConfig
from maze_core.config.sealed import read_sealed, sealed
from maze_core.errors import CheckpointError, ConfigError, MazeError, RunError
from maze_core.files import write_bytes
from maze_core.models.parameters import parameter_counts
from maze_core.plain_json import is_count, is_number
from maze_core.plugins import discovery
from maze_core.plugins.configuration import dump, load_config_to_act, load_saved_config
from maze_core.plugins.discovery import describe
from maze_core.plugins.manager import to_stderr
from maze_core.seeding import draw_seed
from maze_core.terminal_text import argument, counted, printable
from maze_core.training.checkpoint import Checkpoint, check_finite, read_checkpoint
from maze_core.training.loop import train as train_loop
from maze_core.training.metrics_file import METRICS_FILE, damage, read_metrics
from maze_core.training.process_state import borrowed_rng, graceful_interrupts, process_turn, torch_threads
from maze_core.training.report import RunSummary
from maze_core.training.run import Run, is_about_memory
from maze_core.training.run_dir import (
    CONFIG,
    NETWORK,
    check_disk_space,
    checkpoint_folder,
    create_run_dir,
    discard_run_dir,
    find_run,
    lock,
    read_record,
    versions,
    write_record,
)

if TYPE_CHECKING:
    from maze_core.config.raw import Raw
    from maze_core.plugins.discovery import Loader

PICTURES = "maze.pictures"
"""The entry-point group for drawing: `network` is called with the policy and a title, and returns an SVG."""

_LOGS_BYTES = 2_000_000


@process_turn()
def start(
    config: RunConfig,
    run_dir: Path | None = None,
    init_from: Path | None = None,
    *,
    preset: str | None = None,
    load: Loader = discovery.load,
) -> Run:
    """Build a new run and its directory. Close the run when done with it.

    Args:
        config: the complete configuration; a missing seed is drawn.
        run_dir: the run's own folder, new or empty; None: one below `runs/`.
        init_from: a run directory from which the policy's parameters and normaliser statistics are loaded.
        preset: name of the preset contained in `config`, for the record.
        load: how plugin classes are found.

    Raises:
        ConfigError: the configuration does not fit; nothing has been stepped.
    """
    if config.seed is None:
        config = config.model_copy(update={"seed": draw_seed()})
    run = Run(config, load=load, preset=preset)
    try:
        with torch_threads(config.threads):
            run.build()
            run.check_first_observations()
            if init_from is None:
                run.estimate_statistics()
        if init_from is not None:
            load_parameters(run, init_from)
            run.init_from = find_run(init_from)
        _create_directory(run, run_dir)
    except BaseException:
        run.close()
        raise
    return run


def _create_directory(run: Run, run_dir: Path | None) -> None:
    config = run.config
    run.run_dir = create_run_dir(run_dir, config.env_title, config.algorithm.name, run.seed)
    try:
        # Each parameter and its two moments, in `last`, `previous`, `best` and the checkpoint being written.
        needed = 4 * 3 * sum(p.numel() * p.element_size() for p in run.policy.parameters())
        check_disk_space(run.run_dir, needed + run.algorithm.disk_bytes + _LOGS_BYTES)
        _describe(run)
        _draw(run, run.run_dir / NETWORK)
        _write_config(run)
        record = {
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": run.versions,
            "preset": run.preset,
            "init_from": None if run.init_from is None else str(run.init_from),
            "parameters": run.parameter_counts,
            "observers": _observers(run),
            **_spaces(run),
        }
        write_record(run.run_dir, record)
        # From here on the run can be resumed, whenever it is killed.
        with borrowed_rng(run):
            run.store("last")
    except BaseException as error:
        discard_run_dir(run.run_dir)
        if isinstance(error, OSError | RunError):
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"cannot write to {run.run_dir}: {reason}", "--run-dir") from error
        if isinstance(error, Exception) and is_about_memory(error):
            problem = "not enough memory for a checkpoint"
            raise ConfigError(problem, "model", "Use smaller networks.") from error
        raise


def _draw(run: Run, file: Path) -> None:
    """Draw the network if a plugin for it is installed; a failure only prints a warning."""
    title = f"{run.config.algorithm.name} on {run.config.env_title}"
    for claim in discovery.entries(PICTURES, "network")[:1]:
        try:
            svg: str = discovery.import_claim(claim)(run.policy, title)
        except Exception as error:  # noqa: BLE001 — whatever the code of others raises
            to_stderr(f"{claim.origin} could not draw the network: {describe(error)}")
        else:
            write_bytes(file, svg.encode())


def _describe(run: Run) -> None:
    plugins = {member.origin.split(" ")[0] for member in run.hooks.members if member.origin}
    run.versions = versions(sorted(plugins - {"maze-core"}))
    run.parameter_counts = parameter_counts(run.policy)


def _observers(run: Run) -> dict[str, str]:
    """Return the callbacks that have no part in acting: their keys and the names of their plugins."""
    members = [each for each in run.hooks.members if each.kind == "callback"]
    callbacks = zip(run.config.callbacks, members, strict=True)
    return {key: member.name for key, member in callbacks if not hasattr(member.plugin, "build_policy")}


def _noted_observers(run_dir: Path) -> dict[str, str]:
    noted = read_record(run_dir).get("observers")  # older versions wrote none
    return noted if isinstance(noted, dict) else {}


def _spaces(run: Run) -> dict[str, str]:
    return {"observation_space": str(run.observation_space), "action_space": str(run.action_space)}


def _write_config(run: Run) -> None:
    if run.run_dir is None:
        return
    lines = [f"# {name} {version}" for name, version in run.versions.items()]
    text = "\n".join([dump(run.config), "# Written with:", *lines, ""])
    write_bytes(run.run_dir / CONFIG, sealed(text).encode())


def _rewrite_config(run: Run, run_dir: Path) -> None:
    try:
        _write_config(run)
        write_record(run_dir, {**read_record(run_dir), "observers": _observers(run)})
    except OSError as error:
        raise ConfigError(f"cannot write to {run_dir}: {error.strerror}") from error


def load_parameters(run: Run, source: Path) -> None:
    """Load parameters and normaliser statistics of another run's best checkpoint (else its last) into the policy.

    Raises:
        ConfigError: names or shapes differ; each difference is listed.
    """
    theirs = read_checkpoint(checkpoint_folder(find_run(source), None)).model
    ours = run.policy.state_dict()
    problems = [f"  {name}: this run has no such tensor" for name in theirs.keys() - ours.keys()]
    problems += [f"  {name}: missing from {source}" for name in ours.keys() - theirs.keys()]
    problems += [
        f"  {name}: {tuple(theirs[name].shape)} there, {tuple(ours[name].shape)} here"
        for name in theirs.keys() & ours.keys()
        if theirs[name].shape != ours[name].shape
    ]
    if problems:
        raise ConfigError(
            "\n".join([f"the networks differ from those of {source}:", *sorted(problems)]),
            "--init-from",
            f"Next: train with the model of that run (maze config show {argument(source)}).",
        )
    check_finite(run.policy, theirs, "policy")
    run.policy.load_state_dict(theirs)


@process_turn()
def reopen(
    run_dir: Path,
    overrides: Sequence[str] = (),
    checkpoint: str = "last",
    *,
    load: Loader = discovery.load,
    agreed: Raw | None = None,
) -> Run:
    """Open a saved run with the exact state of a checkpoint. Close the run when done with it.

    `agreed` is the caller's own configuration, for `load_saved_config`.

    Raises:
        ConfigError: there is no run, it is finished, another process trains in it, or an override does not fit.
        CheckpointError: the checkpoint is missing, damaged, or not of this configuration.
    """
    run_dir = find_run(run_dir)
    with lock(run_dir):
        config = load_saved_config(run_dir / CONFIG, overrides, load, agreed)
        if overrides:
            _check_algorithm(config, read_sealed(run_dir / CONFIG).get("algorithm"), run_dir)
        saved = read_checkpoint(checkpoint_folder(run_dir, checkpoint))
        run = Run(config, load=load, preset=read_record(run_dir).get("preset"))
        try:
            run.run_dir = run_dir
            _check_spaces(run)
            with torch_threads(config.threads):
                run.build()
                _restore(run, saved)
            run.saved_epoch = run.epoch if checkpoint == "last" else None
            _describe(run)
            _check_metrics(run_dir, saved)
            if overrides:
                run.stop_pending = None  # what made it stop may have been changed
            _check_end(run)
            if overrides:
                _rewrite_config(run, run_dir)
        except BaseException:
            run.close()
            raise
    return run


def _restore(run: Run, saved: Checkpoint) -> None:
    with _fitting(saved, "Resume it with its own configuration, or start a new run from its parameters: --init-from"):
        torch.Generator().set_state(saved.state["torch_rng"])
        run.load_checkpoint(saved)


@contextmanager
def _fitting(saved: Checkpoint, hint: str) -> Iterator[None]:
    """Turn errors of loading a checkpoint that does not fit this configuration into a plain message."""
    try:
        state = saved.state
        counts = [state["epoch"], state["env_steps"], state["updates_in_epoch"], state["best_epoch"] or 0]
        numbers = [state["seconds"], state["best_score"] or 0.0]
        if not (all(map(is_count, counts)) and all(map(is_number, numbers))):
            raise ValueError("its counters are not numbers")
        if not isinstance(state.get("stop_reason"), str | None):
            raise ValueError("its stop_reason is not a text")
        yield
    except MazeError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint does not fit this run: {printable(describe(error), 500)}\n{hint}"
        ) from error


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


def _check_end(run: Run) -> None:
    """Refuse a finished run, except one that was killed before it recorded its end."""
    summary = read_record(run.run_dir).get("summary") if run.run_dir else None
    if not summary or summary.get("outcome") not in ("finished", "stopped"):
        return
    if run.stop_pending:
        raise ConfigError(
            f"{run.run_dir} has stopped: {run.stop_pending}",
            hint="To continue, change the setting that stopped it, for example: "
            f"maze resume {argument(run.run_dir)} --set algorithm.patience=0",
        )
    if run.finished:
        further = f"steps={2 * run.env_steps}" if run.steps_done else f"algorithm.n_epochs={2 * run.epoch}"
        raise ConfigError(
            f"{run.run_dir} is finished ({counted(run.epoch, 'epoch')}, {counted(run.env_steps, 'step')})",
            hint=f"To continue, raise its limit, for example: maze resume {argument(run.run_dir)} --set {further}",
        )


def _check_spaces(run: Run) -> None:
    record = read_record(run.run_dir) if run.run_dir else {}
    for name, now in _spaces(run).items():
        if record.get(name, now) != now:
            raise ConfigError(f"the environment's {name} was {printable(record[name], 500)} and is now {now}", "env")


@contextmanager
def training_session(run: Run) -> Iterator[None]:
    """Hold what a run needs from the process while it trains: its lock, threads, random states, signal handlers."""
    with ExitStack() as stack:
        stack.enter_context(process_turn(training=str(run.run_dir or run.config.env_title)))
        if run.run_dir is not None:
            stack.enter_context(lock(run.run_dir))
        stack.enter_context(torch_threads(run.config.threads))
        stack.enter_context(borrowed_rng(run))
        stack.enter_context(graceful_interrupts(run.interrupt))
        yield


def carry_out(run: Run) -> RunSummary:
    """Train a run to its end and record in `run.json` how it ended, even after a failure. The run stays open."""
    run.summary = None
    with training_session(run):
        with suppress(RunError):  # a full disk shows soon enough
            _note_summary(run)
        try:
            summary = train_loop(run)
        except BaseException:
            with suppress(RunError):  # what ended the run matters more
                _note_summary(run)
            raise
        _note_summary(run)
    return summary


def _note_summary(run: Run) -> None:
    """Write to `run.json` how the run ended, or that it has not ended."""
    if run.run_dir is None:
        return
    try:
        record = read_record(run.run_dir)
        record["summary"] = None if run.summary is None else asdict(run.summary)
        write_record(run.run_dir, record)
    except OSError as error:
        raise RunError(f"cannot write to {run.run_dir}: {error.strerror}") from None
    except ConfigError as error:
        raise RunError(f"cannot record how the run ended: {error}") from None


def train(
    config: RunConfig,
    run_dir: Path | None = None,
    init_from: Path | None = None,
    *,
    preset: str | None = None,
    load: Loader = discovery.load,
) -> RunSummary:
    """Train a new run to its end. Arguments and errors as for `start`."""
    with closing(start(config, run_dir, init_from, preset=preset, load=load)) as run:
        return carry_out(run)


def resume(
    run_dir: Path,
    overrides: Sequence[str] = (),
    checkpoint: str = "last",
    *,
    load: Loader = discovery.load,
    agreed: Raw | None = None,
) -> RunSummary:
    """Continue a saved run to its end. Arguments and errors as for `reopen`."""
    with closing(reopen(run_dir, overrides, checkpoint, load=load, agreed=agreed)) as run:
        return carry_out(run)


@process_turn()
def open_policy(
    run_dir: Path,
    checkpoint: str | None = None,
    overrides: Sequence[str] = (),
    *,
    load: Loader = discovery.load,
) -> Run:
    """Open a saved run with its policy, to evaluate or to act; it cannot train. Close it when done with it.

    Parts with effects outside the run, such as the wrapper `record` and the runner `ray`, are left out unless an
    override sets them. So are callbacks that only observe and are not installed. A line says so.
    `checkpoint` is best, last or previous; None: the best, or the last if there is none.
    """
    run_dir = find_run(run_dir)
    folder = checkpoint_folder(run_dir, checkpoint)
    config, reaching, missing = load_config_to_act(run_dir / CONFIG, overrides, load, _noted_observers(run_dir))
    if reaching:
        to_stderr(f"note: not used, because they write or connect outside of the run: {', '.join(reaching)}")
    if missing:
        to_stderr(f"note: not used, because they only observe and cannot be imported here: {', '.join(missing)}")
    saved = read_checkpoint(folder)
    run = Run(config, load=load)
    try:
        run.run_dir = run_dir
        _check_spaces(run)
        run.build_policy()
        check_finite(run.policy, saved.model, "policy")
        with _fitting(saved, "Open it with its own configuration."):
            run.policy.load_state_dict(saved.model)
            run.state.epoch, run.state.env_steps = saved.state["epoch"], saved.state["env_steps"]
    except BaseException:
        run.close()
        raise
    return run
