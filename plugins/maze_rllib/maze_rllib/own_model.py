"""RLlib's default network instead of Maze's: its observations and actions, and its evaluation in Maze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core.base.errors import ConfigError
from maze_core.base.tree import map_tree, to_arrays
from maze_core.data.tensors import to_tensors
from maze_core.envs.masks import mask_leaves
from maze_core.envs.spaces import flatten_space
from maze_core.models.distributions import BoxScale
from maze_core.models.inputs import FlatInput, is_image

if TYPE_CHECKING:
    from maze_core.base.tree import TensorTree, Tree


class PlainView:
    """The view of an environment for RLlib's default networks: one array of floats in, actions in [-1, 1] out.

    A single Box stays as it is, so that RLlib's convolutions see images; everything else is flattened, with discrete
    values one-hot.

    Raises:
        ConfigError: RLlib has no distribution for an action, or the environment has action masks.
    """

    def __init__(self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
        leaves = flatten_space(observation_space, "observation")
        actions = flatten_space(action_space, "action")
        _check(actions)
        if masks := mask_leaves(observation_space, action_space):
            raise ConfigError(
                f"RLlib's default network would take forbidden actions: it ignores the action mask "
                f"{next(iter(masks.values()))[0]!r}",
                "algorithm.rllib_model",
                "Next: --no-rllib-model, since Maze's models respect masks.",
            )
        self._key, single = next(iter(leaves.items()))
        as_it_is = len(leaves) == 1 and isinstance(single, spaces.Box) and (is_image(single) or len(single.shape) == 1)
        self._flat = None if as_it_is else FlatInput(leaves)
        self._scales = {key: BoxScale(space) for key, space in actions.items() if isinstance(space, spaces.Box)}
        self._action_key = next(iter(actions)) if len(actions) == 1 else None
        self._bytes = self._flat is None and single.dtype == np.uint8
        if self._bytes:  # RLlib's convolutions take floats
            self.observation_space: gymnasium.Space[Any] = spaces.Box(0, 1, single.shape, np.float32)
        elif self._flat is None:
            self.observation_space = single
        else:
            self.observation_space = spaces.Box(-np.inf, np.inf, (self._flat.out_features,), np.float32)
        shown = {key: self._canonical(key, space) for key, space in actions.items()}
        self.action_space = spaces.Dict(shown) if self._action_key is None else shown[self._action_key]

    def observations(self, tree: TensorTree) -> Tensor:
        """Convert leaves [B, …] to the network's input [B, …]."""
        if self._bytes:
            return tree[self._key].float() / 255
        return tree[self._key] if self._flat is None else self._flat(tree)

    def seen(self, tree: Tree) -> np.ndarray:
        """Like `observations`, for arrays."""
        seen: np.ndarray = self.observations(to_tensors(tree)).numpy()
        return seen

    def actions(self, chosen: Any) -> TensorTree:
        """Convert the network's actions [B, …] to a tree in the environment's units."""
        tree = chosen if self._action_key is None else {self._action_key: chosen}
        return {key: self._scales[key].to_env(leaf) if key in self._scales else leaf for key, leaf in tree.items()}

    def taken(self, chosen: Any) -> Tree:
        """Like `actions`, for arrays."""
        tree = chosen if self._action_key is None else {self._action_key: chosen}
        tensors = map_tree(lambda leaf: torch.as_tensor(np.asarray(leaf)), tree)
        whole = tensors if self._action_key is None else tensors[self._action_key]
        return to_arrays(self.actions(whole))

    def _canonical(self, key: str, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        if isinstance(space, spaces.Discrete):
            return spaces.Discrete(int(space.n))
        if isinstance(space, spaces.MultiDiscrete):
            return spaces.MultiDiscrete(space.nvec)
        scale = self._scales[key]
        bound = 1.0 if scale.bounded else np.inf
        return spaces.Box(-bound, bound, (scale.size,), np.float32)


class RLlibPolicy(nn.Module):
    """A module of RLlib with the interface of Maze's policies that evaluation needs."""

    normalizer = None
    has_critic = False

    def __init__(self, module: Any, view: PlainView, observation_space: Any, action_space: Any) -> None:
        super().__init__()
        self.module, self._view = module, view
        self.observation_space, self.action_space = observation_space, action_space

    def distribution(self, obs: TensorTree) -> _Chosen:
        """Return the network's distribution for observations, leaves [B, …]."""
        with torch.no_grad():
            return _Chosen(
                self.module, self.module.forward_inference({"obs": self._view.observations(obs)}), self._view
            )

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> TensorTree:
        """Return no noise: RLlib's distributions draw from torch's global generator."""
        return {}

    def load(self, state: dict[str, Tensor]) -> None:
        """Load the learner's weights, of which acting needs only a part."""
        own = self.module.state_dict()
        self.module.load_state_dict({name: leaf for name, leaf in state.items() if name in own})


class _Chosen:
    """The output of an RLlib module as a distribution."""

    def __init__(self, module: Any, answer: dict[str, Any], view: PlainView) -> None:
        self._module, self._answer, self._view = module, answer, view

    def mode(self) -> TensorTree:
        return self._view.actions(self._choose(deterministic=True))

    def sample(self, noise: TensorTree) -> TensorTree:
        return self._view.actions(self._choose(deterministic=False))

    def env_action(self, samples: TensorTree) -> TensorTree:
        return samples  # RLlib's own form may be any structure

    def _choose(self, *, deterministic: bool) -> Any:
        if "actions" in self._answer:  # DQN's network chooses by itself
            return self._answer["actions"]
        distribution = self._module.get_inference_action_dist_cls().from_logits(self._answer["action_dist_inputs"])
        return (distribution.to_deterministic() if deterministic else distribution).sample()


def _check(actions: dict[str, gymnasium.Space[Any]]) -> None:
    for key, space in actions.items():
        if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
            raise ConfigError(
                f"RLlib's default network has no distribution for the action {key!r}, {space}",
                "algorithm.rllib_model",
                "Next: --no-rllib-model, since Maze's models support it.",
            )
