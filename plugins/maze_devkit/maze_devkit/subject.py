"""The plugin under test: its class, its trial settings and its configuration."""

from __future__ import annotations

import functools
import inspect
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from maze_core import ConfigError, MazeError, PluginError
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.kinds import WITHOUT_HOOKS
from maze_core.plugins.manager import Hooks
from maze_core.plugins.members import Member
from maze_devkit.bench import Bench
from maze_devkit.findings import Failed, NotApplicable
from maze_devkit.process import restored
from maze_devkit.whose import told

if TYPE_CHECKING:
    import gymnasium
    from maze_actors.agents import MultiAgentEnv

    from maze_core import PluginConfig

MakeEnv = Callable[[], "gymnasium.Env[Any, Any]"]
AnyEnv = Callable[[], "gymnasium.Env[Any, Any] | MultiAgentEnv"]

FEATURES = 5
"""The width of features that memories are tried with."""
TRIALS = "maze.conformance"
"""The entry-point group of functions that return a plugin's `Trial`, each named `KIND.NAME`."""
_KIT = "maze-devkit"
Share = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Trial:
    """How to test a plugin whose defaults are not enough for a test.

    A distribution provides it with a function. An entry point of the group `maze.conformance` names it by the plugin's
    kind and name: `"algorithm.imitation" = "maze_imitation.conformance:trial"`.

        def trial(case: Case) -> Trial:
            return Trial(parameters={"dataset": str(case.demonstrations())})
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The plugin's own parameters by name: required ones, and sizes for a short run."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Other values of a run's configuration, by path, such as `{"model.name": "cnn"}`."""
    env: AnyEnv | None = None
    """Builds an environment that the plugin supports, of one agent or of several; None: the kit chooses."""
    plugin: Any = None
    """Replaces the class, for a plugin built around a Python object."""
    seconds: float | None = None
    """Most seconds that a check may take; None: the kit's."""
    waived: Mapping[str, str] = field(default_factory=dict)
    """Checks that the plugin does not claim to pass, each with a reason that reports show."""
    shared: Share | None = None
    """Starts what takes seconds to start, such as a server: once for all checks, ended after the last. Only the check
    `global_state` starts without it."""


@dataclass(frozen=True)
class Case:
    """What the function that returns a plugin's `Trial` may use."""

    plugin: Any
    """The plugin class under test."""
    env: MakeEnv
    """Builds the environment of the check, unless the plugin names another."""
    folder: Path
    """An empty folder."""

    def demonstrations(self, episodes: int = 12) -> Path:
        """Record episodes in the environment and return the folder; actions are the best known ones, else random."""
        from maze_devkit.demonstrations import record

        return record(self.env, self.folder / "demonstrations", episodes)


@dataclass(frozen=True)
class Subject:
    """An installed plugin, as seen by one check."""

    claim: discovery.Declaration
    folder: Path
    """An empty folder for this check alone."""
    bench: Bench = field(default_factory=Bench)
    """What it shares with the plugin's other checks."""

    @property
    def kind(self) -> str:
        """The kind of plugin."""
        return self.claim.kind

    @property
    def name(self) -> str:
        """The entry-point name."""
        return self.claim.name

    @cached_property
    def plugin(self) -> type[Any]:
        """The plugin class."""
        try:
            plugin = discovery.import_claim(self.claim)
        except MazeError as error:
            raise NotApplicable("the plugin cannot be imported, see the check `loads`") from error
        if discovery.misfit(self.kind, plugin):
            raise NotApplicable("it is no plugin class, see the check `loads`")
        found: type[Any] = plugin
        return found

    def trial(self, env: AnyEnv) -> Trial:
        """Return the plugin's trial settings for an environment."""
        claims = [each for each in discovery.entries(TRIALS, f"{self.kind}.{self.name}") if self._may_say(each)]
        if not claims:
            return Trial()
        self.folder.mkdir(parents=True, exist_ok=True)
        trial = discovery.import_claim(claims[0])(
            Case(self.plugin, cast("MakeEnv", env), Path(tempfile.mkdtemp(dir=self.folder)))
        )
        if not isinstance(trial, Trial):
            raise Failed(f"{claims[0].entry_point.value} returned {type(trial).__name__}, not a Trial")
        return trial

    def _may_say(self, entry: discovery.Declaration) -> bool:
        """Return True if an entry comes from the plugin's own distribution; this one provides those of the core."""
        mine = _KIT if self.claim.distribution == discovery.CORE else self.claim.distribution
        return entry.distribution == mine

    @property
    def walk(self) -> Trial:
        """The plugin's trial settings when the environment does not matter."""
        try:
            return self.bench.once(self, trial_of)
        except NotApplicable:
            raise
        except Exception as error:
            raise NotApplicable("there is no trial, see the check `builds`") from error

    @property
    def own_trial(self) -> Trial:
        """The plugin's trial settings; an error of the function that returns them is raised as it is."""
        return self.bench.once(self, trial_of)

    @property
    def model(self) -> type[PluginConfig]:
        """The model of the plugin's parameters."""
        if self.kind == "command":
            raise NotApplicable("a command has options instead of a configuration")
        model: type[PluginConfig] = self.plugin.Config
        return model

    @cached_property
    def config(self) -> PluginConfig:
        """A valid configuration of the plugin."""
        try:
            config = self.model.model_validate({"name": self.name, **self.walk.parameters})
        except ValidationError as error:
            first = error.errors()[0]
            raise NotApplicable(f"there is no valid configuration, see the check `builds` ({first['msg']})") from error
        return config.bound_to(self.walk.plugin or self.plugin)

    def build(self) -> Any:
        """Build the plugin with its configuration and check that its hooks fit."""
        plugin = self.construct()
        if hook_problem(self, plugin):
            raise NotApplicable("its hooks do not fit, see the check `hooks`")
        return plugin

    def construct(self) -> Any:
        """Build the plugin without checking its hooks."""
        config = self.config
        try:
            return self.made(config)
        except Exception as error:
            problem = discovery.describe(error)
            raise NotApplicable(f"the plugin cannot be built, see the check `builds` ({problem})") from error

    def made(self, config: PluginConfig) -> Any:
        """Return the plugin's object; a memory is built for features of a width."""
        first = (FEATURES,) if self.kind == "memory" else ()
        return (self.walk.plugin or self.plugin)(*first, config)

    @property
    def single_env(self) -> MakeEnv | None:
        """The environment of one agent that the plugin's trial names, if it does.

        Raises:
            Failed: several agents act in it.
        """
        from maze_actors.agents import MultiAgentEnv

        from maze_devkit.several import kind_of

        make = self.walk.env
        if make is not None and issubclass(kind_of(make), MultiAgentEnv):
            raise Failed(f"its trial names an environment of several agents, where a {self.kind} acts in that of one")
        return cast("MakeEnv | None", make)

    def assembly(self, env: AnyEnv | None = None, more: Mapping[tuple[str, str], Any] | None = None) -> Assembly:
        """Return an assembly with this plugin, an environment as the source `factory`, and `more` classes."""
        classes: dict[tuple[str, str], Any] = {(self.kind, self.name): self.walk.plugin or self.plugin}
        if env is not None:
            classes["env", "factory"] = self._source(env)
        return Assembly(discovery.overlay({**classes, **(more or {})}, self.bench.once(self, _installed)))

    def source(self, env: AnyEnv) -> PluginConfig:
        """Return the configuration of the source `factory` with this environment."""
        from maze_core.envs.sources.factory import FactoryConfig

        return FactoryConfig().bound_to(self._source(env))

    def _source(self, env: AnyEnv) -> Any:
        """Return the source `factory` of environments; of several agents or actors, where the plugin needs them."""
        from maze_actors import TurnEnv
        from maze_actors.agents import MultiAgentEnv

        from maze_core.envs.sources.factory import FactorySource
        from maze_devkit.several import AgentsSource, Seats, Shifts, kind_of
        from maze_devkit.telling import Telling

        kind, make = kind_of(env, look=env is self.walk.env), cast(Any, env)
        if issubclass(kind, MultiAgentEnv):
            return AgentsSource.of(make)
        if getattr(self.plugin, "needs_actors", False) and not issubclass(kind, TurnEnv):
            make = functools.partial(Shifts, make)
        if names := getattr(self.plugin, "info_columns", ()):
            make = functools.partial(Telling, make, names)
        if getattr(self.plugin, "needs_agents", False):
            return AgentsSource.of(functools.partial(Seats, make))
        return FactorySource.of(make)


def trial_of(subject: Subject) -> Trial:
    """Call the function that returns the plugin's trial."""
    from maze_devkit.probes import Walk

    with restored():
        return subject.trial(Walk)


def _installed(subject: Subject) -> discovery.Loader:
    """Return a loader of installed plugins that looks up each of them once."""
    return functools.cache(discovery.load)


def hook_problem(subject: Subject, plugin: Any) -> str:
    """Return what is wrong with a plugin's hook implementations; empty if they fit."""
    if subject.kind in WITHOUT_HOOKS:
        return ""
    try:
        Hooks([Member(subject.kind, subject.name, plugin, subject.claim.origin)])
    except PluginError as error:
        return str(error)
    own = [name for name, value in inspect.getmembers_static(type(plugin)) if hasattr(value, "maze_impl")]
    needed = {
        "env": ("make_env", "make_agents_env", "make_vector_env"),
        "model": ("build_policy",),
        "algorithm": ("compute_loss",),
    }
    wanted = needed.get(subject.kind)
    if wanted and not set(wanted) & set(own):
        return f"it does not implement {' or '.join(wanted)}, which every {subject.kind} has"
    return "" if own or wanted else "it implements no hook, so it would never be called"


def blamed(subject: Subject, error: BaseException) -> str:
    """Return an error with the place in the plugin that it comes from."""
    return told(error, subject.claim.entry_point.module, subject.plugin)


def refusal(error: ConfigError) -> str:
    """Return the first line of a refusal."""
    return str(error).partition("\n")[0]
