"""The parameters of RLlib's algorithms as data, so that a configuration is checked and shown without importing RLlib.

`python -m maze_rllib.parameters` writes the data from the installed RLlib.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

FILE = Path(__file__).with_name("parameters.json")
SETTABLE = (
    "training",
    "env_runners",
    "learners",
    "offline_data",
    "reporting",
    "fault_tolerance",
    "resources",
    "debugging",
    "experimental",
    "environment",
    "framework",
    "rl_module",
)
"""The methods of RLlib's configuration whose parameters can be set, unless Maze sets them itself."""
OTHERS = ("callbacks", "evaluation", "multi_agent", "checkpointing", "api_stack", "python_environment")
"""The methods with parameters that Maze takes the place of."""
_SCHEDULES = ("entropy_coeff",)
"""Parameters that take a schedule, which their annotations do not say."""
_WORDS = {bool: "bool", int: "int", float: "float", str: "str", list: "list", tuple: "list", dict: "dict"}
_SCHEDULE = ("typing.list[typing.list[", "typing.list[typing.tuple[")


def titles() -> list[str]:
    """Return the names of the installed RLlib's algorithms: those it registers, and TQC, which it leaves out there."""
    from ray.rllib.algorithms.registry import ALGORITHMS

    return sorted({*ALGORITHMS, "TQC"}, key=str.lower)


@cache
def data() -> dict[str, Any]:
    """Return the data that were written, as `installed` describes them."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def named() -> dict[str, str]:
    """Return the titles of the algorithms in the data by their names, such as `ppo`."""
    return {title.lower(): title for title in data() if title not in ("any", "others", "former")}


def rllib_config(title: str) -> Any:
    """Return RLlib's default configuration of an algorithm."""
    from importlib import import_module

    return getattr(import_module(f"ray.rllib.algorithms.{title.lower()}"), f"{title}Config")()


def signatures(config: Any) -> dict[str, tuple[str, inspect.Parameter]]:
    """Return the parameters of a configuration by name, each with the method that takes it; no former ones."""
    from ray.rllib.utils.from_config import NotProvided

    found: dict[str, tuple[str, inspect.Parameter]] = {}
    for method, parameter in _parameters(config):
        if parameter.default is NotProvided:
            found.setdefault(parameter.name, (method, parameter))
    return found


def installed() -> dict[str, Any]:
    """Return the data of the installed RLlib.

    `any` and each algorithm have parameters as [type, default], an algorithm only those in which it differs. `others`
    are parameters of the methods `OTHERS`, by method. `former` are parameters that RLlib no longer has, with what it
    has instead, which may be empty.
    """
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    general = _described(AlgorithmConfig())
    data: dict[str, Any] = {"any": {name: fact for name, (method, fact) in general.items() if method in SETTABLE}}
    data |= {"others": {each: [] for each in OTHERS}, "former": _former(AlgorithmConfig())}
    for title in titles():
        config = rllib_config(title)
        facts = {name: fact for name, (method, fact) in _described(config).items() if method in SETTABLE}
        data[title] = {name: fact for name, fact in facts.items() if data["any"].get(name) != fact}
        data["former"] |= {name: now for name, now in _former(config).items() if name not in facts}
    for name, (method, _) in general.items():
        if method in OTHERS:
            data["others"][method].append(name)
    return data


def _parameters(config: Any) -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield the parameters of all methods; the most derived class first, as PPO's `training` has its own."""
    for method in (*SETTABLE, *OTHERS):
        for owner in type(config).__mro__:
            function = vars(owner).get(method)
            for parameter in inspect.signature(function).parameters.values() if function else ():
                if parameter.name not in ("self", "kwargs"):
                    yield method, parameter


def _described(config: Any) -> dict[str, tuple[str, list[Any]]]:
    found: dict[str, tuple[str, list[Any]]] = {}
    for name, (method, parameter) in signatures(config).items():
        default = json.loads(json.dumps(_default(config, name), default=lambda value: None))
        found[name] = (method, [_kind(name, parameter.annotation, default), default])
    return found


def _default(config: Any, name: str) -> Any:
    if name in ("model", "model_config"):  # of RLlib's old interface; filled in from other parameters
        return {}
    attribute = {"framework": "framework_str"}.get(name, name)
    try:
        return getattr(config, attribute, None)
    except (ValueError, AttributeError, NotImplementedError):
        return None


def _kind(name: str, annotation: Any, default: Any) -> str:
    """Return the types of a parameter, such as `float|none`; `object` for those that a file cannot hold."""
    words = set(_words(annotation)) | {_WORDS.get(type(default), "none")}
    if name in _SCHEDULES:
        words.add("schedule")
    if words - {"none"} <= {"object"}:
        return "object"
    return "|".join(word for word in (*dict.fromkeys(_WORDS.values()), "schedule", "none") if word in words)


def _words(annotation: Any) -> Iterator[str]:
    origin, text = get_origin(annotation) or annotation, str(annotation).lower()
    if annotation is type(None):
        yield "none"
    elif get_args(annotation) and "Union" in str(origin):
        for each in get_args(annotation):
            yield from _words(each)
    elif origin in _WORDS and "typing.type" not in text:
        yield "schedule" if text.startswith(_SCHEDULE) else _WORDS[origin]
    else:
        yield "object"


def _former(config: Any) -> dict[str, str]:
    """Return the parameters that RLlib takes only to refuse them, or to set another one."""
    from ray.rllib.utils.from_config import NotProvided

    known = signatures(config)
    found: dict[str, str] = {}
    for method, parameter in _parameters(config):
        name = parameter.name
        if parameter.default is NotProvided or name in known or found.get(name) or parameter.default is True:
            continue
        changed = config.copy(copy_frozen=False)
        try:
            getattr(changed, method)(**{name: 7})
        except ValueError as error:
            words = str(error).partition("Use `")[2].partition("`")[0]
            found[name] = words.rpartition("(")[2].partition("=")[0].rstrip(")").rpartition(".")[2]
        else:
            before = vars(config)
            found[name] = next((key for key, value in vars(changed).items() if value == 7 != before.get(key)), "")
    return {name: now if now in known else "" for name, now in found.items()}


def _text(data: dict[str, Any]) -> str:
    """Return the data as JSON with one parameter a line."""
    parts = []
    for part, facts in data.items():
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(fact)}" for name, fact in sorted(facts.items()))
        parts.append(f"  {json.dumps(part)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(_text(installed()), encoding="utf-8")
