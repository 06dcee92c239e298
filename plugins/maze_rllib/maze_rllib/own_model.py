"""RLlib's default network instead of Maze's: its observations and actions, and its evaluation in Maze."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
import tree as trees
from gymnasium import spaces
from maze_models.encoders import settled_layout
from torch import Tensor, nn

from maze_core import ConfigError, flatten_space, map_tree, to_arrays, to_tensors
from maze_core.envs.masks import mask_leaves
from maze_core.envs.spaces import is_image
from maze_core.models.distributions import BoxScale
from maze_core.models.inputs import FlatInput

if TYPE_CHECKING:
    from maze_core import TensorTree, Tree

_FIRST = "is_first"
"""Where DreamerV3's network reads that an episode begins."""


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
        if len(leaves) > 1 and (images := [key for key, leaf in leaves.items() if is_image(leaf)]):
            raise ConfigError(
                f"RLlib's default network would flatten the image {images[0]!r}: it sees an image only if it is alone",
                "algorithm.rllib_model",
                "Next: --no-rllib-model, since Maze's models see images beside other observations.",
            )
        as_it_is = len(leaves) == 1 and isinstance(single, spaces.Box) and (is_image(single) or len(single.shape) == 1)
        self._flat = None if as_it_is else FlatInput(leaves)
        self._scales = {key: BoxScale(space) for key, space in actions.items() if isinstance(space, spaces.Box)}
        self._action_key = next(iter(actions)) if len(actions) == 1 else None
        self._bytes = self._flat is None and single.dtype == np.uint8
        self._channels_first = False
        if isinstance(single, spaces.Box) and self._flat is None:
            self._channels_first = is_image(single) and settled_layout(single, "auto") == "chw"
            low, high = (single.low / 255, single.high / 255) if self._bytes else (single.low, single.high)
            if self._channels_first:
                low, high = np.moveaxis(low, -3, -1), np.moveaxis(high, -3, -1)
            self.observation_space: gymnasium.Space[Any] = spaces.Box(low, high, dtype=np.float32)
        elif self._flat is not None:
            self.observation_space = spaces.Box(-np.inf, np.inf, (self._flat.out_features,), np.float32)
        shown = {key: self._canonical(key, space) for key, space in actions.items()}
        self.action_space = spaces.Dict(shown) if self._action_key is None else shown[self._action_key]

    def observations(self, tree: TensorTree) -> Tensor:
        """Convert leaves [B, …] to the network's input [B, …]."""
        if self._flat is not None:
            flat: Tensor = self._flat(tree)
            return flat
        leaf = tree[self._key].movedim(-3, -1) if self._channels_first else tree[self._key]
        return leaf.float() / 255 if self._bytes else leaf

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

    def given(self, actions: Tree) -> Any:
        """Convert a tree of actions in the environment's units, leaves [B, …], to the network's: inverse of `taken`."""
        leaves = to_tensors(actions).items()
        arrays = to_arrays({k: self._scales[k].to_canonical(leaf) if k in self._scales else leaf for k, leaf in leaves})
        return arrays if self._action_key is None else arrays[self._action_key]

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

    title = "RLlib's own network"
    """What the console calls the network."""
    normalizer = None
    has_critic = False

    def __init__(self, module: Any, view: PlainView, observation_space: Any, action_space: Any) -> None:
        super().__init__()
        self.module, self.view = module, view
        self.observation_space, self.action_space = observation_space, action_space
        self.remembers = bool(module.get_initial_state())
        """True if the network has a state, as that of DreamerV3 or an LSTM."""
        self._random = torch.get_rng_state()  # where the run's seed has led

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let RLlib's code, which draws from torch's global generator, draw from one of the policy's own."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random)
            yield
            self._random = torch.get_rng_state()

    def initial_state(self, rows: int) -> TensorTree:
        """Return the network's state where episodes begin, leaves [rows, …]."""
        leaves = [torch.as_tensor(leaf).float() for leaf in trees.flatten(self._begun())]
        state = {str(i): leaf.detach().expand(rows, *leaf.shape).clone() for i, leaf in enumerate(leaves)}
        return {**state, _FIRST: torch.ones(rows)}

    def _begun(self) -> Any:
        with self.drawing():
            return self.module.get_initial_state()

    def step(self, obs: TensorTree, state: TensorTree) -> tuple[_Chosen, TensorTree]:
        """Return the network's distribution for the next row of each stream, and its state after it."""
        before = trees.unflatten_as(self._begun(), [state[str(i)] for i in range(len(state) - 1)])
        batch = {"obs": self.view.observations(obs).unsqueeze(1), _FIRST: state[_FIRST], "state_in": before}
        with torch.no_grad(), self.drawing():
            answer = dict(self.module.forward_inference(batch))
        leaves = trees.flatten(answer.pop("state_out"))
        after = {**{str(i): leaf for i, leaf in enumerate(leaves)}, _FIRST: torch.zeros_like(state[_FIRST])}
        return _Chosen(self, {key: leaf.squeeze(1) for key, leaf in answer.items()}), after

    def distribution(self, obs: TensorTree) -> _Chosen:
        """Return the network's distribution for observations, leaves [B, …]."""
        with torch.no_grad():
            answer = self.module.forward_inference({"obs": self.view.observations(obs)})
        return _Chosen(self, answer)

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> TensorTree:
        """Return no noise: RLlib's distributions draw it themselves."""
        return {}


class _Chosen:
    """The output of an RLlib module as a distribution."""

    def __init__(self, policy: RLlibPolicy, answer: dict[str, Any]) -> None:
        self._policy, self._module, self._answer, self._view = policy, policy.module, answer, policy.view

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
        with self._policy.drawing():
            return (distribution.to_deterministic() if deterministic else distribution).sample()


def _check(actions: dict[str, gymnasium.Space[Any]]) -> None:
    for key, space in actions.items():
        if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
            raise ConfigError(
                f"RLlib's default network has no distribution for the action {key!r}, {space}",
                "algorithm.rllib_model",
                "Next: --no-rllib-model, since Maze's models support it.",
            )
