"""Finds whose code raised an exception: Maze's own, the user's, or that of a third-party package."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from maze_core.base.bundled import packages

_CALLED_BY_MAZE = frozenset({
    "gymnasium", "numpy", "torch", "pluggy", "stevedore", "pydantic", "pydantic_core", "typer", "click", "yaml", "rich",
    "safetensors", "tensorboard", "packaging", "imageio", "ray", "optuna", "minari", "h5py", "PIL", "cloudpickle",
    "_frozen_importlib", "_frozen_importlib_external",
})  # fmt: skip
"""Packages between Maze and third-party code: their exceptions are attributed to the caller."""


def their_traceback(error: BaseException) -> str:
    """Return the part of a traceback outside Maze and the packages it calls; empty if there is none.

    Causes of the exception that arose elsewhere are left out.
    """
    whole = traceback.TracebackException.from_exception(error)
    return "".join(whole.format()).rstrip() if _keep_theirs(whole, error) else ""


def blame(error: BaseException) -> str:
    """Return file and line that raised an exception outside Maze, such as `mine.py, line 7`; empty for Maze's own."""
    for each in causes(error, "__cause__"):
        if isinstance(each, SyntaxError) and each.filename:
            return f"{Path(each.filename).name}, line {each.lineno}"
        frames = [(frame, line) for frame, line in _theirs(each) if not _is_between(frame)]
        if frames:
            frame, line = frames[-1]
            return f"{Path(frame.f_code.co_filename).name}, line {line}"
    return ""


def caller(error: BaseException) -> str:
    """Return file and line of the innermost code outside Maze on the way to an exception; empty if there is none."""
    steps = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_between(frame)]
    theirs = [step for step in steps if _package(step[0]) not in packages()]
    return f"{Path(theirs[-1][0].f_code.co_filename).name}, line {theirs[-1][1]}" if theirs else ""


def definition(thing: object) -> str:
    """Return where a class or function is written, as `Mine (mine.py, line 7)`; empty where that is not known."""
    try:
        file, (_, line) = inspect.getsourcefile(thing), inspect.getsourcelines(thing)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return ""
    return f"{getattr(thing, '__qualname__', '')} ({Path(file or '').name}, line {line})"


def causes(error: BaseException, *links: str) -> Iterator[BaseException]:
    """Yield an exception and what led to it, each once: an exception may be its own cause.

    `links`: the attributes that are followed, the first that is set; none: `__cause__` and `__context__`.
    """
    seen: set[int] = set()
    led: BaseException | None = error
    while led is not None and id(led) not in seen:
        yield led
        seen.add(id(led))
        led = next((cause for link in links or ("__cause__", "__context__") if (cause := getattr(led, link))), None)


def broken_package(error: BaseException, own: str = "") -> str:
    """Return the third-party package, other than `own`, that raised while it was imported; empty if none did."""
    for each in causes(error, "__cause__"):
        imported = [frame for frame, _ in traceback.walk_tb(each.__traceback__) if frame.f_code.co_name == "<module>"]
        name = str(imported[-1].f_globals.get("__name__", "")).partition(".")[0] if imported else ""
        if name and name not in {own.partition(".")[0], "__main__", *packages()}:
            return name
    return ""


def callers(error: BaseException) -> list[str]:
    """Return the third-party packages in an exception's traceback, the outermost first."""
    names = [_package(frame) for frame, _ in traceback.walk_tb(error.__traceback__) if not _is_between(frame)]
    return list(dict.fromkeys(name for name in names if name not in (*packages(), "__main__")))


def _keep_theirs(shown: traceback.TracebackException, error: BaseException) -> bool:
    """Cut the tracebacks of an exception and its causes to third-party code; return True if any remains."""
    theirs = _theirs(error)
    whole = len(shown.stack)
    shown.__notes__ = None  # they are printed with the error
    if shown.__suppress_context__:
        shown.__context__ = None
    shown.stack = traceback.StackSummary.from_list(shown.stack[whole - len(theirs) :] if theirs else [])
    for name in ("__cause__", "__context__"):
        before, origin = getattr(shown, name), getattr(error, name)
        if before is not None and not _keep_theirs(before, origin):
            setattr(shown, name, None)
    if theirs or isinstance(error, SyntaxError):
        return True
    led = shown.__cause__ or shown.__context__
    if led is None:
        return False
    # Maze raised it itself: only its causes matter.
    vars(shown).update(vars(led))
    return True


def _theirs(error: BaseException) -> list[tuple[FrameType, int]]:
    """Return the frames after Maze's last one, without leading frames of packages that only call third-party code."""
    frames = list(traceback.walk_tb(error.__traceback__))
    last = max((i for i, (frame, _) in enumerate(frames) if _package(frame) in packages()), default=-1)
    frames = frames[last + 1 :]
    while frames and _is_between(frames[0][0]):
        del frames[0]
    return frames


def _is_between(frame: FrameType) -> bool:
    package = _package(frame)
    return package in _CALLED_BY_MAZE or (package in sys.stdlib_module_names and package != "__main__")


def _package(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__", ""))
    if name == "__main__":  # `python -m package.module` is that module
        name = getattr(frame.f_globals.get("__spec__"), "name", name)
    return name.partition(".")[0]
