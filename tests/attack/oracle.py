"""What a user must see, whatever the input: results, or one clear error."""

from __future__ import annotations

import re
from collections.abc import Collection

from tests.attack.children import Ending

LONGEST = 2000
"""Characters of a line of an error, at most."""
# All but newline and tab, and what reverses the direction of writing or ends a line elsewhere.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_ERROR = re.compile(r"(?m)^error:")


def problems_of(ending: Ending, codes: Collection[int] = (0, 2)) -> list[str]:
    """What is wrong with how a command ended, whatever it was given."""
    if ending.timed_out:
        return [f"it hung: not done after {ending.seconds:.0f} s{_said(ending)}"]
    found = []
    if ending.code not in codes:
        found.append(f"exit {ending.code}{_said(ending)}")
    for text in (ending.out, ending.err):
        if control := _CONTROL.search(text):
            line = text[: control.start()].count("\n")
            found.append(f"prints {control.group()!r} raw: {text.splitlines()[line][:160]!r}")
            break
    if _is_ours(ending.err) or "bug in Maze" in ending.err:
        found.append(f"a traceback{_said(ending)}")
    errors = len(_ERROR.findall(ending.err))
    if ending.code != 0 and not found and errors != 1:
        found.append(f"exit {ending.code} with {errors} lines 'error: …'{_said(ending)}")
    long = max(map(len, ending.err.splitlines()), default=0)
    if long > LONGEST:
        found.append(f"a line of {long:,} characters in its message")
    if ending.left:
        found.append(f"processes left behind: {', '.join(ending.left)}")
    return found


def _said(ending: Ending) -> str:
    lines = [line for line in ending.err.splitlines() if line.strip() and "This is a bug" not in line]
    return f"; its last word: {lines[-1][:200]!r}" if lines else ""


def error_of(ending: Ending) -> str:
    """The message, in a line."""
    return " / ".join(ending.err.splitlines())[:300]


def _is_ours(text: str) -> bool:
    """Whether there is a traceback that leads through Maze; one of the environment's module alone helps its author."""
    files = re.findall(r'^\s*File "([^"]+)"', text, re.MULTILINE)
    ours = [path for path in files if "/site-packages/" in path or "/maze_" in path or "/tests/attack/" in path]
    return "Traceback" in text and (bool(ours) or not files)
