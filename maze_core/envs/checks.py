"""Checks of what environments are and return, cheap enough for every step, and the errors about them.

An error names the environment, the moment, and what it did.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.base.terminal_text import shown
from maze_core.base.tree import Tree
from maze_core.envs.spaces import ROLES, leaves
from maze_core.plugins.closing import release
from maze_core.plugins.discovery import describe, missing
from maze_core.plugins.other_interfaces import old_api

MakeEnv = Callable[[int], gymnasium.Env[Any, Any]]
"""Returns the environment of a number."""

CORRECT_IT = "Correct the environment, or its observation_space."

_LARGEST = float(np.finfo(np.float32).max)


class MisfitError(ValueError):
    """A returned value that cannot be used as it is. The message is the end of a sentence: `… returned` it.

    Args:
        message: what was returned.
        row: the first row in which it is wrong, of batched values.
    """

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row


class VectorRewardError(MisfitError):
    """A reward of several numbers: one for each objective, or for each agent.

    Args:
        reward: what was returned.
        count: how many numbers it has.
        members: the parts of the action space, 0 where it has none; as many as numbers are those of agents.
    """

    def __init__(self, reward: object, count: int, members: int) -> None:
        super().__init__(f"a reward of {count} numbers, not one: {reward!r:.80}")
        weights = ",".join(["1"] * count)
        self.hint = f"To weigh them: --wrappers scalarize --set 'wrappers.0.weights=[{weights}]'"
        if count == members:
            advice = missing("env", "pettingzoo")
            agents = f"If they belong to {count} agents, as the parts of its action space do: --env-source pettingzoo"
            weighed = "" if isinstance(reward, Mapping) else f"\nFor one policy that acts for all. {self.hint}"
            self.hint = f"{agents}. {advice}{weighed}" if advice else agents + weighed


class UnlikeSpaceError(MisfitError):
    """An observation that does not match its space.

    Args:
        key: the leaf or the branch at which it does not.
        problem: what is wrong there.
        row: as for a `MisfitError`.
    """

    def __init__(self, key: str, problem: str, row: int = 0) -> None:
        place = f"an observation that does not match the observation space at '{key}'"
        super().__init__(f"{place}: {problem}\n{CORRECT_IT}", row)
        self.key, self.problem = key, problem


def all_finite(array: np.ndarray) -> bool:
    """Return True when an array of floats has neither NaN nor infinity."""
    # A sum of squares is finite only where all values are, and costs a third of `isfinite(array).all()`.
    # It overflows for huge finite values, so the slow test decides then.
    flat = array if array.ndim == 1 else array.ravel()
    return math.isfinite(flat.dot(flat)) or bool(np.isfinite(array).all())


def first_bad_row(array: np.ndarray) -> int:
    """Return the first row of `[N, …]` with NaN or infinity."""
    return int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])


def non_finite(what: str, place: str, value: object) -> RunError:
    """Return the error for a number that is not finite."""
    return RunError(f"{place} returned a {what} that is not finite: {str(value)[:80]}")


def is_number(value: Any) -> bool:
    """Return True for a single real number; texts and arrays of one number are none."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            float(value)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return False
    return array.ndim == 0 and array.dtype.kind in "biufO"


def fits_float32(value: float) -> bool:
    """Return True for a number that a float32 holds: not nan, not infinite, and not beyond the largest one."""
    return abs(value) <= _LARGEST


def not_a_number(value: object, action_space: Space[Any] | None = None) -> MisfitError:
    """Return the error for a reward that is no number; `action_space`: of the environment with a single agent."""
    members = len(action_space.spaces) if isinstance(action_space, spaces.Tuple | spaces.Dict) else 0
    if isinstance(value, np.ndarray) and value.size > 1 and value.dtype.kind in "biuf":
        return VectorRewardError(value, value.size, members)
    several = list(value.values()) if isinstance(value, Mapping) and members else value
    if isinstance(several, list | tuple) and len(several) > 1 and all(map(is_number, several)):
        given = value if isinstance(value, Mapping) else np.asarray(value)
        return VectorRewardError(given, len(several), members)
    return MisfitError(f"a reward that is not a number: {value!r:.80}")


def is_set(name: str, flag: Any) -> bool:
    """Return the flag `terminated` or `truncated` as a boolean.

    Raises:
        MisfitError: it is neither a boolean nor 0 or 1.
    """
    if type(flag) in (bool, np.bool_):
        return bool(flag)
    if is_number(flag) and flag in (0, 1):
        return bool(flag)
    raise MisfitError(f"`{name}` that is not a boolean: {flag!r:.80}")


def check_finite(tree: Tree, keys: tuple[str, ...]) -> tuple[str, int] | None:
    """Return the first leaf among `keys` (leaves `[N, …]`) with a non-finite number, and its row; else None."""
    for key in keys:
        if not all_finite(tree[key]):
            return key, first_bad_row(tree[key])
    return None


def check_info(info: object) -> None:
    """Raise MisfitError for an info that is no dict; one without entries says that there is nothing to tell."""
    if type(info) is not dict and not isinstance(info, Mapping):  # the first costs a tenth of the second
        raise MisfitError(f"an info that is no dict: {shown(info)}\nNext: return {{}} where there is nothing to tell.")


def build_alike(make: MakeEnv, indices: range) -> list[gymnasium.Env[Any, Any]]:
    """Return the environments of these numbers; when one fails, close those already built.

    Raises:
        ConfigError: they have different spaces, or two of them are one.
    """
    envs: list[gymnasium.Env[Any, Any]] = []
    try:
        for index in indices:
            envs.append(make(index))
            for role in ROLES:
                name = f"{role}_space"
                first, other = getattr(envs[0], name), getattr(envs[-1], name)
                leaves(other, role)  # unsupported spaces cannot always be compared
                if first != other:
                    raise ConfigError(f"environment {index} has the {name} {other}, environment 0 {first}", where="env")
        check_apart(envs)
    except BaseException:
        release(*envs)
        raise
    return envs


def check_apart(envs: Iterable[Any]) -> None:
    """Raise ConfigError if two of these environments are the same object: a step of one would be one of the other."""
    seen: set[int] = set()
    for number, env in enumerate(envs):
        innermost = id(getattr(env, "unwrapped", env))
        if innermost in seen:
            raise ConfigError(
                f"environment {number} is an earlier one again: the same object was returned twice",
                "env",
                "Next: let each call of make_env, or of the function, build a new environment.",
            )
        seen.add(innermost)


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


def warn_not_replayed() -> None:
    """Warn the caller of `restore` that a replayed episode differs from what was recorded of it."""
    warnings.warn(
        f"an unfinished episode could not be replayed from its seed and actions: {NOT_REPRODUCIBLE}, so this run does "
        "not continue exactly where it stopped",
        RuntimeWarning,
        stacklevel=3,
    )


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
