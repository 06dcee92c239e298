"""What a run has unless it is said: the default callbacks, and what an algorithm prefers for the other parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins.config.raw import PARTS, Raw

if TYPE_CHECKING:
    from maze_core.plugins.discovery import Loader


_WITH_DEFAULTS = (*(part for part in PARTS if part != "algorithm"), "callbacks")


def with_preferences(raw: Raw, preset: Raw, load: Loader) -> Raw:
    """Return `raw` with the algorithm's defaults for fields of other parts that exist and are not set.

    If the preset sets such a field, its value replaces the default. It would otherwise be lost with the rest of the
    preset's part when the user names another plugin for that part.

    Raises:
        PluginError: the algorithm has defaults that can never apply.
    """
    result = dict(raw)
    try:
        for kind, values in preferences(load("algorithm", raw["algorithm"]["name"])).items():
            if kind == "callbacks":
                result[kind] = _with_callbacks(raw[kind], values, load)
                continue
            if not isinstance(raw[kind]["name"], str):
                return raw  # the validation reports it
            part = preset.get(kind)
            said = part if isinstance(part, dict) else {}
            plugin = load(kind, raw[kind]["name"])
            known = _known({key: said.get(key, value) for key, value in values.items()}, plugin)
            result[kind] = {**known, **raw[kind]}
    except (ConfigError, KeyError, TypeError):
        return raw  # the validation reports what is wrong with a part
    return result


def _with_callbacks(callbacks: Raw, values: Mapping[str, Mapping[str, Any]], load: Loader) -> Raw:
    """Return the callbacks of a run with defaults for those that it has."""
    result = dict(callbacks)
    for key, wanted in values.items():
        if isinstance(part := callbacks.get(key), dict):
            result[key] = {**_known(wanted, load("callback", part.get("name", key))), **part}
    return result


def _known(values: Mapping[str, Any], plugin: type[Any]) -> Raw:
    """Return the values that are parameters of a plugin."""
    fields = plugin.Config.model_fields
    return {key: value for key, value in values.items() if key in fields}


def preferences(algorithm: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return an algorithm's defaults for other parts; one that needs no critic has `model.critic` none."""
    declared: Mapping[str, Mapping[str, Any]] = getattr(algorithm, "defaults", {})
    name = getattr(algorithm, "__name__", "the algorithm")
    check_defaults(name, declared)
    if "patience" in algorithm.Config.model_fields:
        raise PluginError(
            f"{name}.Config: patience is a parameter of early stopping; write "
            '`defaults = {"callbacks": {"early_stopping": {"patience": 50}}}` for another default'
        )
    if getattr(algorithm, "needs_critic", None) is not False:
        return declared
    return {**declared, "model": {"critic": "none", **declared.get("model", {})}}


def check_defaults(name: str, declared: Any) -> None:
    """Raise PluginError if an algorithm declares defaults that can never apply, whichever plugins a run names."""
    for part, values in declared.items() if isinstance(declared, Mapping) else [(declared, None)]:
        if part not in _WITH_DEFAULTS:
            known = ", ".join(_WITH_DEFAULTS)
            raise PluginError(f"{name}.defaults: {part!r} is none of the parts with defaults, {known}")
        if part != "callbacks" or not isinstance(values, Mapping):
            _check_part(name, part, values)
        else:
            for callback, wanted in values.items():
                _check_part(name, f"callbacks.{callback}", wanted)


def _check_part(name: str, part: str, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise PluginError(f"{name}.defaults: {part} must be a mapping from parameters to values")
    if "name" in values:
        raise PluginError(f"{name}.defaults: {part}.name cannot be one; check `config.{part}` in `check` instead")


def says_its_end(asked: Raw) -> bool:
    """Return True if the user, not a preset, sets the run's end."""
    algorithm = asked.get("algorithm")
    return bool(
        asked.get("steps") or asked.get("max_time") or (isinstance(algorithm, dict) and algorithm.get("n_epochs"))
    )


def names_patience(raw: Raw) -> bool:
    """Return True if plain data sets the patience of early stopping."""
    return any("patience" in part for part in _early_stopping(raw))


def without_patience(raw: Raw) -> None:
    """Let no patience end the run, in place."""
    for part in _early_stopping(raw):
        part["patience"] = 0


def _early_stopping(raw: Raw) -> list[Raw]:
    """Return the parameters of each callback that is the plugin `early_stopping`."""
    callbacks = raw.get("callbacks")
    named = callbacks.items() if isinstance(callbacks, dict) else ()
    return [part for key, part in named if isinstance(part, dict) and part.get("name", key) == "early_stopping"]


DEFAULT_CALLBACKS = ("console", "tensorboard", "jsonl", "best_checkpoint", "early_stopping")
"""In the order in which they are called. `tensorboard` comes with a distribution of its own."""
OBSERVERS = {"tensorboard": "tensorboard"}
"""Those that have no part in acting and may be missing, as `without_missing` takes them."""


def without_uninstalled(
    raw: Raw, assignments: Sequence[tuple[tuple[str, ...], Any]], load: Loader, tell: Callable[[str], None]
) -> Raw:
    """Return a configuration without the default callbacks that are not installed.

    One that an assignment sets stays: an error says what to install for it. `tell` is called with a sentence for each
    callback that is left out.
    """
    callbacks = raw.get("callbacks")
    if not isinstance(callbacks, dict):
        return raw
    kept = dict(callbacks)
    for name in DEFAULT_CALLBACKS:
        part = callbacks.get(name)
        if not isinstance(part, dict) or part.get("name", name) != name or _is_set(name, assignments):
            continue
        try:
            load("callback", name)
        except ConfigError as error:
            tell(f"this run does without the callback {name}. {error.hint or error.message}")
            del kept[name]
        except PluginError:
            continue  # it is installed: its error is reported with all other problems
    return {**raw, "callbacks": kept}


def _is_set(name: str, assignments: Sequence[tuple[tuple[str, ...], Any]]) -> bool:
    whole = [value for path, value in assignments if path == ("callbacks",)]
    deep = any(path[:2] == ("callbacks", name) for path, _ in assignments)
    return deep or any(isinstance(value, dict) and name in value for value in whole)
