"""Options of several commands: their paths in the configuration, and the parameters of an algorithm as flags."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
        others, flagged = without_flags(args, takes_value)
        rest = super().parse_args(ctx, [*(part for text in flagged for part in (_SET, text)), *others])
        _check_set_once(ctx.params["set_"] or [], len(flagged))
        return rest


def _check_set_once(texts: list[str], flagged: int) -> None:
    """Raise ConfigError if the first `path=value` texts, of flags, and those of `--set` contradict each other."""
    if 0 < flagged < len(texts):
        from maze_core.plugins.config.raw import check_set_once, parse_assignment

        check_set_once(map(parse_assignment, texts[flagged:]), map(parse_assignment, texts[:flagged]))


def without_flags(args: list[str], own: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Return the arguments of a command without the flags of its algorithm, and these as `path=value` texts.

    `own`: the command's options, and whether each takes a value.
    """
    others: list[str] = []
    flagged: list[str] = []
    left, of_algorithm = list(args), None
    while left:
        token = left.pop(0)
        option, equals, value = token.partition("=")
        if token == "--":  # noqa: S105 — what follows are arguments
            return [*others, token, *left], flagged
        if not option.startswith("--") or option in own:
            others.append(token)
            if own.get(option) and not equals and left:
                others.append(left.pop(0))
            continue
        of_algorithm = of_algorithm or _options(_first_argument(args, own))
        flag = of_algorithm.get(option)
        if flag is None or not (flag.boolean or equals or left):
            others.append(token)  # the parser says what is wrong
        elif flag.boolean:
            flagged.append(f"algorithm.{flag.field}={json.dumps(not option.startswith('--no-'))}")
        else:
            parsed = flag.parse(value if equals else left.pop(0))
            flagged.append(f"algorithm.{flag.field}={json.dumps(parsed)}")
    return others, flagged


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


_PLACES = {
    "env_source": "env.name",
    "wrappers": "wrappers",
    "model": "model.name",
    "runner": "runner.name",
    "learners": "learners",
    "seed": "seed",
    "steps": "steps",
    "max_time": "max_time",
    "epochs": "algorithm.n_epochs",
    "patience": "callbacks.early_stopping.patience",
}


def placed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the given options, by path."""
    return {_PLACES[key]: _value(key, given) for key, given in options.items() if given is not None}


def callbacks_named(names: Sequence[str]) -> dict[str, Any]:
    """Return the names of callback plugins or classes `module:Class`, by path; a class has its own name as the key.

    Raises:
        ConfigError: two have the same.
    """
    found: dict[str, Any] = {}
    for name in names:
        path = f"callbacks.{name.rpartition(':')[2]}.name"
        if path in found:
            from maze_core.base.errors import ConfigError

            hint = f"Next: --set callbacks.ANOTHER.name={name}"
            raise ConfigError(f"two callbacks would have the name {name.rpartition(':')[2]}", "--callback", hint)
        found[path] = name
    return found


def env_layer(source: str | None, env_id: str | None) -> dict[str, Any]:
    """Return the part `env` of a configuration: without an id for an env source that has none, or the id alone."""
    given = {"name": source, "id": env_id}
    return {key: value for key, value in given.items() if value is not None}


def _value(option: str, given: Any) -> Any:
    from maze_core.plugins.config.plain_yaml import given_value

    if option == "wrappers":
        return [{"name": each.strip()} for each in given.split(",") if each.strip()]
    if not isinstance(given, str) or _PLACES[option].endswith(".name"):
        return given
    return given_value(given, f"--{option}")
