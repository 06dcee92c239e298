"""The env source `jax_games`: pgx's games, in which players act in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, PositiveInt

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.base.terminal_text import shown
from maze_jax import names

if TYPE_CHECKING:
    from maze_actors.agents import MultiAgentEnv

_PREFIX = "pgx:"


class JaxGamesConfig(PluginConfig):
    """The parameters of `jax_games`."""

    id: str = Field(min_length=1)
    """The game, such as `pgx:connect_four`."""
    max_episode_steps: PositiveInt | None = None
    """Moves after which a game is truncated for all players; none: pgx's own end."""
    flatten_boards: bool = True
    """Turn the planes of a board into a vector, as the model mlp needs."""


class JaxGamesSource(Plugin):
    """Games of pgx in JAX: players act in turn, with masks of what is allowed.

    Raises:
        ConfigError: pgx is not installed, or has no such game.
    """

    Config: ClassVar[type[PluginConfig]] = JaxGamesConfig

    @hookimpl
    def make_agents_env(self, config: JaxGamesConfig, seed: int, index: int) -> MultiAgentEnv:
        """Build one game."""
        if names.source_of(config.id) != "pgx":
            raise ConfigError(f"{shown(config.id)} is no game of pgx", "env.id", "Such as pgx:connect_four.")
        from maze_jax.adapters.pgx import Game

        game = Game(config.id.removeprefix(_PREFIX), config.flatten_boards)
        if config.max_episode_steps is None:
            return game
        from maze_actors.agents import LimitedAgents

        return LimitedAgents(game, config.max_episode_steps)

    @staticmethod
    def knows(env_id: str) -> bool:
        """Return True for ids such as `pgx:connect_four`; nothing is imported."""
        return names.source_of(env_id) == "pgx"

    @staticmethod
    def environments() -> list[str]:
        """Return the ids of all games, also where pgx is not installed; nothing is imported."""
        return names.listed(games=True)
