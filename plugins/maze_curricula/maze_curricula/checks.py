"""The checks of teachers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from maze_devkit.altered import altered, altered_states, saved_and_read
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.process import left_alone
from maze_devkit.subject import Subject, refusal
from maze_environments.parameters import Choice, FloatRange, IntRange, Range

from maze_core import ConfigError, MazeError
from maze_core.base.saved_state import StateError, check_state, form_of
from maze_core.base.seeding import load_random_state, random_state
from maze_core.envs.vector import Episode
from maze_curricula.space import Space
from maze_curricula.teacher import Teacher

if TYPE_CHECKING:
    from maze_core.base.seeding import Values

_NUMBERS: dict[str, Range] = {"size": IntRange(3, 20), "gaps": IntRange(5, 0)}
_REALS: dict[str, Range] = {"wind": FloatRange(0.0, 2.5), "grip": FloatRange(1.0, 0.1)}
_CHOICES: dict[str, Range] = {"floor": Choice(("wood", "ice")), "night": Choice((False, True))}
_SPACES: dict[str, dict[str, Range]] = {
    "integers": _NUMBERS,
    "real numbers": _REALS,
    "choices": _CHOICES,
    "seeds": {"seed": IntRange(0, 99)},
    "all of them": {**_NUMBERS, **_REALS, **_CHOICES},
}
_EPOCHS, _EPISODES = 12, 24
"""Enough for teachers that decide after some hundred episodes."""
_ALTERED = 7
"""Values of a state that are altered, in each space."""


@dataclass
class _Lesson:
    """A teacher with a student that learns what it plays."""

    teacher: Teacher
    space: Space
    rng: np.random.Generator
    form: Any
    skill: float = 0.0
    """From 0 to 1, and rising with each episode."""
    ended: int = 0
    chosen: list[dict[str, Any]] = field(default_factory=list)

    def epochs(self, count: int) -> Iterator[list[dict[str, Any]]]:
        """Play epochs; yield what the teacher chose for each."""
        for _ in range(count):
            given = self.teacher.next(_EPISODES)
            rows = [dict(each) if isinstance(each, Mapping) else each for each in given]
            self.check(rows)
            yield rows
            episodes = [self._played(each) for each in rows]
            means = {name: float(np.mean([each.metrics[name] for each in episodes])) for name in ("success", "kpi")}
            returns = float(np.mean([each.episode_return for each in episodes]))
            logged = {"train/return_mean": returns, "train/success": means["success"], "eval/return_mean": returns}
            self.teacher.see(episodes, logged)
            for name, value in self.teacher.metrics().items():
                if not isinstance(value, int | float) or not math.isfinite(value):
                    raise Failed(f"its metric {name!r} is {value!r}, which is no finite number")

    def check(self, rows: list[Any]) -> None:
        """Raise Failed unless these are the parameters of as many episodes as it was asked for."""
        if len(rows) != _EPISODES:
            raise Failed(f"asked for the parameters of {_EPISODES} episodes, it chose {len(rows)}")
        try:
            for each in rows:
                self.space.check(each, "it")
        except ConfigError as error:
            raise Failed(refusal(error).partition(": ")[2]) from None

    def _played(self, values: Values) -> Episode:
        share = float(self.space.unit(values).mean()) if self.space.numeric else 0.5
        success = float(self.skill >= share)
        self.ended, self.skill = self.ended + 1, min(1.0, self.skill + 0.002)
        returned = self.skill - share + 0.01 * math.sin(self.ended)
        metrics = {"success": success, "kpi": returned}
        return Episode(self.ended % 4, self.ended // 4, returned, 10 + self.ended % 3, metrics, None, dict(values))


def _begun(subject: Subject, part: str) -> _Lesson | None:
    """Return a teacher after `setup`; None if it refuses the space."""
    space, rng, teacher = Space(_SPACES[part]), np.random.default_rng(3), subject.build()
    if not isinstance(teacher, Teacher):
        raise NotApplicable("it is no teacher, see the check `loads`")
    try:
        teacher.setup(space, rng)
    except ConfigError:
        return None
    return _Lesson(teacher, space, rng, form_of(teacher.state))


def _all(subject: Subject) -> Iterator[tuple[str, _Lesson]]:
    """Yield the spaces that it takes."""
    for part in _SPACES:
        if (lesson := _begun(subject, part)) is not None:
            yield part, lesson


def _chooses(subject: Subject) -> None:
    taken = [part for part, lesson in _all(subject) if list(lesson.epochs(_EPOCHS))]
    if not taken:
        raise Failed(f"it refuses every space: {', '.join(_SPACES)}")


def _where_it_chooses(subject: Subject) -> None:
    """Raise NotApplicable if its choices are wrong at once."""
    try:
        for _, lesson in _all(subject):
            list(lesson.epochs(1))
    except Failed as failed:
        raise NotApplicable(f"{failed}, see the check `chooses`") from None


def _repeats(subject: Subject) -> None:
    _where_it_chooses(subject)
    for (part, one), (_, other) in zip(_all(subject), _all(subject), strict=True):
        first = list(one.epochs(_EPOCHS))
        if first != list(other.epochs(_EPOCHS)):
            raise Failed(f"with the same seed and episodes it chooses other parameters from {part}")


def _goes_on(subject: Subject) -> None:
    _where_it_chooses(subject)
    for part, lesson in _all(subject):
        for count in (1, _EPOCHS):
            list(lesson.epochs(count))
            again = _restored(subject, part, lesson)
            here, there = (list(each.epochs(_EPOCHS // 2)) for each in (_copied(subject, part, lesson), again))
            if here != there:
                if here != list(_copied(subject, part, lesson).epochs(_EPOCHS // 2)):
                    raise NotApplicable("its choices differ for the same seed, see the check `repeats`")
                raise Failed(f"with its saved state and random generator it chooses other parameters from {part}")


def _copied(subject: Subject, part: str, lesson: _Lesson) -> _Lesson:
    """Return a lesson that was played as far as this one from its beginning."""
    copy = _begun(subject, part)
    if copy is None:
        raise Failed(f"it takes {part} once, and refuses them then")
    list(copy.epochs(lesson.ended // _EPISODES))
    return copy


def _restored(subject: Subject, part: str, lesson: _Lesson) -> _Lesson:
    """Return the lesson of a new object that has its saved state."""
    other = _begun(subject, part)
    if other is None:
        raise Failed(f"it takes {part} once, and refuses them then")
    state, rng = lesson.teacher.state(), random_state(lesson.rng)
    try:
        read = saved_and_read({"state": state, "rng": rng}, subject.folder / "saved")
        check_state(read["state"], other.form)
    except StateError as error:
        raise Failed(f"its state is not of the form that `state` declares at first: {error}") from None
    other.teacher.load_state(read["state"])
    load_random_state(other.rng, read["rng"])
    other.skill, other.ended = lesson.skill, lesson.ended
    return other


def _altered(subject: Subject) -> None:
    _where_it_chooses(subject)
    for part, lesson in _all(subject):
        list(lesson.epochs(_EPOCHS))
        states = altered(lesson.teacher.state(), most=_ALTERED)
        if not lesson.teacher.state():
            raise NotApplicable("it has no state that is saved")
        for what, changed in states:
            other = _begun(subject, part)
            if other is None or not _takes(other, changed):
                continue
            try:
                list(other.epochs(2))
            except MazeError:
                continue
            except Failed as failed:
                raise Failed(f"it takes {what}, and then {failed}") from None
            except Exception as error:
                raise Failed(f"it takes {what}, and then choosing fails: {type(error).__name__}: {error}") from error


def _takes(lesson: _Lesson, state: Any) -> bool:
    try:
        check_state(state, lesson.form)
        lesson.teacher.load_state(state)
    except MazeError:
        return False
    return True


def _global_state(subject: Subject) -> None:
    with left_alone("a teacher"):
        _where_it_chooses(subject)
        for _, lesson in _all(subject):
            list(lesson.epochs(2))


CHECKS = (
    Check(
        "chooses",
        "`next(count)` returns the parameters of as many episodes, each with a value within its range for every name "
        "of the space, and `metrics` returns finite numbers. `setup` may refuse a space by ConfigError, but not all of "
        "them.",
        "Other parameters end the run that asked for them.",
        "Draw with `self.space.sample(self.rng)` or `self.space.at(point, self.rng)`, which keep within the ranges.",
        _chooses,
    ),
    Check(
        "repeats",
        "The same seed and the same episodes give the same choices.",
        "Otherwise a run cannot be repeated.",
        "Draw all random numbers from `self.rng`.",
        _repeats,
    ),
    Check(
        "goes_on",
        "A new object with the saved state, and the random generator as it was, makes the same further choices.",
        "Runs are interrupted, and have to end as if they had not been.",
        "Return from `state` all that decides the next choices, and declare what varies: "
        "`varies(dict(self.returns), Entries(Number()))`, from `maze_core.base.saved_state`.",
        _goes_on,
    ),
    altered_states(_altered, "A saved state of the teacher"),
    Check(
        "global_state",
        "A teacher leaves random states, threads, signal handlers, environment variables and the working directory "
        "alone.",
        "It runs in the process of the training.",
        "Use `self.rng`.",
        _global_state,
        alone=True,
    ),
)
"""The checks of teachers."""
