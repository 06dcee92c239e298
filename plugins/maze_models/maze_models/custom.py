"""Models from a user's own code: a whole policy, or an encoder to which heads and a critic are added."""

from __future__ import annotations

import copy
import inspect
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from maze_core import ConfigError, Plugin, PluginConfig, feature_count, hookimpl, to_tensors
from maze_core.envs.actors import acting_space
from maze_core.envs.masks import mask_leaves
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.assembly import ModelConfig, assemble_policy
from maze_core.plugins.base import given, not_given

if TYPE_CHECKING:
    from collections.abc import Callable

    from gymnasium import Space

    from maze_core import TensorTree

_POLICY_METHODS = ("distribution", "value", "draw_noise", "forward")
_WAYS = """A custom model is a torch.nn.Module, its class, or a function that returns one, called with
(observation_space, action_space), (observation_space) or nothing. It is one of
  - an encoder: `self.out_features = 64`, and `forward(obs)` that maps a dict of tensors [B, …]
    ({"observation": …} for a single space) to features [B, 64]; heads and critic are attached to it;
  - a policy: the methods distribution, value, draw_noise and forward of maze_core.models.policy.Policy."""


class CustomConfig(ModelConfig):
    """A model that was passed as a class, a function or a module."""

    source: str = ""
    """Where it is defined, as `module:name`. For information only: it is never imported from here."""


class CustomModel(Plugin):
    """A user's own module, passed from Python: a whole policy, or an encoder.

    `CustomModel.of` binds this class to a module.

    Raises:
        ConfigError: there is no module, for example when a recorded configuration is opened without it.
    """

    Config: ClassVar[type[PluginConfig]] = CustomConfig

    def __init__(self, config: CustomConfig, source: Any = None) -> None:
        super().__init__(config)
        if source is None:
            raise not_given("model", config.source, "model", ", or publish it as a plugin (maze.models)")
        self._source = source

    @staticmethod
    def of(source: Any) -> Any:
        """Return a stand-in for this class, bound to a module, module class or function."""
        return given(CustomModel, source)

    @hookimpl
    def build_policy(self, observation_space: Space[Any], action_space: Space[Any], config: ModelConfig) -> nn.Module:
        """Build the policy."""
        return wrap_module(self._source, observation_space, action_space, config)


def wrap_module(source: Any, observation_space: Space[Any], action_space: Space[Any], config: ModelConfig) -> nn.Module:
    """Return a policy from a module, a module class or a function that returns one.

    A module is copied. A policy is returned as it is. An encoder gets heads and, by `config.critic`, a critic: a
    separate one is a second module from the same class or function, or a second copy. Only for such a critic is the
    source called with the leaves that critics alone see.

    Raises:
        ConfigError: it is neither a policy nor an encoder; the message explains both.
    """
    seen = acting_space(observation_space)
    module = _construct(source, seen, action_space)
    if hasattr(module, "distribution") and hasattr(module, "value"):
        return _policy(module, observation_space, action_space)
    if not isinstance(getattr(module, "out_features", None), Integral):
        raise _unusable(f"{type(module).__name__} has neither `out_features` nor `distribution` and `value`")
    _checked(module, seen)
    return assemble_policy(
        observation_space,
        action_space,
        config,
        lambda: module,
        make_critic_encoder=lambda: _checked(_construct(source, observation_space, action_space), observation_space),
        initialize_encoders=False,
    )


def build_encoder(source: Any, observation_space: Space[Any], action_space: Space[Any]) -> nn.Module:
    """Return an encoder from a module, a module class or a function that returns one.

    Raises:
        ConfigError: it is not an encoder; the message explains what one is.
    """
    module = _construct(source, observation_space, action_space)
    if not isinstance(getattr(module, "out_features", None), Integral):
        raise _unusable(f"{type(module).__name__} has no `out_features`")
    return _checked(module, observation_space)


def _construct(source: Any, observation_space: Space[Any], action_space: Space[Any]) -> nn.Module:
    if isinstance(source, nn.Module):
        return _copied(source)
    if not callable(source):
        raise _unusable(f"got {type(source).__name__}")
    arguments = _fitting(source, (observation_space, action_space))
    module = source(*arguments)
    if not isinstance(module, nn.Module):
        raise _unusable(f"{getattr(source, '__name__', source)} returned {type(module).__name__}")
    return module


def _copied(module: nn.Module) -> nn.Module:
    """Return a copy, so that training leaves the caller's module as it is and each run starts from the same one."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise _unusable(f"{type(module).__name__} cannot be copied ({error}); pass its class instead") from error


def _fitting(source: Callable[..., Any], arguments: tuple[Any, Any]) -> tuple[Any, ...]:
    # The signature of a module class without its own constructor accepts anything; the constructor takes no arguments.
    bare = isinstance(source, type) and getattr(source, "__init__", None) is nn.Module.__init__
    signature = inspect.Signature() if bare else inspect.signature(source)
    for count in (2, 1, 0):
        try:
            signature.bind(*arguments[:count])
        except TypeError:
            continue
        return arguments[:count]
    raise _unusable(f"{getattr(source, '__name__', source)}{signature} needs other arguments")


def _policy(module: nn.Module, observation_space: Space[Any], action_space: Space[Any]) -> nn.Module:
    missing = [name for name in _POLICY_METHODS if not _defines(module, name)]
    if missing:
        raise _unusable(f"the policy {type(module).__name__} lacks {', '.join(missing)}")
    mask_leaves(observation_space, action_space)
    defaults = {"normalizer": None, "has_critic": True}
    for name, value in {**defaults, "observation_space": observation_space, "action_space": action_space}.items():
        if not hasattr(module, name):
            setattr(module, name, value)
    return module


def _defines(module: nn.Module, name: str) -> bool:
    method = getattr(type(module), name, None)
    return callable(method) and method is not getattr(nn.Module, name, None)


def _checked(encoder: nn.Module, observation_space: Space[Any]) -> nn.Module:
    """Return the encoder after calls with two rows of zeros and with one, so that mistakes show before the first step.

    The first call also gives lazy layers their parameters.
    """
    name, training = type(encoder).__name__, encoder.training
    encoder.eval()
    try:
        for rows in (2, 1):
            zeros = allocate(space_specs(observation_space, "observation"), (rows,))
            obs: TensorTree = to_tensors(zeros)
            try:
                with torch.no_grad():
                    features = encoder(obs)
            except Exception as error:
                raise _unusable(f"{name}.forward failed on {_shapes(obs)}: {error!r}") from error
            wanted = (rows, feature_count(encoder))
            if not isinstance(features, torch.Tensor) or tuple(features.shape) != wanted:
                got = tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
                many = "two rows" if rows == 2 else "one row, as when it acts in a single environment"
                raise _unusable(f"{name}.forward returned {got} for {many}, not a tensor of shape {wanted}")
            if features.dtype != torch.float32:
                raise _unusable(f"{name}.forward returned {features.dtype}, not torch.float32; features.float() is")
    finally:
        encoder.train(training)
    return encoder


def _shapes(obs: TensorTree) -> str:
    return ", ".join(f"{key} {tuple(leaf.shape)} {leaf.dtype}" for key, leaf in obs.items())


def _unusable(problem: str) -> ConfigError:
    return ConfigError(f"this model cannot be used: {problem}", where="model", hint=_WAYS)
