"""Saved states in which one value is another one, as somebody may have changed them, and what becomes of them."""

from __future__ import annotations

import copy
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from maze_core import MazeError
from maze_core.envs.wrappers import SaidState, lasting_layers, recall, remembered
from maze_core.plugins.discovery import describe
from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from maze_devkit import runs
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.soundness import Env, random_steps
from maze_devkit.subject import Subject

_STEPS = 20
_MOST = 24
"""Altered states of an algorithm that are tried: each takes an epoch."""
_OF_OTHERS = ("env", "rngs", "noise", "memory", "order", "bit_generator")
"""Parts of a state that belong to the core: it checks them itself."""


def altered(state: Any, plain: bool = False, most: int | None = None) -> Iterator[tuple[str, Any]]:
    """Yield copies of a state in which one leaf is another one, and which.

    `plain`: only numbers, texts and None; `most`: of so many leaves, of all parts of the state.
    """
    paths = list(_leaves(state))
    every = 1 if most is None else max(1, math.ceil(len(paths) / most))
    for path in paths[::every]:
        leaf = state
        for key in path:
            leaf = leaf[key]
        if not path or (plain and hasattr(leaf, "dtype")):
            continue
        for name, value in _values(leaf):
            changed = copy.deepcopy(state)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            yield f"{'/'.join(map(str, path))} as {name}", changed


def _values(leaf: Any) -> Iterator[tuple[str, Any]]:
    yield from (("None", None), ("a list", [[None]]), ("a text", "x"))
    if not isinstance(leaf, str):
        yield "-1", -1
    if hasattr(leaf, "dtype"):
        yield from (("an array of another shape", np.asarray(leaf)[None]), ("an array of texts", np.array(["x"])))


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    if not items:
        yield path
    for key, each in items:
        if key not in _OF_OTHERS:
            yield from _leaves(each, (*path, key))


def of_wrappers(build: Callable[[Subject, int], Env]) -> Check:
    """Return the check of wrappers that keep a state across episodes."""

    def check(subject: Subject) -> None:
        with closing(build(subject, 0)) as env:
            if not any(isinstance(layer, SaidState) for layer in lasting_layers(env)):
                raise NotApplicable("it has no state that is saved")
            for _ in random_steps(env, 1, _STEPS):
                pass
            states = remembered(lasting_layers(env))
        for what, changed in altered(states):
            with closing(build(subject, 0)) as env:
                if _takes(env, changed):
                    _steps(env, what)

    return altered_states(check, "A state of a wrapper")


def _takes(env: Env, memory: Any) -> bool:
    try:
        recall(lasting_layers(env), memory)
    except Exception:  # noqa: BLE001 — whatever it is, the state is refused
        return False
    return True


def _steps(env: Env, what: str) -> None:
    try:
        rewards = [reward for _, _, reward, _, _ in random_steps(env, 1, _STEPS)]
    except Exception as error:
        raise Failed(f"it takes {what}, and then its steps fail: {describe(error)}") from error
    if not all(map(math.isfinite, rewards)):
        raise Failed(f"it takes {what}, and then its rewards are not finite")


def _algorithm(subject: Subject) -> None:
    env, folder = runs.walk(subject), subject.folder / "altered"
    runs.train(subject, env, folder / "run", {"algorithm.n_epochs": 2}, until=1)
    saved = read_checkpoint(folder / "run" / "checkpoints" / "last")
    for number, (what, changed) in enumerate(altered(saved.state["algorithm"], plain=True)):
        if number == _MOST:
            return
        copied = shutil.copytree(folder / "run", folder / str(number))
        forged = Checkpoint(saved.model, {**saved.state, "algorithm": changed}, saved.extents)
        write_checkpoint(copied / "checkpoints" / "last", forged)
        try:
            runs.resume(subject, env, copied, 2)
        except MazeError:
            continue
        except Exception as error:
            raise Failed(f"it takes {what}, and then training fails: {describe(error)}") from error
        finally:
            shutil.rmtree(copied)


def saved_and_read(state: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a state as it comes back from a checkpoint, which is written to a folder."""
    write_checkpoint(folder / "checkpoints" / "last", Checkpoint({}, state))
    return read_checkpoint(folder / "checkpoints" / "last").state


def altered_states(check: Callable[[Subject], None], what: str) -> Check:
    """Return the check of saved states in which one value is another one; `what`: whose."""
    return Check(
        "altered_states",
        f"{what} in which one value is another one is refused when it is restored, or taken.",
        "Runs come from others too: what their files hold must not end in an error of your code, epochs later.",
        "Let `state` return values of their later types from the beginning, or declare what varies: "
        "`varies(self.last, OrNone(Count()))`, from `maze_core.base.saved_state`.",
        check,
    )


OF_ALGORITHMS = altered_states(_algorithm, "A saved state of the algorithm")
