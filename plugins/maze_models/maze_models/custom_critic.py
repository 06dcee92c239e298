"""A state critic from a user's own code, for the policy of any bundled model."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core import ConfigError, Plugin, PluginConfig, Policy, hookimpl
from maze_core.plugins.base import given, not_given
from maze_models.custom import build_encoder

if TYPE_CHECKING:
    from gymnasium import Space


class CustomCriticConfig(PluginConfig):
    """A critic that was passed as a class, a function or a module."""

    source: str = ""
    """Where it is defined, as `module:name`. For information only: it is never imported from here."""


class CustomCritic(Plugin):
    """Replaces the model's state critic by a user's own network, passed from Python.

    The network is an encoder as `maze_models.custom` describes it; a value head is attached. `CustomCritic.of`
    binds this class to a network.

    Raises:
        ConfigError: there is no network, for example when a recorded configuration is opened without it.
    """

    Config: ClassVar[type[PluginConfig]] = CustomCriticConfig

    def __init__(self, config: CustomCriticConfig, source: Any = None) -> None:
        super().__init__(config)
        if source is None:
            raise not_given("critic", config.source, "callbacks.custom_critic")
        self._source = source

    @staticmethod
    def of(source: Any) -> Any:
        """Return a stand-in for this class, bound to a module, module class or function."""
        return given(CustomCritic, source)

    @hookimpl(wrapper=True)
    def build_policy(
        self, observation_space: Space[Any], action_space: Space[Any], config: PluginConfig
    ) -> Generator[None, Any, Any]:
        """Replace the critic of the policy that the model built."""
        policy = yield
        if not isinstance(policy, Policy) or not policy.has_critic:
            raise ConfigError(
                "there is no state critic to replace: the model has none, or it is a custom policy",
                where="critic",
                hint='Leave `critic` out, or set the override "model.critic" to "separate".',
            )
        policy.replace_critic(build_encoder(self._source, observation_space, action_space))
        return policy
