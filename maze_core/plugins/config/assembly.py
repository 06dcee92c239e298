"""Builds a valid RunConfig from names, files and overrides: defaults < preset < files < overrides and flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, MazeError, PluginError, combined
from maze_core.base.local_modules import permit
from maze_core.base.tolerant_output import to_stderr
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.checksummed_yaml import read_checksummed
from maze_core.plugins.config.env_door import EnvSources
from maze_core.plugins.config.plain_yaml import read_yaml, to_yaml
from maze_core.plugins.config.preferences import (
    DEFAULT_CALLBACKS,
    OBSERVERS,
    names_patience,
    says_its_end,
    with_preferences,
    without_patience,
    without_uninstalled,
)
from maze_core.plugins.config.presets import Preset, choose, package, preset_file, preset_paths
from maze_core.plugins.config.raw import Raw, assign, assignments_of, check_set_once, merge, parse_assignment
from maze_core.plugins.config.record import LIBRARIES, changed_since
from maze_core.plugins.config.run import RunConfig
from maze_core.plugins.config.validation import Validation

if TYPE_CHECKING:
    from maze_core.plugins.config.permissions import Permissions

DEFAULTS: Raw = {
    "env": {"name": "gymnasium"},
    "model": {"name": "mlp"},
    "runner": {"name": "dev"},
    "callbacks": {name: {} for name in DEFAULT_CALLBACKS},
}
"""The default plugins of a run."""
_BEGUN: Raw = {part: value for part, value in DEFAULTS.items() if part != "env"}
# The id of an environment tells its source.


class Assembly:
    """Makes configurations, each part of which is bound to its plugin class.

    `load` finds the classes: those that a program gives or the user types, and the installed ones.
    """

    def __init__(self, load: discovery.Loader = discovery.load) -> None:
        self.load = load

    @cached_property
    def _permissions(self) -> Permissions:
        """Who allowed what a file of others reaches outside of its run; most runs have no such file."""
        from maze_core.plugins.config.permissions import Permissions

        return Permissions(self.load)

    def assemble(self, *parts: Any, **named: Any) -> RunConfig:
        """Return the configuration of a run; arguments and errors as for `assemble_with_preset`."""
        return self.assemble_with_preset(*parts, **named)[0]

    def assemble_with_preset(
        self,
        algorithm: str | None = None,
        env: str | None = None,
        preset: str = "auto",
        files: Sequence[Path | Raw] = (),
        overrides: Sequence[str] = (),
        flags: Mapping[str, Any] | None = None,
        parent: Path | None = None,
    ) -> tuple[RunConfig, str]:
        """Assemble and validate the configuration of a run; also return the title of the applied preset, or "".

        `env` is an environment id, `files` are YAML files or their contents, `overrides` are `path=value` texts with
        YAML values, `flags` maps paths to other values, `preset` is a name, `auto` (the one that the files name, else
        the one named like the environment, if there is one) or `none`.
        `parent` is the `config.yaml` of the run whose parameters this one starts from: its model and wrappers, and its
        environment if none is named, override the preset.
        Raises one ConfigError that lists every problem, and PluginError if a named plugin cannot be used.
        """
        said = [parse_assignment(text) for text in overrides]
        flagged = assignments_of(flags or {})
        if algorithm is not None:
            flagged.append((("algorithm", "name"), algorithm))
        if env is not None:
            flagged.append((("env", "id"), env))
        check_set_once(said, flagged)
        assignments = said + flagged
        layers = [_file_layer(path, algorithm) for path in files]
        permit([value for _, value in assignments] + layers)
        for path, layer in zip(files, layers, strict=True):
            if not isinstance(path, dict):
                _check_said(layer, assignments, path)
        named = [layer.pop("preset") for layer in layers if "preset" in layer]
        trusted, untrusted = _stack(DEFAULTS, *layers), list[tuple[Raw, Path]]()
        if parent is not None:
            names_env = any("env" in layer for layer in layers) or any(path[0] == "env" for path, _ in assignments)
            layers.insert(0, merge({}, _parent_layer(parent, names_env)))
            untrusted.append((layers[0], parent))

        # Wrappers that the preset brings cannot be counted yet, and do not decide which preset it is.
        countable = [each for each in assignments if each[0][0] != "wrappers"]
        asked = self._with_source(assign(_stack(_BEGUN, *layers), countable))
        wanted = named[-1] if named and preset == "auto" else preset
        found = self.find_preset(wanted, asked)
        chosen = {} if found is None else merge({}, found.content)
        if found is not None and not found.preset_folder.trusted:
            untrusted.append((chosen, found.file))
        for content, source in untrusted:
            _check_said(content, assignments, source)
        raw = self._with_source(assign(_stack(_BEGUN, chosen, *layers), assignments))
        if says_its_end(asked) and not names_patience(asked):
            without_patience(raw)
        # A preset that the user has named, rather than one that applies by itself, may reach outside.
        doubtful = untrusted if wanted == "auto" else [each for each in untrusted if each[0] is not chosen]
        if doubtful:
            self._permissions.check_said(raw, doubtful, assignments, trusted)
        raw = without_uninstalled(raw, assignments, self.load, _note)
        return self._resolve(with_preferences(raw, chosen, self.load)), "" if found is None else found.title

    def find_preset(self, preset: Any, asked: Raw) -> Preset | None:
        """Return the preset of a name for the algorithm and the environment of a configuration, if there is one."""
        if not isinstance(preset, str):
            raise ConfigError("must be the name of a preset, auto or none", "preset")
        algorithm, env = asked.get("algorithm"), asked.get("env")
        name = algorithm.get("name") if isinstance(algorithm, dict) else None
        if preset == "none" or not isinstance(name, str):
            return None
        if preset.endswith(".yaml"):
            return preset_file(Path(preset), name)
        env_id = env.get("id") if isinstance(env, dict) else None
        try:
            plugin = self.load("algorithm", name)
        except ConfigError:
            return None  # the validation reports the unknown name together with all other problems
        source = self._env_source(env)
        preset_folders = preset_paths(name, package(plugin), None if source is None else package(source))
        return choose(preset, env_id if isinstance(env_id, str) else None, name, preset_folders)

    def load_run_config(
        self, source: Path | str | Mapping[str, Any], overrides: Sequence[str] = (), run_dir: Path | None = None
    ) -> RunConfig:
        """Return the complete configuration in a `config.yaml` or a mapping, with `path=value` texts applied.

        `run_dir`: the folder of the run that has a mapping; an error says what has been installed otherwise since then.

        Raises:
            ConfigError: a value does not fit, or the file names a wrapper class that the overrides do not name.
        """
        assignments = _said(overrides)
        if isinstance(source, Mapping):
            raw = dict(source)
        else:
            raw, run_dir = read_checksummed(Path(source)), Path(source).parent
            _check_said(raw, assignments, Path(source))
        before = merge({}, raw)
        kept = without_uninstalled(assign(before, assignments), assignments, self.load, _note)
        return self._resolve(kept) if run_dir is None else self._resolved(kept, run_dir, before)

    def load_saved_config(self, path: Path, overrides: Sequence[str] = (), agreed: Raw | None = None) -> RunConfig:
        """Return the configuration of a saved run, to resume it, with `path=value` texts applied.

        Raises:
            ConfigError: a value does not fit; or it refers to another machine, or to a folder outside the current
                folder and the run's own, and neither the overrides nor `agreed`, the caller's own configuration,
                contain it.
        """
        raw, assignments = merge({}, read_checksummed(path)), _said(overrides)
        _check_said(raw, assignments, path, agreed=agreed)
        permitted = self._permissions.assigned(raw, assignments, path, agreed)
        return self._saved(without_uninstalled(permitted, assignments, self.load, _note), path, raw)

    def load_config_to_act(
        self,
        path: Path,
        overrides: Sequence[str] = (),
        observers: Mapping[str, str] | None = None,
        agreed: Raw | None = None,
    ) -> tuple[RunConfig, list[str], list[str]]:
        """Return the configuration of a saved run, to evaluate or to act, and the parts that were left out.

        The first list names parts that reach beyond the run. The second names those of `observers`, callbacks by key
        with the plugin's name, that are not installed here.

        Raises:
            ConfigError: as for `load_saved_config`.
        """
        raw, assignments = merge({}, read_checksummed(path)), _said(overrides)
        acting = {key: raw.get(key) for key in ("wrappers", "algorithm")}  # callbacks may be left out
        _check_said(acting, assignments, path)
        kept, reaching = self._permissions.for_evaluation(raw, assignments, path, agreed)
        from maze_core.plugins.config.permissions import without_missing

        kept, missing = without_missing(kept, assignments, self.load, {**OBSERVERS, **(observers or {})})
        return self._saved(kept, path, raw), reaching, missing

    def part_config(self, kind: str, raw: Raw, overrides: Sequence[str] = ()) -> PluginConfig:
        """Return the configuration of one part, such as `env`, with `path=value` texts applied."""
        validation = Validation(self.load)
        data = assign({kind: raw}, _said(overrides))
        config = validation.part(kind, kind, data[kind])
        errors = validation.errors + [ConfigError(f"only {kind} can be set here", key) for key in data if key != kind]
        if errors or config is None:
            raise combined(errors)
        return config

    def policy_config(self, policy: str, overrides: Sequence[str] = ()) -> PluginConfig:
        """Return the configuration of a policy plugin by its name, by a class `module:Class`, or by a file it plays.

        A file is played by the plugin that has the name of its suffix, such as `onnx`, with the parameter `file`.
        """
        named = policy in discovery.names("policy") or is_class_name(policy)
        suffix = "" if named else Path(policy).suffix.removeprefix(".")
        typed = {"name": suffix, "file": policy} if suffix else {"name": policy}
        check_set_once(_said(overrides), assignments_of({"policy": typed}))
        return self.part_config("policy", typed, overrides)

    def env_config(
        self, env: Raw, wrappers: Sequence[str] = (), overrides: Sequence[str] = ()
    ) -> tuple[PluginConfig, tuple[PluginConfig, ...]]:
        """Return the configurations of an environment and its wrappers, with `path=value` texts applied.

        Raises one ConfigError that lists every problem.
        """
        validation = Validation(self.load)
        layer, said = merge({}, {"env": env, "wrappers": list(wrappers)}), _said(overrides)
        permit(layer)
        check_set_once(said, assignments_of(layer if wrappers else {"env": env}))
        data = self._with_source(assign(layer, said))
        config = validation.part("env", "env", data["env"])
        wrapped = [each for each in validation.wrappers(data["wrappers"]) if each is not None]
        others = [key for key in data if key not in layer]
        errors = validation.errors + [ConfigError("only env and wrappers can be set here", key) for key in others]
        if errors or config is None:
            raise combined(errors)
        return config, tuple(wrapped)

    def _resolve(self, raw: Raw) -> RunConfig:
        return Validation(self.load).run(raw)

    def _saved(self, raw: Raw, path: Path, before: Raw) -> RunConfig:
        """Return the configuration `raw`, with a seed; `before` is what the file `path` holds."""
        config = self._resolved(raw, path.parent, before)
        if config.seed is None:
            if before.get("seed") is not None:
                raise ConfigError(
                    f"cannot be unset: a saved run has a seed, here {before['seed']}", "seed", "Leave it out."
                )
            raise ConfigError(
                f"is missing in {path}; a saved run has one", "seed", "Next: --set seed=1, or the seed that the run had"
            )
        return config

    def _resolved(self, raw: Raw, run_dir: Path, before: Raw) -> RunConfig:
        """Return the configuration `raw` of a run that was written with the configuration `before`.

        Raises:
            ConfigError: a value does not fit. If it already did not before, the error says what is installed otherwise.
        """
        try:
            return self._resolve(raw)
        except ConfigError as error:
            changed = changed_since(run_dir, LIBRARIES)
            if not changed or self._is_valid(before):
                raise
            hint = f"The run was written with {', '.join(changed)}. Next: install what it was written with."
            raise ConfigError(error.message, error.where, hint) from None

    def _is_valid(self, raw: Raw) -> bool:
        try:
            self._resolve(raw)
        except MazeError:
            return False
        return True

    def _with_source(self, raw: Raw) -> Raw:
        """Return a configuration whose part `env` names an env source: that which has the environment's id."""
        env = raw.get("env", {})
        if not isinstance(env, dict) or env.get("name") is not None:
            return raw
        source = EnvSources(self.load).source_of(env.get("id"))
        return {**raw, "env": {"name": source, **{key: value for key, value in env.items() if key != "name"}}}

    def _env_source(self, env: Any) -> type[Any] | None:
        """Return the class of a run's env source; None if it cannot be used, which the validation reports."""
        name = env.get("name") if isinstance(env, dict) else None
        if not isinstance(name, str):
            return None
        try:
            return self.load("env", name)
        except (ConfigError, PluginError):
            return None


INSTALLED = Assembly()
"""Finds installed plugins alone."""
assemble = INSTALLED.assemble
load_run_config = INSTALLED.load_run_config
part_config = INSTALLED.part_config
env_config = INSTALLED.env_config


def _check_said(files: Any, assignments: Iterable[tuple[tuple[str, ...], Any]], source: Path, **further: Any) -> None:
    """Raise ConfigError if what was read names classes of the user's own that neither assignments nor `further` do."""
    from maze_core.plugins.config.own_classes import check_classes  # few runs are read from files

    check_classes(files, {".".join(path): value for path, value in assignments} | further, source)


def policy_part(part: Any, where: str, owner: PluginConfig) -> PluginConfig:
    """Return the configuration of a policy plugin that a parameter names.

    Args:
        part: the plugin's name, or a mapping with its name and parameters.
        where: the path of the parameter.
        owner: the configuration that has the parameter.
    """
    validation = Validation(owner.named_class)
    config = validation.part("policy", where, {"name": part} if isinstance(part, str) else part)
    if config is None:
        raise combined(validation.errors)
    return config


def asks_for_patience(files: Sequence[Path | Raw], flags: Mapping[str, Any]) -> bool:
    """Return True if files or flags, as of `assemble`, set the patience of early stopping; presets do not count."""
    layers = [_file_layer(source, None) for source in files]
    said = [each for each in assignments_of(flags) if each[0][0] != "wrappers"]  # those of a parent are not here
    return names_patience(assign(_stack(*layers), said))


def is_class_name(text: str) -> bool:
    """Return True if a text has the form `module:Class`."""
    return re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", text) is not None


def dump(config: RunConfig) -> str:
    """Return the complete configuration as YAML, which `load_run_config` reads."""
    return to_yaml(config.model_dump(mode="json"))


def _said(overrides: Sequence[str]) -> list[tuple[tuple[str, ...], Any]]:
    """Return `path=value` texts as assignments; the user has typed the modules that they name."""
    assignments = [parse_assignment(text) for text in overrides]
    permit([value for _, value in assignments])
    return assignments


def _stack(*layers: Mapping[str, Any]) -> Raw:
    result: Raw = {}
    for layer in layers:
        result = merge(result, layer)
    return result


def _file_layer(source: Path | Raw, algorithm: str | None) -> Raw:
    layer = merge({}, source if isinstance(source, dict) else read_yaml(source))
    part = layer.get("algorithm")
    named = part.get("name") if isinstance(part, dict) else None
    if algorithm is not None and named not in (None, algorithm):
        where = None if isinstance(source, dict) else str(source)
        raise ConfigError(f"is for the algorithm {named}, not for {algorithm}", where)
    return layer


def _parent_layer(path: Path, names_env: bool) -> Raw:
    raw = merge({}, read_checksummed(path))
    kept = ("model", "wrappers") if names_env else ("model", "wrappers", "env")
    return {part: raw[part] for part in kept if part in raw}


def _note(text: str) -> None:
    to_stderr(f"note: {text}")
