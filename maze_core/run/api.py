"""Start and train runs; `saved_run` opens and resumes saved ones. `RunContext` and the CLI are built on both."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from maze_core.base.errors import ConfigError, LostError, RunError
from maze_core.base.files import write_bytes
from maze_core.base.free_ram import is_about_memory
from maze_core.base.interruption import graceful_interrupts
from maze_core.base.process_state import borrowed_rng, process_turn, torch_threads
from maze_core.base.seeding import draw_seed
from maze_core.base.tolerant_output import to_stderr, tolerant_output
from maze_core.plugins import discovery
from maze_core.plugins.config.record import ID
from maze_core.plugins.config.run import RunConfig
from maze_core.plugins.discovery import describe
from maze_core.plugins.extensions import the_claim
from maze_core.run.building import initialize
from maze_core.run.loop import train as train_loop
from maze_core.run.report import RunSummary
from maze_core.run.run import Run
from maze_core.run.saved.run_dir import NETWORK, check_disk_space, create_run_dir, discard_run_dir, lock, remove_run_dir
from maze_core.run.saved.run_record import describe_run, note_summary, observers, spaces_of, write_config

PICTURES = "maze.pictures"
"""The entry-point group for drawing: `network` is called with the policy and a title, and returns an SVG."""

_LOGS_BYTES = 2_000_000
_TO_FINISH = 2.0
"""Seconds that an update has after SIGTERM before it is given up."""


@process_turn()
@tolerant_output()
def start(
    config: RunConfig,
    run_dir: Path | None = None,
    init_from: Path | None = None,
    *,
    preset: str | None = None,
) -> Run:
    """Build a new run and its directory. Close the run when done with it.

    Args:
        config: the complete configuration; a missing seed is drawn.
        run_dir: the run's own folder, new or empty; None: one below `runs/`.
        init_from: a run directory from which the policy's parameters and normaliser statistics are loaded.
        preset: name of the preset contained in `config`, for the record.

    Raises:
        ConfigError: the configuration does not fit; nothing has been stepped.
    """
    if config.seed is None:
        config = config.model_copy(update={"seed": draw_seed()})
    here = Path.cwd()  # an environment may change it
    run = Run(config, preset=preset or None)
    try:
        with torch_threads(config.threads):
            initialize(run, init_from)
        _create_directory(run, run_dir, Path() if Path.cwd() == here else here)
    except BaseException:
        run.close()
        raise
    return run


def _create_directory(run: Run, run_dir: Path | None, here: Path) -> None:
    config = run.config
    run.run_dir = create_run_dir(run_dir, config.env_title, config.algorithm.name, run.seed, here)
    try:
        # Each parameter and its two moments, in `last`, `previous`, `best` and the checkpoint being written.
        needed = 4 * 3 * sum(p.numel() * p.element_size() for p in run.policy.parameters())
        check_disk_space(run.run_dir, needed + run.algorithm.disk_bytes + _LOGS_BYTES)
        describe_run(run)
        _draw(run, run.run_dir / NETWORK)
        record = {
            ID: secrets.token_hex(8),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": run.versions,
            "preset": run.preset,
            "init_from": None if run.init_from is None else str(run.init_from),
            "parameters": run.parameter_counts,
            "observers": observers(run),
            **spaces_of(run),
        }
        write_config(run, run.run_dir, record)
        # From here on the run can be resumed, whenever it is killed.
        with borrowed_rng(run):
            run.saving.store("last")
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
    title, who = f"{run.config.algorithm.name} on {run.config.env_title}", "Maze"
    try:
        if (claim := the_claim(PICTURES, "network")) is None:
            return
        who = claim.origin
        svg: str = discovery.import_claim(claim)(run.policy, title)
    except Exception as error:  # noqa: BLE001 — whatever the code of others raises
        to_stderr(f"{who} could not draw the network: {describe(error)}")
    else:
        write_bytes(file, svg.encode())


@contextmanager
def training_session(run: Run) -> Iterator[None]:
    """Hold what a run needs from the process while it trains: its lock, threads, random states, signals, output."""
    with ExitStack() as stack:
        stack.enter_context(process_turn(training=str(run.run_dir or run.config.env_title)))
        stack.enter_context(tolerant_output())
        if run.run_dir is not None:
            stack.enter_context(lock(run.run_dir))
            run.environments.keep_log(run.run_dir)
        stack.enter_context(torch_threads(run.config.threads))
        stack.enter_context(borrowed_rng(run))
        # Before the signal handlers: whatever they ask for from now on counts.
        run.stop_reason, run.stop_pending, run.interrupted = run.stop_pending, None, False
        run.paused = False
        stack.callback(setattr, run, "terminated", False)
        run.preemption = stack.enter_context(graceful_interrupts(run.interrupt, _TO_FINISH))
        run.environments.on_loss(run.preemption.lose)
        yield


def to_its_end(run: Run) -> RunSummary:
    """Train a run to its end and record in `run.json` how it ended, even after a failure. The run stays open.

    A signal ends it as well, which the summary says. A new run that fails before it has saved anything learnt is
    closed, and leaves no folder: the same call may be repeated.
    """
    run.check_whole()
    run.summary, fruitless = None, False
    try:
        with training_session(run):
            with suppress(RunError):  # a full disk shows soon enough
                note_summary(run)
            try:
                summary = train_loop(run)
            except BaseException as error:
                fruitless = not (run.resumed or run.saving.has_progress) and _would_fail_again(error)
                if not fruitless:
                    with suppress(RunError):  # what ended the run matters more
                        note_summary(run)
                raise
            note_summary(run)
    except Exception as error:
        if fruitless and run.run_dir is not None:
            run.close()
            if remove_run_dir(run.run_dir):
                error.add_note(f"Nothing learnt had been saved, so {run.run_dir} was removed. Its seed was {run.seed}.")
        raise
    return summary


def _would_fail_again(error: BaseException) -> bool:
    """Return True for errors that a repetition meets, too: neither interruptions nor what a cluster has lost."""
    return isinstance(error, Exception) and not isinstance(error, LostError)


def carry_out(run: Run) -> RunSummary:
    """Train a run to its end, then let a signal that came meanwhile have its usual effect.

    The user meant the whole program with it, not this run alone. Otherwise as `to_its_end`.

    Raises:
        KeyboardInterrupt: there was a signal; the run is saved, and `run.summary` says how it ended.
    """
    try:
        summary = to_its_end(run)
    except Exception:
        run.preemption.pass_on()
        raise
    run.preemption.pass_on()
    return summary


def train(
    config: RunConfig,
    run_dir: Path | None = None,
    init_from: Path | None = None,
    *,
    preset: str | None = None,
) -> RunSummary:
    """Train a new run to its end, see `to_its_end`. Arguments and errors as for `start`."""
    with closing(start(config, run_dir, init_from, preset=preset)) as run:
        return to_its_end(run)
