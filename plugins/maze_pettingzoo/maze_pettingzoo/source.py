"""The env source `pettingzoo`: multi-agent environments by PettingZoo's own interfaces."""

from __future__ import annotations

import difflib
import importlib.util
import pkgutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_origin, get_type_hints

from pydantic import Field, JsonValue, PositiveInt

from maze_core import ConfigError, MazeError, Plugin, PluginConfig, RunError, hookimpl
from maze_core.base.foreign_settings import unchanged_variables
from maze_core.base.local_modules import hidden_here
from maze_core.envs.checks import naming
from maze_core.envs.interfaces import with_arrays
from maze_core.plugins.base import given
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.discovery import describe
from maze_pettingzoo.names import (
    all_names,
    found_by_name,
    is_of_pettingzoo,
    missing_package,
    place_of,
    versions_of,
    without_version,
)

if TYPE_CHECKING:
    from maze_actors.agents import MultiAgentEnv

CriticView = Literal["none", "state", "all"]
"""What critics alone see: nothing, the state, or what all agents observe."""
_CONSTRUCTORS = {"aec": "env", "parallel": "parallel_env"}
_NAMES = {*_CONSTRUCTORS.values(), "raw_env"}
_OPTIONS = {"agent_id", "flatten_boards", "score", "elapsed", "critic"}
# Parameters that both kinds of adapters take.


class PettingZooConfig(PluginConfig):
    """A multi-agent environment of PettingZoo."""

    id: str = Field(min_length=1)
    """The environment: `connect_four_v3` or `mpe/simple_spread_v3` of PettingZoo's own, or `package:name`, such as
    `mpe2:simple_spread_v3`. The name is a module with `env` or `parallel_env`, an environment class, or a function that
    is annotated to return one. One of gymnasium, such as `rware:rware-tiny-2ag-v2`, has a Tuple or Dict of spaces, one
    for each agent."""
    kwargs: Annotated[dict[str, JsonValue], Outside.ARGUMENTS] = Field(default_factory=dict)
    """Arguments of its constructor."""
    max_episode_steps: PositiveInt | None = None
    """Steps after which the episode of all agents is truncated: turns where they act in turn; none: the environment's
    own limit."""
    api: Literal["auto", "aec", "parallel"] = "auto"
    """PettingZoo's interface: `aec`: one agent acts at a time; `parallel`: all act at once; `auto`: parallel where the
    environment offers it."""
    agent_id: bool = False
    """Add the agent's number to its observation as the leaf `agent`, one-hot encoded."""
    flatten_boards: bool = True
    """Turn small arrays of three dimensions, such as the planes of a board, into vectors, as the model mlp needs."""
    score: str = "mean"
    """The score of an episode: `mean` or `sum` of the agents' returns, or an agent's name for its return. In a zero-sum
    game mean and sum are 0; the metrics `actor/NAME/return_mean` tell who wins."""

    elapsed: Literal["turn", "round"] = "turn"
    """What the discount counts between two actions of an agent: one `turn`, or the rounds that lie between them, each
    of which is one step of the environment."""
    critic: CriticView = "none"
    """What critics alone see of the whole environment, which makes them centralised: `state`: PettingZoo's `state()`;
    `all`: what all agents observe; `none`: nothing."""


class PettingZooSource(Plugin):
    """Builds multi-agent environments of PettingZoo, AEC and parallel.

    Raises:
        ConfigError: there is no such environment, a dependency is missing, or the constructor refuses the arguments.
    """

    Config: ClassVar[type[PluginConfig]] = PettingZooConfig

    def __init__(self, config: PettingZooConfig, factory: Any = None) -> None:
        super().__init__(config)
        self._constructor, self._api = _maker(config) if factory is None else (factory, config.api)

    @staticmethod
    def knows(env_id: str) -> bool:
        """Return True for an environment of PettingZoo; the module before its colon is imported."""
        package, colon, name = env_id.rpartition(":")
        if not colon:
            return bool(found_by_name(env_id))
        if not name.isidentifier():
            return False
        if is_of_pettingzoo(package):
            return True
        try:
            constructor(PettingZooConfig(name="pettingzoo", id=env_id))
        except ConfigError:
            return False
        return True

    @staticmethod
    def takes(factory: Any) -> bool:
        """Return True for a class or function that makes environments of PettingZoo, which is not called."""
        home = str(getattr(factory, "__module__", ""))
        return is_constructor("", factory) or (isinstance(factory, FunctionType) and is_of_pettingzoo(home))

    @staticmethod
    def of(factory: Any) -> Any:
        """Return a stand-in for this class, which builds environments with `factory`."""
        return given(PettingZooSource, factory)

    @staticmethod
    def environments() -> list[str]:
        """Return the ids of PettingZoo's own environments and of mpe2's, where they are installed."""
        return all_names()

    @hookimpl
    def make_agents_env(self, config: PettingZooConfig, seed: int, index: int) -> MultiAgentEnv:
        """Build one environment."""
        from maze_pettingzoo.adapters import AgentsInTurn, AgentsTogether

        with unchanged_variables():
            from pettingzoo import AECEnv, ParallelEnv

            with _explained(config):
                env = self._constructor(**with_arrays(self._constructor, config.kwargs))
        options: dict[str, Any] = config.model_dump(include=_OPTIONS)
        with naming(f"the environment {config.id}"):  # their spaces are asked for, and some are reset
            if isinstance(env, ParallelEnv) and self._api != "aec":
                return _limited(AgentsTogether(env, **options), config)
            if isinstance(env, AECEnv) and self._api != "parallel":
                return _limited(AgentsInTurn(env, **options), config)
        kind = "parallel" if isinstance(env, ParallelEnv) else "AEC" if isinstance(env, AECEnv) else type(env).__name__
        raise ConfigError(f"{config.id} makes an environment of the kind {kind}", "env.api", "Next: --set env.api=auto")


def _limited(env: MultiAgentEnv, config: PettingZooConfig) -> MultiAgentEnv:
    if config.max_episode_steps is None:
        return env
    from maze_actors.agents import LimitedAgents

    return LimitedAgents(env, config.max_episode_steps)


def _maker(config: PettingZooConfig) -> tuple[Any, str]:
    """Return as `constructor` does, also for an environment of gymnasium with spaces for each agent.

    It is none that this source `knows`: that its parts belong to agents, nothing says but the user.
    """
    if not is_of_pettingzoo(config.id.rpartition(":")[0]) and not found_by_name(config.id):
        from maze_pettingzoo.joint import joint_maker

        if (maker := joint_maker(config.id)) is not None:
            return maker, config.api
    return constructor(config)


def constructor(config: PettingZooConfig) -> tuple[Any, str]:
    """Return the function that builds an environment, and the interface that it is asked for.

    Raises:
        ConfigError: there is none.
    """
    package, name = place_of(config.id)
    with unchanged_variables(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo recommends its registry at each import
        try:
            found = _member(_imported(package), name)
        except ConfigError as error:
            if is_of_pettingzoo(package) and isinstance(error.__cause__, ImportError):
                raise missing_package(config.id, error.__cause__) from None
            raise
    if not isinstance(found, ModuleType):
        if not is_constructor(name, found):
            raise ConfigError(
                f"{config.id} is neither an environment class nor known to return an environment",
                "env.id",
                "Annotate a function of your own: def make() -> pettingzoo.ParallelEnv",
            )
        return found, config.api
    makers = {api: vars(found).get(name) for api, name in _CONSTRUCTORS.items()}
    offered = {api: maker for api, maker in makers.items() if is_constructor(_CONSTRUCTORS[api], maker)}
    if not offered and (versions := versions_of(package, name)):
        raise without_version(config.id, versions)
    api = config.api if config.api != "auto" else "parallel" if "parallel" in offered else "aec"
    if api not in offered:
        there = ", ".join(offered) or "neither `env` nor `parallel_env`"
        raise ConfigError(f"{config.id} has no {api} interface; it has: {there}", "env.api", "Next: --set env.api=auto")
    return offered[api], api


def is_constructor(name: str, found: Any) -> bool:
    """Return True if a member of a module builds environments, which is decided without calling it.

    It is an environment class, a function with one of PettingZoo's names for such functions, or a function that is
    annotated to return an environment. A configuration may come from others, and must not call anything else.
    """
    from pettingzoo import AECEnv, ParallelEnv

    if isinstance(found, type):
        return issubclass(found, AECEnv | ParallelEnv)
    if not isinstance(found, FunctionType):
        return False
    if name in _NAMES:
        return True
    try:
        kind = get_type_hints(found).get("return")
    except Exception:  # noqa: BLE001 — an annotation may be any expression
        return False
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and issubclass(kind, AECEnv | ParallelEnv)


def _imported(module: str) -> ModuleType:
    from maze_core.envs.sources.imports import import_module  # the source is asked about every environment

    return import_module(module, "env.id")


def _member(package: ModuleType, name: str) -> Any:
    """Return a submodule or a member of a package."""
    full = f"{package.__name__}.{name}"
    if hasattr(package, "__path__") and importlib.util.find_spec(full) is not None:
        return _imported(full)
    found = vars(package).get(name)
    if found is None:
        if versions := versions_of(package.__name__, name):
            raise without_version(f"{package.__name__}:{name}", versions)
        known = [each.name for each in _submodules(package)] + [k for k, v in vars(package).items() if callable(v)]
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"Did you mean {' or '.join(f'{package.__name__}:{each}' for each in near)}?" if near else None
        problem = f"{package.__name__} has no environment {name!r}"
        raise ConfigError(problem, "env.id", hidden_here(package.__name__) or hint)
    if not (callable(found) or isinstance(found, ModuleType)):
        raise ConfigError(f"{package.__name__}.{name} is neither a module nor a function or class", "env.id")
    return found


def _submodules(package: ModuleType) -> Iterator[Any]:
    yield from pkgutil.iter_modules(getattr(package, "__path__", []))


@contextmanager
def _explained(config: PettingZooConfig) -> Iterator[None]:
    """Turn exceptions of a constructor into errors of the configuration or of the environment."""
    try:
        yield
    except MazeError:
        raise
    except ImportError as exc:
        raise missing_package(config.id, exc) from None
    except TypeError as exc:
        from maze_core.plugins.config.explain import left_out

        raise ConfigError(str(exc), "env.kwargs" if "argument" in str(exc) else "env.id", left_out(exc)) from exc
    except Exception as exc:
        raise RunError(f"the environment {config.id} cannot be built: {describe(exc)}") from exc
