"""The parts of a run as passed from Python: names, mappings, configuration models, or Python objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError
from maze_core.collect.policies.base import build_policy_plugin
from maze_core.collect.policies.said_classes import said_classes
from maze_core.envs.sources.factory import FactorySource, FunctionWrapper
from maze_core.models.mlp import MlpConfig
from maze_core.plugins import discovery
from maze_core.plugins.base import origin
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.env_door import EnvSources
from maze_core.plugins.config.peers import meant
from maze_core.plugins.config.run import EvaluationConfig
from maze_core.plugins.config.schedules import Schedule, written

if TYPE_CHECKING:
    from maze_core.collect.policies.base import ActingPolicy
    from maze_core.plugins.config.run import RunConfig
    from maze_core.plugins.discovery import Loader
    from maze_core.run.run import Run

Part = str | Mapping[str, Any] | PluginConfig | type[Any]
"""A plugin by name, by name and parameters, by its configuration, or its class."""

Plain = dict[str, Any]

_ARGUMENTS = ("steps", "seed", "model")
_EVERYWHERE = (
    *_ARGUMENTS,
    *(f"evaluation.{field}" for field in EvaluationConfig.model_fields),
    *(f"model.{field}" for field in MlpConfig.model_fields),
)
# Paths that are meant by their last names, whatever the algorithm is.


class Parts:
    """Turns parts into plain configuration values, and keeps the Python objects that YAML cannot store."""

    def __init__(self) -> None:
        self._classes: dict[tuple[str, str], Any] = {}

    @property
    def load(self) -> Loader:
        """Finds the run's plugin classes: those passed from Python first, then the installed ones."""
        return discovery.overlay(self._classes)

    def flags(
        self, env: Any, algorithm: Any, model: Any, wrappers: Any, critic: Any, runner: Any, callbacks: Any
    ) -> dict[str, Any]:
        """Return the plain values of the parts of a run by path; None: not given. Arguments as of `RunContext`."""
        flags: dict[str, Any] = {"wrappers": self.wrappers(wrappers)} if wrappers else {}
        if env is not None:
            flags["env"] = self.env(env)
        if algorithm is not None:
            flags["algorithm"] = self.plugin("algorithm", algorithm)
        if model is not None:
            flags["model"] = self.model(model)
        if critic is not None:
            flags |= self.critic(critic)
        if runner is not None:
            flags["runner"] = self.plugin("runner", runner)
        return flags | self.callbacks(callbacks)

    def plugin(self, kind: str, part: Any) -> Plain:
        """Return the plain values of a plugin.

        Raises:
            ConfigError: it is none of the forms of `Part`.
        """
        if isinstance(part, str):
            return {"name": part}
        if isinstance(part, PluginConfig):
            return {**part.model_dump(exclude_unset=True), "name": part.name or _name_of(kind, part)}
        if isinstance(part, Mapping):
            return dict(part)
        if not _is_plugin_class(part):
            raise _wrong(kind, part, "a name, a mapping, a config or a plugin class")
        if reason := discovery.misfit(kind, part):
            raise ConfigError(f"{part.__name__} is no {kind} plugin: {reason}", kind)
        return {"name": self._keep(kind, part.__name__, part)}

    def env(self, env: Any) -> Plain:
        """Return the plain values of the environment: an id, a part, or a callable that returns one."""
        if isinstance(env, str):
            return {"id": env}
        if isinstance(env, Mapping | PluginConfig) or _is_plugin_class(env):
            return self.plugin("env", env)
        if not callable(env):
            raise _wrong("env", env, "an id, a mapping, a config or a callable")
        if (found := EnvSources().source_for(env)) is not None:
            name, source = found
            self._keep("env", name, source.of(env))
            return {"name": name, "id": origin(env)}
        self._keep("env", "factory", FactorySource.of(env))
        return {"name": "factory", "factory": origin(env)}

    def wrappers(self, wrappers: Any) -> list[Plain]:
        """Return the plain values of a list of wrappers."""
        if isinstance(wrappers, str | Mapping) or not hasattr(wrappers, "__iter__"):
            raise _wrong("wrappers", wrappers, "a list of wrappers, the first innermost")
        return [self.wrapper(each) for each in wrappers]

    def wrapper(self, wrapper: Any) -> Plain:
        """Return the plain values of a wrapper: a part, or a callable that wraps an environment."""
        if isinstance(wrapper, str | Mapping | PluginConfig) or _is_plugin_class(wrapper):
            return self.plugin("wrapper", wrapper)
        if not callable(wrapper):
            raise _wrong("wrappers", wrapper, "a name, a mapping, a config or a callable")
        name = getattr(wrapper, "__name__", type(wrapper).__name__).strip("<>")
        return {"name": self._keep("wrapper", name, FunctionWrapper.of(wrapper))}

    def model(self, model: Any) -> Plain:
        """Return the plain values of the model: a part, a module, its class, or a function that returns one."""
        if isinstance(model, str | Mapping | PluginConfig) or _is_plugin_class(model):
            return self.plugin("model", model)
        if not callable(model):
            raise _wrong("model", model, "a name, a mapping, a config or a class")
        self._keep("model", "custom", discovery.load("model", "custom").of(model))
        return {"name": "custom", "source": origin(model)}

    def critic(self, critic: Any) -> Plain:
        """Return the state critic as values by path: a form the model knows, or its own encoder."""
        if isinstance(critic, str):
            return {"model.critic": critic}
        if not callable(critic):
            raise _wrong("critic", critic, "separate, shared, none or a class")
        name = self._keep("callback", "custom_critic", discovery.load("callback", "custom_critic").of(critic))
        return {f"callbacks.{name}": {"name": name, "source": origin(critic)}}

    def callbacks(self, callbacks: Any) -> dict[str, Plain | None]:
        """Return the plain values of callbacks by path."""
        if callbacks is None:
            return {}
        given = as_mapping("callbacks", callbacks, 'Give each a name: callbacks={"mine": …}')
        return {f"callbacks.{name}": self.callback(name, callback) for name, callback in given.items()}

    def callback(self, name: str, callback: Any) -> Plain | None:
        """Return the plain values of a callback of that name: a part, or None to remove a default one."""
        if callback is None:
            return None
        if _is_plugin_class(callback):
            return {"name": self._keep("callback", name, callback)}
        if isinstance(callback, PluginConfig) and not callback.name:
            return {**callback.model_dump(exclude_unset=True), "name": name}
        if not isinstance(callback, str | Mapping | PluginConfig):
            wanted = "a name, a mapping, a config or a class that derives from Plugin"
            raise _wrong(f"callbacks.{name}", callback, wanted)
        return self.plugin("callback", callback)

    def _keep(self, kind: str, name: str, ready: Any) -> str:
        """Keep a Python object under a unique name and return the name."""
        free, number = name, 2
        while self._classes.get((kind, free), ready) is not ready:
            free, number = f"{name}_{number}", number + 1
        self._classes[kind, free] = ready
        return free


def acting_policy(part: Part, run: Run) -> ActingPolicy:
    """Return a policy plugin that acts in the environments of a run.

    Raises:
        ConfigError: there is no such policy, or it does not support the spaces.
    """
    parts = Parts()
    named = parts.plugin("policy", part)
    config = Assembly(said_classes(named, load=parts.load)).part_config("policy", named)
    return build_policy_plugin(config, run.observation_space, run.action_space)


def _is_plugin_class(part: Any) -> bool:
    config = getattr(part, "Config", None)
    return isinstance(part, type) and isinstance(config, type) and issubclass(config, PluginConfig)


def as_mapping(where: str, value: Any, hint: str) -> dict[str, Any]:
    """Return an argument that is a mapping from names as a dict.

    Raises:
        ConfigError: it is something else; the hint says how to write it.
    """
    if not isinstance(value, Mapping):
        raise _wrong(where, value, "a mapping", hint)
    if wrong := [key for key in value if not isinstance(key, str)]:
        raise ConfigError(f"has the key {wrong[0]!r:.80}, which is no text", where, hint)
    return dict(value)


def as_path(where: str, value: Any) -> Path:
    """Return an argument that names a file or folder as a path.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(value, str | PathLike):
        raise _wrong(where, value, "a path")
    return Path(value)


def _plain_value(value: Any) -> Any:
    if isinstance(value, Schedule):
        return written(value)
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, PluginConfig) else str(value)


def as_values(overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return overrides as values by path."""
    return as_mapping("overrides", overrides or {}, 'Write overrides={"algorithm.lr": 0.001}')


def as_texts(overrides: Mapping[str, Any] | None) -> list[str]:
    """Return overrides as `path=value` texts; JSON is valid YAML."""
    values = as_values(overrides)
    return [f"{path}={json.dumps(value, default=_plain_value)}" for path, value in values.items()]


def unknown_argument(name: str, algorithm: Any, arguments: Iterable[str]) -> ConfigError:
    """Return the error about an argument that RunContext does not have; it says where the value belongs.

    `algorithm`: the argument of this name; `arguments`: those that it has.
    """
    plugin = discovery.load("algorithm", algorithm or "ppo") if isinstance(algorithm, str | None) else algorithm
    config = getattr(plugin, "Config", None) or type(plugin)
    known = {f"algorithm.{field}" for field in getattr(config, "model_fields", ())}
    path = meant(name, {*known, *_EVERYWHERE})
    if path is None:
        ways = {each.rpartition(".")[2]: f'overrides={{"{each}": ...}}' for each in known}
        ways |= {each: each for each in arguments if each not in ("self", "others")}
        near = get_close_matches(name, ways, n=1)
        hint = f"Did you mean {ways[near[0]]}?" if near else "Next: help(maze_core.RunContext) lists them."
        return ConfigError("RunContext has no such argument", name, hint)
    if path in _ARGUMENTS:
        return ConfigError(f"is {path} in Maze", name, f"Next: RunContext(..., {path}=...)")
    return ConfigError(f"is {path} in Maze", name, f'Next: RunContext(..., overrides={{"{path}": ...}})')


def _wrong(where: str, part: Any, wanted: str, hint: str | None = None) -> ConfigError:
    got = f"the class {part.__name__}" if isinstance(part, type) else type(part).__name__
    return ConfigError(f"must be {wanted}, got {got}", where, hint)


def _name_of(kind: str, config: PluginConfig) -> str:
    """Return the name of the plugin that a configuration belongs to, searched in the package that defines it."""
    package = type(config).__module__.partition(".")[0]
    neighbours = [
        each.name
        for each in discovery.declarations()
        if each.kind == kind and each.entry_point.module.partition(".")[0] == package
    ]
    names = [name for name in neighbours if discovery.load(kind, name).Config is type(config)]
    if len(names) != 1:
        title = type(config).__name__
        raise ConfigError(f"{title} does not say which plugin it is for", kind, f'Name it: {title}(name="…", …)')
    return names[0]


def as_count(where: str, value: Any) -> int:
    """Return a number of epochs; 0 for None."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"must be a whole number, 0 or more, got {value!r:.80}", where)
    return int(value)


def check_options(*, episodes: int | None = None, workers: int | None = None, **flags: bool | None) -> None:
    """Check options of a call: numbers of 1 or more, and flags; None: not given.

    Raises:
        ConfigError: one is something else, such as a number in place of a flag.
    """
    for name, count in {"episodes": episodes, "workers": workers}.items():
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise ConfigError(f"must be a whole number, 1 or more, got {count!r:.80}", name)
    for name, flag in flags.items():
        if not isinstance(flag, bool | None):
            raise ConfigError(f"must be True or False, got {flag!r:.80}", name)


def wrapper_classes(config: RunConfig) -> list[str]:
    """Return the wrapper classes of a configuration as overrides; a saved run may name only these."""
    named = [(i, getattr(each, "id", None)) for i, each in enumerate(config.wrappers) if each.name == "gymnasium"]
    return [f"wrappers.{i}.id={name}" for i, name in named]
