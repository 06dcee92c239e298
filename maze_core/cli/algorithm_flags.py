"""The parameters of an algorithm as options of further commands that train with it, such as `maze sweep`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from typer.core import TyperCommand

if TYPE_CHECKING:
    from maze_core.plugins.config.flags import Flag

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_SET = "--set"


def with_algorithm_flags(function: FunctionT) -> FunctionT:
    """Let a command take the options of its algorithm: `--epoch-length 5` for `--set algorithm.epoch_length=5`.

    Its first argument is an algorithm or a run, and it has the option `--set`.
    """
    function.command_class = _WithFlags  # type: ignore[attr-defined]
    return function


class _WithFlags(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, those for the algorithm as values of `--set`."""
        takes_value = {
            spelling: not (getattr(each, "is_flag", False) or getattr(each, "count", False))
            for each in self.get_params(ctx)
            for spelling in (*each.opts, *each.secondary_opts)
            if spelling.startswith("-")
        }
        return super().parse_args(ctx, list(_translated(args, takes_value)))


def _translated(args: list[str], own: Mapping[str, bool]) -> Iterator[str]:
    """Yield the arguments of a command; `own`: its options, and whether each takes a value."""
    left, of_algorithm = list(args), None
    while left:
        token = left.pop(0)
        option, equals, value = token.partition("=")
        if token == "--":  # noqa: S105 — what follows are arguments
            yield from (token, *left)
            return
        if not option.startswith("--") or option in own:
            yield token
            if own.get(option) and not equals and left:
                yield left.pop(0)
            continue
        of_algorithm = of_algorithm or _options(_first_argument(args, own))
        flag = of_algorithm.get(option)
        if flag is None or not (flag.boolean or equals or left):
            yield token  # the parser says what is wrong
        elif flag.boolean:
            yield from (_SET, f"algorithm.{flag.field}={json.dumps(not option.startswith('--no-'))}")
        else:
            parsed = flag.parse(value if equals else left.pop(0))
            yield from (_SET, f"algorithm.{flag.field}={json.dumps(parsed)}")


def _first_argument(args: list[str], own: Mapping[str, bool]) -> str:
    """Return the first argument that is no option, nor the value of one; empty if there is none."""
    value_of_option = False
    for token in args:
        if token.startswith("-") and len(token) > 1:
            value_of_option = own.get(token, False)
        elif value_of_option:
            value_of_option = False
        else:
            return token
    return ""


def _options(target: str) -> dict[str, Flag]:
    """Return the flags of an algorithm, or of that of a run, by their spellings; empty if it is neither."""
    from maze_core.plugins import discovery
    from maze_core.plugins.config.flags import flags

    name = target if target in discovery.names("algorithm") else _of_run(Path(target))
    if name is None:
        return {}
    found = flags(discovery.load("algorithm", name).Config)
    return {spelling: flag for flag in found for spelling in flag.option.split("/")}


def _of_run(folder: Path) -> str | None:
    """Return the algorithm of a run directory; None if it cannot be told."""
    from maze_core.base.errors import MazeError
    from maze_core.plugins.config.plain_yaml import read_yaml
    from maze_core.plugins.config.record import CONFIG

    try:
        algorithm = read_yaml(folder / CONFIG).get("algorithm")
    except (MazeError, OSError):
        return None
    name = algorithm.get("name") if isinstance(algorithm, dict) else None
    return name if isinstance(name, str) else None
