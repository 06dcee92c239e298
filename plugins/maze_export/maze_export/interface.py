"""What goes into an exported policy and what comes out: named leaves, also as JSON inside of the file.

| name | leaf |
|---|---|
| `observation`, or the keys of a Dict | observations, masks included |
| `noise/KEY` | random numbers for the action KEY, where the policy samples |
| `action`, or `action/KEY` of a Dict | actions |
| `state/KEY`, `next_state/KEY` | what a policy with memory remembers, before and after; zeros where an episode begins |

Every leaf has the batch in front. Observations and actions are in the environment's units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from maze_recordings.space_json import space_from_json, space_to_json

from maze_core import flatten_space, map_tree
from maze_core.base.plain_json import is_count, parse_object
from maze_core.envs.masks import mask_leaves
from maze_core.envs.spaces import MAX_ENTRIES, leaf_spec, leaves

if TYPE_CHECKING:
    from gymnasium import Space

FORMAT = 1
"""Version of this description. A program that reads it refuses a higher one."""
METADATA = "maze"
"""Where the description is: the key in an ONNX model's metadata; `maze.json` in a pt2 file."""
CHECKS = (
    "none: an exported network cannot refuse its inputs. They must be finite and in observation_space, and each mask "
    "must allow a choice; else the actions mean nothing."
)
"""What a file says about the values of its inputs."""
DRAWS = ("gumbel", "logistic", "standard_exponential", "standard_normal", "uniform")
"""Distributions of noise: methods of `numpy.random.Generator` that take a `size`."""
_MOST_AXES = 32
_GENERATED = ("action", "next_state", "noise", "observation", "state")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of a policy: its name, the shape of one row, its dtype, and of noise its distribution."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    draw: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        drawn = {} if self.draw is None else {"draw": self.draw}
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype, **drawn}


@dataclass(frozen=True)
class Interface:
    """The spaces of a policy and its noise, which together say what its inputs and outputs are."""

    observation_space: Space[Any]
    """Without what critics alone see."""
    action_space: Space[Any]
    noise: tuple[Leaf, ...] = ()
    """Empty: the policy takes the most likely actions."""
    state: tuple[Leaf, ...] = ()
    """What the policy remembers, by inputs; empty without a memory."""

    @property
    def observations(self) -> dict[str, Leaf]:
        """The inputs that are observations, by leaf key; dtypes as Maze stores them."""
        specs = map_tree(leaf_spec, flatten_space(self.observation_space, "observation"))
        return {key: Leaf(_input_name(key), spec.shape, spec.dtype.name) for key, spec in specs.items()}

    @property
    def actions(self) -> dict[str, Leaf]:
        """The outputs, by leaf key; dtypes of the action space."""
        return {
            leaf.key: Leaf(
                f"action/{leaf.key}" if leaf.path else "action",
                tuple(leaf.space.shape or ()),
                np.dtype(leaf.space.dtype).name,
            )
            for leaf in leaves(self.action_space, "action")
        }

    @property
    def masks(self) -> dict[str, list[str]]:
        """The inputs that mask an action, by its output."""
        inputs, outputs = self.observations, self.actions
        found = mask_leaves(self.observation_space, self.action_space)
        return {outputs[key].name: [inputs[leaf].name for leaf in members] for key, members in found.items()}

    @property
    def inputs(self) -> tuple[Leaf, ...]:
        """All inputs, in order."""
        return (*self.observations.values(), *self.state, *self.noise)

    @property
    def outputs(self) -> tuple[Leaf, ...]:
        """All outputs, in order."""
        return (*self.actions.values(), *self.next_state)

    @property
    def next_state(self) -> tuple[Leaf, ...]:
        """What the policy remembers afterwards, in the order of `state`: the state of the next row."""
        return tuple(Leaf(f"next_{leaf.name}", leaf.shape, leaf.dtype) for leaf in self.state)

    def to_json(self, **facts: Any) -> dict[str, Any]:
        """Return the description for a file as plain data, with further facts about the policy."""
        return {
            "format": FORMAT,
            "inputs": [leaf.to_json() for leaf in self.inputs],
            "outputs": [leaf.to_json() for leaf in self.outputs],
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
            "stochastic": bool(self.noise),
            "checks": CHECKS,
            "masks": self.masks,
            **facts,
        }


def read_interface(text: str) -> Interface:
    """Return the interface from the description in a file.

    Raises:
        ValueError: it is none, or of another format.
    """
    data = parse_object(text)
    if not is_count(data.get("format")):
        raise ValueError("its metadata has no format version")
    if data["format"] != FORMAT:
        raise ValueError(f"its format is {data['format']}, but this maze-export reads {FORMAT}")
    seen, done = (space_from_json(data.get(name)) for name in ("observation_space", "action_space"))
    try:
        noise = tuple(_noise(each) for each in data["inputs"] if str(each["name"]).startswith("noise/"))
        state = tuple(_state(each) for each in data["inputs"] if str(each["name"]).startswith("state/"))
        if sum(math.prod(leaf.shape) for leaf in (*noise, *state)) > MAX_ENTRIES:
            raise TypeError("too large")
        interface = Interface(seen, done, noise, state)
    except (LookupError, TypeError) as error:
        raise ValueError("its metadata does not describe inputs and outputs") from error
    expected = interface.to_json()
    if any(data.get(name) != expected[name] for name in ("inputs", "outputs")):
        raise ValueError("the inputs and outputs in its metadata do not belong to its spaces")
    return interface


def _state(data: dict[str, Any]) -> Leaf:
    if data["dtype"] not in ("float32", "int64"):
        raise TypeError(data)
    return Leaf(str(data["name"]), _shape(data), data["dtype"])


def _noise(data: dict[str, Any]) -> Leaf:
    if data["draw"] not in DRAWS:
        raise TypeError(data)
    return Leaf(str(data["name"]), _shape(data), "float32", data["draw"])


def _shape(data: dict[str, Any]) -> tuple[int, ...]:
    """Return a shape of which NumPy makes an array; how large that is, is counted over all leaves."""
    shape = tuple(data["shape"])
    if len(shape) > _MOST_AXES or not all(map(is_count, shape)) or 0 in shape:
        raise TypeError(data)
    return shape


def _input_name(key: str) -> str:
    """Return the name of an observation: its key, with `observation/` in front of a key that other names may have."""
    first, nested, _ = key.partition("/")
    return f"observation/{key}" if key == "action" or (nested and first in _GENERATED) else key
