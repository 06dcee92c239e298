"""The env source `jax`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import gymnasium
from pydantic import Field, JsonValue, PositiveInt

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.base.terminal_text import shown
from maze_core.plugins.config.external_fields import Outside
from maze_jax import names

if TYPE_CHECKING:
    from maze_jax.simulator import Simulator
    from maze_jax.stepping import Stepping

VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]


class JaxConfig(PluginConfig):
    """The parameters of `jax`."""

    id: str = Field(min_length=1)
    """Library and environment, such as `gymnax:CartPole-v1` or `brax:ant`."""
    kwargs: Annotated[dict[str, JsonValue], Outside.ARGUMENTS] = Field(default_factory=dict)
    """Arguments of its class, such as `backend` of brax; of `playground`: entries of its configuration."""
    params: Annotated[dict[str, int | float | bool], Outside.ARGUMENTS] = Field(default_factory=dict)
    """Values of its parameters, where the library has them beside arguments: gymnax and craftax."""
    max_episode_steps: PositiveInt | None = None
    """Steps after which an episode is truncated; none: the library's limit. A limit within an environment stays."""
    tensors: bool | None = None
    """Hand tensors to torch, so that rollouts stay on the device of JAX; none: where that is no CPU."""


class JaxSource(Plugin):
    """Simulators in JAX: gymnax, brax, MuJoCo Playground, jumanji, craftax and navix, many at once.

    Raises:
        ConfigError: a package is missing, or it has no such environment or argument.
    """

    Config: ClassVar[type[PluginConfig]] = JaxConfig

    def __init__(self, config: JaxConfig) -> None:
        super().__init__(config)
        self._compiled: dict[tuple[str, int], Stepping] = {}
        """By configuration and number of environments: what was built before is not compiled again."""

    @hookimpl
    def make_vector_env(self, config: JaxConfig, num_envs: int, seed: int, purpose: str) -> VectorEnv:
        """Build the environments."""
        key = config.model_dump_json(), num_envs
        if key not in self._compiled:
            self._compiled[key] = self._built(config, num_envs, purpose)
        from maze_jax.pool import Pool
        from maze_jax.start import on_cpu

        return Pool(self._compiled[key], seed, not on_cpu() if config.tensors is None else config.tensors)

    def _built(self, config: JaxConfig, num_envs: int, purpose: str) -> Stepping:
        simulator = simulator_of(config)
        from maze_jax.purity import check_repeats
        from maze_jax.stepping import Stepping

        if purpose == "check" and not self._compiled:
            check_repeats(simulator)
        limit = simulator.limit if config.max_episode_steps is None else config.max_episode_steps
        return Stepping(simulator, num_envs, limit)

    @staticmethod
    def knows(env_id: str) -> bool:
        """Return True for ids such as `gymnax:CartPole-v1`; nothing is imported."""
        return names.source_of(env_id) not in ("", "pgx")

    @staticmethod
    def environments() -> list[str]:
        """Return the ids of all environments, also of libraries that are not installed; nothing is imported."""
        return names.listed(games=False)


def simulator_of(config: JaxConfig) -> Simulator:
    """Return the environment as functions of JAX.

    Raises:
        ConfigError: a package is missing, or it has no such environment, argument or parameter.
    """
    library, _, name = config.id.partition(":")
    if not JaxSource.knows(config.id):
        known = ", ".join(f"{each}:" for each in names.IDS if each != "pgx")
        hint = "Next: --env-source jax_games" if library == "pgx" else "Such as gymnax:CartPole-v1."
        raise ConfigError(f"{shown(config.id)} does not begin with a library: {known}", "env.id", hint)
    adapter = importlib.import_module(f"maze_jax.adapters.{library}")
    return adapter.simulator(name, config.kwargs, config.params)  # type: ignore[no-any-return]
