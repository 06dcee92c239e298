"""The model `set_template`: blocks per observation leaf, attention over sets, pointers to their elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from maze_models.composer import Composer
from maze_normalizers.normalizer import ObservationNormalizer

from maze_core import Plugin, hookimpl
from maze_core.models.assembly import assemble_policy, for_critic
from maze_core.models.inputs import input_spaces
from maze_set_models.config import SetTemplateConfig
from maze_set_models.encoder import SetEncoder
from maze_set_models.leaves import sort_leaves
from maze_set_models.pointer import add_pointers, checked_pointers

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Policy


class SetTemplateModel(Plugin):
    """Policy and critic for observations with sets of elements: embedded, self-attention, pooled.

    A leaf [K, F] is a set of K elements. Where there is a leaf of the same name with `_present` at its end, it says
    which elements are there; the others are padding. Actions may point to elements. Sets are not normalised. A subclass
    with a `composer` joins encoded leaves and pooled sets in a way of its own.
    """

    Config = SetTemplateConfig
    composer: ClassVar[Composer | None] = None
    """Joins encoded leaves and pooled sets, before the layers `hidden`; None: they are concatenated."""

    @hookimpl
    def build_policy(
        self, observation_space: Space[Any], action_space: Space[Any], config: SetTemplateConfig
    ) -> Policy:
        """Build the policy."""
        inputs = input_spaces(observation_space, action_space)
        leaves = sort_leaves(inputs, config)
        pointers = checked_pointers(action_space, leaves.sets, config)
        pointed = [key for key in leaves.sets if any(leaf.key == key for leaf, _ in pointers.values())]
        policy = assemble_policy(
            observation_space,
            action_space,
            config,
            lambda: SetEncoder(leaves, config, type(self).composer),
            make_critic_encoder=lambda: SetEncoder(leaves, for_critic(config), type(self).composer),
        )
        if config.normalize_observations:
            single = {key: space for key, space in inputs.items() if key not in leaves.sets}
            policy.normalizer = ObservationNormalizer(single)
        if pointers:
            encoder: Any = policy.encoder
            encoder.point_to(pointed)
            add_pointers(policy, encoder, pointers, config)
        return policy
