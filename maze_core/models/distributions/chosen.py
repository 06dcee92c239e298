"""The distribution that a model's configuration names: which family each action leaf gets, and its head.

What the head of another plugin promises is tried when a policy is built: a mistake names the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import torch
from gymnasium import spaces
from pydantic import BeforeValidator, Field, JsonValue
from torch import Tensor, nn

from maze_core.base.errors import ConfigError, MazeError, PluginError
from maze_core.base.terminal_text import kind_of
from maze_core.envs.spaces import choices_of, flatten_space
from maze_core.models.blocks import in_evaluation_mode
from maze_core.models.distributions.base import Distribution
from maze_core.models.distributions.continuous import BoxScale
from maze_core.plugins import discovery
from maze_core.plugins.config.base import ConfigModel
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.validation import named_part
from maze_core.plugins.direct_calls import broken, named, title
from maze_core.plugins.discovery import describe
from maze_core.plugins.extensions import extension

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.models.distributions.family import Family

_FEATURES = "model.choice_features"
DEFAULTS: Mapping[type[Any], str] = {
    spaces.Discrete: "categorical",
    spaces.MultiDiscrete: "multi_categorical",
    spaces.MultiBinary: "bernoulli",
    spaces.Box: "gaussian",
}
"""The distribution of leaves that the named one is not for, by kind of space."""
DISTRIBUTION_SETTINGS = ("log_std_init", "state_dependent_std", "temperature")
"""Parameters of every model that families take over."""
_WHERE = "model.distribution"
_ROWS = 3
"""Rows with which a head is tried."""


def _shortened(part: Any) -> Any:
    return part["name"] if isinstance(part, dict) and part.keys() == {"name"} else part


DistributionName = Annotated[str | dict[str, JsonValue], BeforeValidator(_shortened), Outside.NOTHING]
"""The name of a distribution plugin, or a mapping with `name` and its parameters, whose own marks count."""


class HeadOptions(ConfigModel):
    """How features become action distributions."""

    distribution: DistributionName = "gaussian"
    """The distribution of the action leaves that it is for."""
    log_std_init: float = 0.0
    """Log of the initial standard deviation of Gaussians, in units of half the range of a bounded Box."""
    state_dependent_std: bool = False
    """Compute the standard deviation of Gaussians from the observation, instead of learning one per dimension."""
    temperature: float = 1.0
    """Divisor of the logits of discrete actions: above 1 makes them more random, below 1 less."""
    choice_features: dict[str, str] = Field(default_factory=dict)
    """Actions whose choices observations describe, with the leaf of their features."""
    choice_embedding: int = 64
    """Units of an embedded choice."""


def chosen_family(options: Any) -> Family:
    """Return the family that `options.distribution` names, an object with the fields of `HeadOptions`.

    Raises:
        ConfigError: there is none of this name, or its parameters are wrong.
        PluginError: the plugin cannot be used.
    """
    part = options.distribution
    return _family({"name": part} if isinstance(part, str) else dict(part), options)


def _family(given: dict[str, Any], options: Any) -> Family:
    shared = {field: getattr(options, field) for field in DISTRIBUTION_SETTINGS}
    plugin, config = named_part("distribution", given, _WHERE, shared)
    try:
        with named("distribution", config.name, " cannot be built"):
            family: Family = plugin(config)
    except ValueError as error:  # pydantic, which is validating the model, would take it for its own
        raise PluginError(f"{title('distribution', config.name)} cannot be built: {describe(error)}") from error
    if not hasattr(family, "config"):
        raise PluginError(f"{title('distribution', config.name)}: its `__init__` does not call that of Family")
    return family


def shared_settings(options: Any, action_space: Space[Any]) -> set[str]:
    """Return those of `DISTRIBUTION_SETTINGS` that the distributions of an action space have."""
    leaves = flatten_space(action_space, "action").items()
    families = [_fitting_family(key, space, options) for key, space in leaves]
    return {name for name in DISTRIBUTION_SETTINGS for family in families if name in type(family.config).model_fields}


def make_head(key: str, space: Space[Any], features: int, options: Any) -> nn.Module:
    """Return the head for one action leaf: of the chosen family, or of the default one where that is for other kinds.

    Raises:
        ConfigError: no family is for the space, or the chosen one does not take it.
    """
    family = _fitting_family(key, space, options)
    if getattr(family.gives, "bounded", False) and isinstance(space, spaces.Box) and not BoxScale(space).bounded:
        raise ConfigError(
            f"distribution {family.config.name} needs finite bounds, but action {key!r} is {space}",
            _WHERE,
            "Choose distribution gaussian, or give the action space bounds with a wrapper.",
        )
    name = family.config.name
    try:
        with named("distribution", name):
            head = family.head(space, features)
            if not _is_own(name):
                check_head(head, name, space, features)
    except ConfigError as error:
        if error.where is None:
            raise ConfigError(f"distribution {name}: {error.message}", _WHERE, error.hint) from error
        raise
    return head


def of_scored_choices(name: str) -> Any:
    """Return `described`, `head` or `summaries` of maze-models, for choices that observations describe."""
    return extension("maze.scored_choices", name, "scoring choices by their features", "maze-models", _FEATURES)


def described_choices(
    observation_space: Space[Any], action_space: Space[Any], choice_features: Mapping[str, str]
) -> dict[str, Any]:
    """Return the described choices of each action that `model.choice_features` names.

    Raises:
        ConfigError: there is no such action or leaf, their sizes do not fit, or nothing is installed that scores them.
    """
    if not choice_features:
        return {}
    found: dict[str, Any] = of_scored_choices("described")(observation_space, action_space, choice_features)
    return found


def make_scored_head(key: str, space: Space[Any], choices: Any, features: int, options: Any) -> nn.Module:
    """Return the head for one action leaf whose choices observations describe.

    Raises:
        ConfigError: the chosen distribution is for such leaves, and has a head of its own.
    """
    family = _fitting_family(key, space, options)
    if family.config.name != DEFAULTS[spaces.Discrete]:
        raise ConfigError(
            f"the choices of action {key!r} are scored by their features, so the distribution {family.config.name} "
            "would never be used",
            _WHERE,
            "Next: leave it out, or leave out model.choice_features.",
        )
    head: nn.Module = of_scored_choices("head")(choices, features, options.choice_embedding, family.config.temperature)
    return head


def _fitting_family(key: str, space: Space[Any], options: Any) -> Family:
    """Return the chosen family, or the default one where that is for other kinds of leaves."""
    family = chosen_family(options)
    if isinstance(space, family.spaces):
        return family
    default = default_name(space)
    if not default:
        raise ConfigError(f"action {key!r} has the unsupported space {space}")
    return _family({"name": default}, options)


def default_name(space: Space[Any]) -> str:
    """Return the name of the default distribution for an action leaf; empty where there is none."""
    return next((name for kind, name in DEFAULTS.items() if isinstance(space, kind)), "")


def check_taken(config: Any, action_space: Space[Any]) -> None:
    """Raise ConfigError where a model names a distribution that is for none of the action leaves.

    Maze's own are not refused: algorithms for every action space name one for Boxes.
    """
    name = foreign_name(config)
    if name is None:
        return
    family, leaves = chosen_family(config.head_options), flatten_space(action_space, "action")
    if not any(isinstance(space, family.spaces) for space in leaves.values()):
        key, space = next(iter(leaves.items()))
        kinds = " or ".join(kind.__name__ for kind in family.spaces)
        raise ConfigError(
            f"distribution {name} is for {kinds}, but action {key!r} is {space}",
            _WHERE,
            f"For this action: {', '.join(fitting(space))}",
        )


def foreign_name(config: Any) -> str | None:
    """Return the distribution that a model's configuration names, if it is not one of Maze's own; else None."""
    part = getattr(config, "distribution", None)
    if part is None or not hasattr(config, "head_options"):
        return None
    name = part if isinstance(part, str) else str(part.get("name"))
    return None if _is_own(name) else name


def _is_own(name: str) -> bool:
    """Return True for a distribution that comes with Maze."""
    return discovery.origin("distribution", name).partition(" ")[0] == discovery.CORE


def has_divergence(kind: type[Any]) -> bool:
    """Return True for a class of distributions with a KL divergence of its own."""
    return getattr(kind, "kl", Distribution.kl) is not Distribution.kl


def fitting(space: Space[Any], *, differentiable: bool = False, divergence: bool = False) -> list[str]:
    """Return the installed distributions for an action leaf. All of them are imported, so this is for errors.

    Args:
        space: of the leaf.
        differentiable: those alone that have differentiable samples within bounds.
        divergence: those alone that have a KL divergence.
    """
    names = []
    for name in discovery.names("distribution"):
        with suppress(MazeError):
            plugin: type[Family] = discovery.load("distribution", name)
            has = all(getattr(plugin.gives, wanted, False) for wanted in ("reparametrised", "bounded"))
            if (
                isinstance(space, plugin.spaces)
                and (has or not differentiable)
                and (not divergence or has_divergence(plugin.gives))
            ):
                names.append(name)
    return names


def name_of(part: object) -> str:
    """Return the name of the plugin that gives distributions of this class; else the name of the class."""
    for name in discovery.names("distribution"):
        with suppress(MazeError):
            if discovery.load("distribution", name).gives is type(part):
                return name
    return type(part).__name__


def check_head(head: Any, name: str, space: Space[Any], features: int) -> None:
    """Raise PluginError unless a few rows give actions of the space, their probabilities and entropies.

    Modes and random numbers stay.
    """
    if not isinstance(head, nn.Module) or not hasattr(head, "shape") or not hasattr(head, "draw_noise"):
        raise _broken(name, f"`head` returned {_kind(head)}, which is no module with `shape` and `draw_noise`")
    with in_evaluation_mode(head), torch.no_grad():
        _try(head, name, space, features)


def _try(head: Any, name: str, space: Space[Any], features: int) -> None:
    generator = torch.Generator().manual_seed(1)
    noise = head.draw_noise((_ROWS, *head.shape), generator)
    found = head(torch.randn(_ROWS, features, generator=generator), None)
    for method, sample in (("sample", found.sample(noise)), ("mode", found.mode())):
        if not isinstance(sample, Tensor) or sample.shape[:1] != (_ROWS,):
            raise _broken(name, f"`{method}` returned {_kind(sample)} for {_ROWS} rows, not a tensor [{_ROWS}, …]")
        _check_action(method, found.env_action(sample), name, space)
        _check_numbers("log_prob", found.log_prob(sample), name)
    _check_numbers("entropy", found.entropy(), name)


def _check_action(method: str, action: Any, name: str, space: Space[Any]) -> None:
    shape = (_ROWS, *(space.shape or ()))
    if not isinstance(action, Tensor) or tuple(action.shape) != shape:
        raise _broken(name, f"`env_action` returned {_kind(action)} for what `{method}` returned, not a tensor {shape}")
    values = action.double()
    if not bool(values.isfinite().all()):
        raise _broken(name, f"the action of `{method}` is not finite")
    if isinstance(space, spaces.Box):
        return
    sizes = torch.as_tensor(choices_of(space))
    whole = isinstance(space, spaces.MultiBinary) or not action.is_floating_point()
    if not whole or not bool(((values == values.round()) & (values >= 0) & (values < sizes)).all()):
        raise _broken(
            name, f"the action of `{method}` is {action.tolist()}, not whole numbers of {space}, counted from 0"
        )


def _check_numbers(method: str, values: Any, name: str) -> None:
    if not isinstance(values, Tensor) or tuple(values.shape) != (_ROWS,):
        raise _broken(name, f"`{method}` returned {_kind(values)} for {_ROWS} rows, not a tensor ({_ROWS},)")
    if not bool(values.isfinite().all()):
        raise _broken(name, f"`{method}` returned {values.tolist()}, which is not finite")


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    return kind_of(value)


def _broken(name: str, problem: str) -> PluginError:
    return broken("distribution", name, problem)
