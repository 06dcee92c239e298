"""Faults of environments: how errors name the environment, the moment, and what it did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.envs.checks import MisfitError, VectorRewardError
from maze_core.plugins.discovery import describe
from maze_core.plugins.other_interfaces import old_api

NOT_REPRODUCIBLE = "the environment is not reproducible"
REPLAYED = (
    "An unfinished episode was being replayed from its seed and actions, so that the run goes on where it stopped. The "
    f"same actions had raised nothing before: {NOT_REPRODUCIBLE}.\n"
    "Next: draw all its random numbers from the seed that `reset` is given. What this run has learnt can begin a new "
    "run: maze train ALGORITHM --init-from RUN"
)


@contextmanager
def replay() -> Iterator[None]:
    """Say of an error raised inside that it arose while unfinished episodes were replayed."""
    try:
        yield
    except RunError as exc:
        exc.args = (f"{exc}\n{REPLAYED}",)
        raise


def place(environment: int, episode: int, step: int) -> str:
    """Return the beginning of an error about an environment.

    `step` is the number of the step within its episode, counted from 1, also for a step that failed; 0: the reset with
    which the episode began.
    """
    if step == 0:
        return f"environment {environment} at the reset of episode {episode}"
    return f"environment {environment} (episode {episode}, step {step})"


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Let an error of an environment that is called within name the `place`, or what is called."""
    try:
        yield
    except MazeError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(where, error) from error


def failure(where: str, exc: BaseException) -> MazeError:
    """Return the error of an environment that raised, or returned what cannot be used; `where` is the `place`.

    `exc` is none of Maze's own: those are raised as they are.
    """
    if (wrong := old_api(exc)) is not None:
        return wrong
    if isinstance(exc, VectorRewardError):
        return ConfigError(f"{where} returned {exc}", "env", exc.hint)
    if isinstance(exc, MisfitError):
        return RunError(f"{where} returned {exc}")
    if isinstance(exc, SystemExit):
        return RunError(f"{where} called sys.exit({exc.code!r})")
    return RunError(f"{where} raised {describe(exc)}")
