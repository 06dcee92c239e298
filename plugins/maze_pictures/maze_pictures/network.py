"""Draws a policy network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces
from maze_models.beta import BetaHead
from maze_models.encoders import ConcatEncoder, ImageEncoder

from maze_core import Policy, flatten_space
from maze_core.envs.actors import actors_of
from maze_core.envs.masks import mask_leaves
from maze_core.models.blocks import MLP, count, members
from maze_core.models.families import BernoulliHead, CategoricalHead, GaussianHead, MultiCategoricalHead
from maze_core.models.inputs import MlpEncoder, critic_spaces, input_spaces
from maze_pictures.svg import Box, Panel, draw

if TYPE_CHECKING:
    from gymnasium import Space
    from maze_models.several.actor_policy import ActorPolicy
    from torch import nn

    from maze_core.models.memory import Memory

_TIMES = " \N{MULTIPLICATION SIGN} "


def network_svg(policy: nn.Module, title: str) -> str:
    """Return a self-contained SVG of the network: observations, encoders, action heads and critic, with sizes.

    Where several actors act, there are panels for each group of actors that share a network. A policy of a custom class
    is drawn as the list of its children.
    """
    return draw(title, f"{count(policy):,} parameters", _panels(policy))


def _panels(policy: nn.Module, of: str = "") -> list[Panel]:
    """Return the panels of a policy; `of` says whose it is."""
    if type(policy) is not Policy:
        return _other_panels(policy, of)
    heads = _head_boxes(policy)
    value = [_value_box(policy)] if policy.has_critic else []
    if policy.critic_encoder is None:
        name = "Policy and critic (shared layers)" if value else "Policy"
        return [_panel(name + of, policy, policy.encoder, policy.memory, heads + value)]
    return [
        _panel(f"Policy{of}", policy, policy.encoder, policy.memory, heads),
        _panel(f"Critic{of}", policy, policy.critic_encoder, policy.critic_memory, value),
    ]


def _other_panels(policy: nn.Module, of: str) -> list[Panel]:
    from maze_models.several.actor_policy import ActorPolicy

    return _panels_of_groups(policy) if isinstance(policy, ActorPolicy) else [_foreign_panel(policy, of)]


def _panels_of_groups(policy: ActorPolicy) -> list[Panel]:
    names = actors_of(policy.observation_space)
    panels = []
    for group, own in zip(policy.groups, policy.policies.values(), strict=True):
        members = ", ".join(names.names[actor] for actor in group.actors) if names else group.name
        panels += _panels(own, f" of {members}")
    if policy.joint_critic is not None:
        whole = policy.joint_critic
        leaves = critic_spaces(policy.observation_space, policy.action_space)
        inputs = [Box("input", key, [_space_line(space)]) for key, space in leaves.items()]
        columns = [inputs, [_encoder_box(whole.encoder, {}, inputs)]]
        value = Box("value", "value", ["state value, one number", _count_line(whole.value_head)], list(columns[-1]))
        panels.append(Panel(f"Critic of all — encoder {count(whole.encoder):,} parameters", [*columns, [value]]))
    return panels


def _panel(name: str, policy: Policy, encoder: nn.Module, memory: Memory | None, outputs: list[Box]) -> Panel:
    inputs = _input_boxes(policy, encoder is policy.critic_encoder)
    columns = _encoder_columns(encoder, inputs)
    if memory is not None:
        kind, *lines = _own_lines(memory) or [type(memory).__name__, f"→ {memory.out_features}"]
        box = Box("block", f"memory: {kind}", [*lines, _count_line(memory)], list(columns[-1]))
        columns.append([box])
    for output in outputs:
        output.sources = list(columns[-1])
    parameters = count(encoder)
    columns = [list(inputs.values()), *columns, outputs]
    return Panel(f"{name} — encoder {parameters:,} parameters", columns)


def _input_boxes(policy: Policy, critic: bool) -> dict[str, Box]:
    seen = critic_spaces if critic else input_spaces
    leaves = seen(policy.observation_space, policy.action_space)
    normalized = policy.normalizer.keys if policy.normalizer is not None else ()
    words = "range" if getattr(policy.normalizer, "strategy", "") == "range" else "mean, std"
    boxes = {}
    for key, space in leaves.items():
        lines = [_space_line(space), *([f"normalised ({words})"] if key in normalized else [])]
        boxes[key] = Box("input", key, lines)
    return boxes


def _encoder_columns(encoder: nn.Module, inputs: dict[str, Box]) -> list[list[Box]]:
    """Return the boxes of an encoder by column, linked to the inputs; the last column is one box."""
    if not isinstance(encoder, ConcatEncoder):
        return [[_encoder_box(encoder, inputs)]]
    parts = [_encoder_box(part, inputs) for part in encoder.parts.values()]
    composer = encoder.composition.composer
    if len(parts) == 1 and not len(encoder.trunk.layers) and composer is None:
        return [parts]
    if composer is not None:
        own = _own_lines(composer) or [type(composer).__name__, *_children_lines(composer)]
        joined = [Box("block", own[0], [*own[1:], f"→ {encoder.trunk.in_features}", _count_line(composer)], parts)]
        if not len(encoder.trunk.layers):
            return [parts, joined]
        return [parts, joined, [Box("block", "dense", _mlp_lines(encoder.trunk) + _own_count(encoder.trunk), joined)]]
    lines = [f"width {encoder.trunk.in_features}"] if len(parts) > 1 else []
    title = "concatenate" if len(parts) > 1 else "dense"
    return [parts, [Box("block", title, lines + _mlp_lines(encoder.trunk) + _own_count(encoder.trunk), parts)]]


def _encoder_box(encoder: nn.Module, inputs: dict[str, Box], everything: list[Box] | None = None) -> Box:
    """Return the box of an encoder, with arrows from the inputs that it reads, or from `everything`."""
    size = [_count_line(encoder)]
    if isinstance(encoder, MlpEncoder):
        sources = everything or [inputs[key] for key in encoder.input.keys]
        return Box("block", "dense", _mlp_lines(encoder.trunk) + size, sources)
    if isinstance(encoder, ImageEncoder):
        return Box("block", "convolutions", _image_lines(encoder) + size, [inputs[encoder.key]])
    title, *lines = _own_lines(encoder) or [type(encoder).__name__, *_children_lines(encoder)]
    return Box("block", title, lines + size, everything or list(inputs.values()))


def _head_boxes(policy: Policy) -> list[Box]:
    masks = mask_leaves(policy.observation_space, policy.action_space)
    boxes = []
    for key, space in flatten_space(policy.action_space, "action").items():
        head = policy.heads[f"{key}_head"]
        own = _own_lines(head) or [_distribution_name(getattr(head, "head", head))]  # a head around another one
        mask = [f"masked by {', '.join(masks[key])}"] if key in masks else []
        lines = [*own, _space_line(space), *mask, _count_line(head)]
        boxes.append(Box("head", key, lines))
    return boxes


def _own_lines(module: nn.Module) -> list[str]:
    """Return what a module of another plugin says of itself in `picture_lines`, empty if it says nothing."""
    return [str(line) for line in getattr(module, "picture_lines", ())]


def _distribution_name(head: nn.Module) -> str:
    if isinstance(head, GaussianHead):
        name = "squashed Gaussian" if head.squashed else "diagonal Gaussian"
        return f"{name}, {'state-dependent' if head.state_dependent else 'constant'} std"
    if isinstance(head, BetaHead):
        return "Beta"
    if isinstance(head, CategoricalHead):
        return "categorical"
    if isinstance(head, MultiCategoricalHead):
        return "product of categoricals"
    return "Bernoulli" if isinstance(head, BernoulliHead) else type(head).__name__


def _value_box(policy: Policy) -> Box:
    return Box("value", "value", ["state value, one number", _count_line(policy.value_head)])


def _foreign_panel(policy: nn.Module, of: str) -> Panel:
    observation_space = getattr(policy, "observation_space", None)
    action_space = getattr(policy, "action_space", None)
    inputs, outputs = [], []
    if observation_space is not None:
        leaves = flatten_space(observation_space, "observation")
        inputs = [Box("input", key, [_space_line(space)]) for key, space in leaves.items()]
    body = Box("block", type(policy).__name__, [*_children_lines(policy), _count_line(policy)], inputs)
    if action_space is not None:
        actions = flatten_space(action_space, "action")
        outputs = [Box("head", key, [_space_line(space)], [body]) for key, space in actions.items()]
    return Panel(f"Policy{of}", [column for column in (inputs, [body], outputs) if column])


def _children_lines(module: nn.Module) -> list[str]:
    children = list(module.named_children())
    lines = [f"{name}: {type(child).__name__}, {count(child):,}" for name, child in children[:12]]
    return lines + ([f"… {len(children) - 12} more"] if len(children) > 12 else [])


def _mlp_lines(mlp: MLP) -> list[str]:
    words = f"layer norm, {mlp.activation}" if mlp.norms else mlp.activation
    return [f"{layer.in_features} → {layer.out_features}, {words}" for layer in mlp.dense_layers]


def _image_lines(encoder: ImageEncoder) -> list[str]:
    lines = [f"layout {encoder.layout}, {encoder.channels} channel{'s' if encoder.channels > 1 else ''}"]
    for layer in members(encoder, "convolutions"):
        size = _TIMES.join(map(str, layer.kernel_size))
        lines.append(f"{layer.out_channels} of {size}, stride {layer.stride[0]}, relu")
    return [*lines, f"dense {encoder.dense.in_features} → {encoder.dense.out_features}, relu"]


def _space_line(space: Space[Any]) -> str:
    if isinstance(space, spaces.Discrete):
        return f"Discrete, {space.n} choices"
    if isinstance(space, spaces.MultiDiscrete):
        return f"MultiDiscrete, {_TIMES.join(str(n) for n in space.nvec)}"
    if isinstance(space, spaces.MultiBinary):
        return f"MultiBinary, {space.n} bits"
    return f"{type(space).__name__} {_TIMES.join(map(str, space.shape or ())) or 'scalar'}, {space.dtype}"


def _own_count(trunk: MLP) -> list[str]:
    return [_count_line(trunk)] if trunk.dense_layers else []


def _count_line(module: nn.Module) -> str:
    return f"{count(module):,} parameters"
