"""What to do about arguments that no configuration can say, such as a table, a function or an array of another type."""

from __future__ import annotations

import re

_WAYS = {
    "env": "returns the environment: def make() -> gymnasium.Env in my_envs.py, then --env my_envs:make, or from "
    "Python RunContext(make, …)",
    "wrappers": "wraps the environment: def wrap(env): … in my_envs.py, then --wrappers my_envs:wrap",
}


def in_code(place: str) -> str | None:
    """Return what to do where an argument is more than text can say; `place`: the setting, such as `env.kwargs.df`."""
    way = _WAYS.get(place.partition(".")[0])
    return None if way is None else f"A table, a function or another object takes a function of your own that {way}"


def left_out(error: TypeError) -> str | None:
    """Return what to do about an environment's constructor that misses arguments; None: it misses none."""
    told = re.search(r"missing .*arguments?: (.*)", str(error))
    names = re.findall(r"'(\w+)'", told[1]) if told else []
    given = " ".join(f"--set env.kwargs.{name}=…" for name in names)
    return f"Next: {given}\n{in_code('env')}" if names else None
