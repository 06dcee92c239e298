"""The configuration that the bundled models share, and how a policy is built from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from maze_core.base.errors import ConfigError
from maze_core.envs.actors import is_for_critics, own_actions
from maze_core.models.blocks import initialize_orthogonal
from maze_core.models.distributions.chosen import (
    DISTRIBUTION_SETTINGS,
    DistributionName,
    HeadOptions,
    chosen_family,
    described_choices,
    shared_settings,
)
from maze_core.models.inputs import critic_spaces
from maze_core.models.memory_choice import MEMORY_SETTINGS, NONE, MemoryChoice, build_memory
from maze_core.models.policy import Policy
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.counting import CountsWith, is_set
from maze_core.plugins.config.params import MemoryLayers, MemorySize, MemoryWindow, Width
from maze_core.plugins.extensions import NORMALIZERS, extension

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gymnasium import Space
    from torch import nn

    from maze_core.models.memory import Memory

GroupsConfig = Literal["shared", "per_actor"] | dict[str, tuple[str, ...]]
"""How actors share networks: all of a kind, none, or those of each named group."""
_OF_SAMPLES = ("temperature", "log_std_init")
"""Settings of distributions on which the most likely action does not depend."""


class ModelConfig(PluginConfig):
    """The parameters of every bundled model."""

    critic: Literal["separate", "shared", "none"] = "separate"
    """The state critic: `separate` has its own layers, `shared` uses the layers of the policy, `none` builds no
    critic."""
    distribution: DistributionName = "gaussian"
    """Distribution of the actions: a plugin's name, or `{name: NAME, …}` with its parameters. Actions of a kind that it
    is not for have their default. Maze's own for Boxes are `gaussian`, and with finite bounds `squashed_gaussian` and
    `beta`."""
    log_std_init: Annotated[float, Field(ge=-20, le=2)] = 0.0
    """Log of the initial standard deviation of Gaussians, in units of half the range of a bounded Box."""
    state_dependent_std: bool = False
    """Compute the standard deviation of Gaussians from the observation, instead of learning one per dimension."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Divisor of the logits of discrete actions: above 1 makes them more random, below 1 less."""
    choice_features: dict[str, str] = Field(default_factory=dict)
    """Discrete actions whose choices observations describe, with the leaf [n, F] that has a row of features for each: a
    choice is scored by its features, not by its number. Where several actors act, the action begins with the kind."""
    choice_embedding: Annotated[Width, CountsWith("choice_features")] = 64
    """Units of an embedded choice, where `choice_features` names any."""
    normalize_observations: bool = False
    """Scale float observations by their running mean and standard deviation."""
    orthogonal_init: bool = True
    """Initialise weights orthogonally; false: torch's default initialisation."""
    groups: GroupsConfig = "shared"
    """How the actors of an environment share networks: `shared`: actors with equal spaces do; `per_actor`: none do; or
    the actors of each group by its name."""
    actor_one_hot: bool = True
    """Tell a network that several actors share which of them acts."""
    joint_critic: Annotated[bool, CountsWith("critic", "separate")] = False
    """One separate critic for all actors, which sees the leaves of every kind, zeros where it waits, and who acts;
    false: each group has its own critic."""
    delta_critic: Annotated[bool, CountsWith("critic")] = False
    """In the later turns of a decision, estimate what they add to the value of the turn before, instead of the whole
    value."""
    memory: MemoryChoice = "none"
    """What the policy remembers of an episode: `none`, or the name of a memory plugin, such as `gru`, or a mapping with
    its name and settings. A separate critic has a memory of its own."""
    memory_size: Annotated[MemorySize, CountsWith("memory")] = 64
    """The setting `size` of the memory: its units."""
    memory_layers: Annotated[MemoryLayers, CountsWith("memory")] = 1
    """The setting `layers` of the memory."""
    memory_window: Annotated[MemoryWindow, CountsWith("memory")] = 16
    """The setting `window` of the memory: rows that it looks at, the current one included."""

    def for_kind(self, kind: str) -> Self:
        """Return the parameters for one kind of actor, where several actors act, by the keys of its own actions."""
        return self.model_copy(update={"choice_features": own_actions(self.choice_features, kind)})

    @model_validator(mode="after")
    def _check_distribution(self) -> Self:
        chosen_family(self)
        return self

    @property
    def head_options(self) -> HeadOptions:
        """Return the options of the action heads."""
        return HeadOptions(**self.model_dump(include=set(HeadOptions.model_fields)))

    def make_memory(self, features: int) -> Memory | None:
        """Return a memory for features of a width, or None."""
        return build_memory(self.memory, features, {key: getattr(self, f"memory_{key}") for key in MEMORY_SETTINGS})


M = TypeVar("M", bound=ModelConfig)


def assemble_policy(
    observation_space: Space[Any],
    action_space: Space[Any],
    config: ModelConfig,
    make_encoder: Callable[[], nn.Module],
    *,
    make_critic_encoder: Callable[[], nn.Module] | None = None,
    initialize_encoders: bool = True,
) -> Policy:
    """Return a policy with heads and critic around an encoder; `make_encoder` is called once for each network.

    Args:
        observation_space: of a single environment.
        action_space: of a single environment.
        config: the model's.
        make_encoder: returns an encoder of the leaves of `input_spaces`.
        make_critic_encoder: returns an encoder of the leaves of `critic_spaces`, for a separate critic; None:
            `make_encoder`, so critics see no more than the policy.
        initialize_encoders: False keeps the encoders' own initialisation even where `orthogonal_init` is set.

    Raises:
        ConfigError: there are leaves for critics alone, and the critic shares the policy's layers.
    """
    leaves = critic_spaces(observation_space, action_space)
    if config.critic == "shared" and (hidden := [key for key in leaves if is_for_critics(key)]):
        raise ConfigError(
            f"the observation {hidden[0]!r} is for critics alone, but this critic shares the policy's layers",
            "model.critic",
            "Next: --set model.critic=separate",
        )
    # Statistics belong to positions, and choices have none.
    choices = {its.leaf for its in described_choices(observation_space, action_space, config.choice_features).values()}
    steady = {key: space for key, space in leaves.items() if key not in choices}
    normalizer = None
    if config.normalize_observations:
        of = "normalising observations", "maze-normalizers", "model.normalize_observations"
        normalizer = extension(NORMALIZERS, "observations", *of)(steady)
    encoder = make_encoder()
    critic_encoder = (make_critic_encoder or make_encoder)() if config.critic == "separate" else None
    policy = Policy(
        observation_space,
        action_space,
        encoder,
        critic_encoder,
        has_critic=config.critic != "none",
        head_options=config.head_options,
        normalizer=normalizer,
        make_memory=config.make_memory,
    )
    if config.orthogonal_init:
        _initialize(policy, initialize_encoders)
    return policy


def for_critic(config: M) -> M:
    """Return the parameters of a model with `hidden` and `critic_hidden` for the network of a separate critic."""
    own = getattr(config, "critic_hidden", None)
    return config if own is None else config.model_copy(update={"hidden": own})


def _initialize(policy: Policy, encoders: bool) -> None:
    """Initialise orthogonally, heads small: the first actions are nearly uniform (Andrychowicz et al., 2006.05990)."""
    if encoders:
        for encoder in (policy.encoder, policy.critic_encoder):
            if encoder is not None:
                initialize_orthogonal(encoder)
    initialize_orthogonal(policy.heads, 0.01)
    for key in policy.described:
        head: Any = policy.heads[f"{key}_head"]
        head.initialize()
    if policy.has_critic:
        initialize_orthogonal(policy.value_head, 1.0)


def idle_model_settings(
    config: PluginConfig, policy: nn.Module, action_space: Space[Any], usual: Mapping[str, Any], *, samples: bool
) -> Iterator[str]:
    """Yield a sentence for each setting of a bundled model that is not the default and does nothing.

    Args:
        config: the model's.
        policy: that was built from it.
        action_space: the environment's.
        usual: the algorithm's defaults for the model, by field.
        samples: False: the run takes most likely actions only.
    """
    if not isinstance(config, ModelConfig):
        return
    # Algorithms that learn values put them in the place of distributions.
    has_heads = any(getattr(module, "action_heads", ()) for module in policy.modules())
    used = shared_settings(config, action_space) if has_heads else set()
    for name in DISTRIBUTION_SETTINGS:
        if name not in used and is_set(config, name, usual):
            yield f"model.{name} has no effect: no distribution of these actions has it"
        elif name in _OF_SAMPLES and not samples and is_set(config, name, usual):
            yield f"model.{name} has no effect: the run takes the most likely actions (algorithm.deterministic)"
    if config.memory == NONE:
        return
    memory = config.memory if isinstance(config.memory, str) else str(config.memory["name"])
    known = discovery.load("memory", memory).Config.model_fields
    for setting in MEMORY_SETTINGS:
        if setting not in known and is_set(config, f"memory_{setting}", usual):
            yield f"model.memory_{setting} has no effect: {memory} has no setting {setting!r}"
