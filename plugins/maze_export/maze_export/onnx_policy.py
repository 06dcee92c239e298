"""The policy `onnx`: plays a file of `maze export`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces
from maze_recordings.space_json import space_to_json

from maze_core import ActingPolicy, ConfigError, PluginConfig, RunError, flatten_space
from maze_core.base import files
from maze_core.base.terminal_text import plain, printable
from maze_core.base.tree import copy_tree
from maze_core.envs.actors import acting_space
from maze_core.envs.spaces import allocate, leaf_spec, space_specs, start_of
from maze_core.plugins.config.external_fields import Outside
from maze_export.interface import METADATA, Interface, Leaf, read_interface

if TYPE_CHECKING:
    from gymnasium import Space
    from onnxruntime import InferenceSession

    from maze_core import Tree

PT2_HINT = "Maze plays ONNX files only, since a pt2 file may contain pickle. Next: maze export RUN --out policy.onnx"
_LARGEST_FILE = 2**31
"""Bytes; protobuf, of which ONNX files are made, allows no more."""


class OnnxPolicyConfig(PluginConfig):
    """The file to play."""

    file: Annotated[Path, Outside.NOTHING]
    """A file of `maze export`, in the format ONNX."""


class OnnxPolicy(ActingPolicy):
    """Act with a policy that `maze export` wrote as ONNX. `--policy policy.onnx` is short for it."""

    Config: ClassVar[type[PluginConfig]] = OnnxPolicyConfig

    def setup(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        """Open the file and run its network once, on zeros.

        Raises:
            ConfigError: it is no exported policy, or one for other spaces.
        """
        self._session, interface = open_policy(self.config.file)
        _check_spaces(interface, observation_space, action_space)
        observations = flatten_space(observation_space, "observation")
        self._inputs = [(key, leaf.name, start_of(observations[key])) for key, leaf in interface.observations.items()]
        self._noise, self._state = interface.noise, interface.state
        self._remembered: Tree = {}
        actions = flatten_space(action_space, "action")
        self._outputs = {key: _output(leaf, actions[key]) for key, leaf in interface.actions.items()}
        self._names = [leaf.name for leaf in interface.outputs]
        try:
            self.act(allocate(space_specs(observation_space, "observation"), (1,)), [np.random.default_rng(0)])
        except RunError as error:
            raise ConfigError(str(error), "policy.file") from None
        self._remembered = {}

    def begin(self, row: int) -> None:
        """Forget the episode of a row."""
        for leaf in self._remembered.values():
            leaf[row] = 0

    def state(self) -> dict[str, Any]:
        """Return what the policy remembers, by input."""
        return copy_tree(self._remembered)

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._remembered = copy_tree(state)

    def act(self, obs: Tree, rngs: Sequence[np.random.Generator]) -> Tree:
        """Run the file's network for all rows.

        Raises:
            RunError: it fails, or returns something else than actions.
        """
        inputs = {name: obs[key] if start is None else obs[key] + start for key, name, start in self._inputs}
        if self._state and not self._remembered:
            self._remembered = {leaf.name: np.zeros((len(rngs), *leaf.shape), leaf.dtype) for leaf in self._state}
        inputs |= self._remembered
        for leaf in self._noise:
            drawn = [getattr(rng, str(leaf.draw))(size=leaf.shape) for rng in rngs]
            inputs[leaf.name] = np.asarray(drawn, np.float32)
        try:
            arrays = self._session.run(self._names, inputs)
        except Exception as error:  # noqa: BLE001 — onnxruntime's errors have no base
            raise RunError(f"the network in {self.config.file} failed: {_reason(error)}") from None
        arrays, after = arrays[: len(self._outputs)], arrays[len(self._outputs) :]
        for leaf, array in zip(self._state, after, strict=True):
            if problem := _misfit(leaf, array, len(rngs)):
                raise RunError(f"the network in {self.config.file} returned {problem}")
            self._remembered[leaf.name] = np.array(array)
        problems = (out.problem(array, len(rngs)) for out, array in zip(self._outputs.values(), arrays, strict=True))
        if problem := next((each for each in problems if each), None):
            raise RunError(f"the network in {self.config.file} returned {problem}")
        return {key: out.stored(array) for (key, out), array in zip(self._outputs.items(), arrays, strict=True)}


class _Output(NamedTuple):
    """One output and its action leaf."""

    leaf: Leaf
    start: Any
    """The first value of a discrete leaf; 0 for others."""
    count: Any
    """The number of values of a discrete leaf; None for others."""
    dtype: np.dtype[Any]
    """The dtype in which Maze stores the action."""

    def problem(self, array: np.ndarray, rows: int) -> str | None:
        """Return what is wrong with an output, as the end of a sentence."""
        if problem := _misfit(self.leaf, array, rows):
            return problem
        if self.count is not None and not np.all((array >= self.start) & (array < self.start + self.count)):
            return f"an action {self.leaf.name!r} that does not exist"
        return None

    def stored(self, array: np.ndarray) -> np.ndarray:
        """Return the actions as policies return them: discrete values from 0 on."""
        return (array if self.count is None else array - self.start).astype(self.dtype)


def _misfit(leaf: Leaf, value: Any, rows: int) -> str | None:
    """Return how an output differs from an array of `rows` rows of a leaf, as the end of a sentence."""
    if not isinstance(value, np.ndarray):
        return f"{leaf.name!r} as a {type(value).__name__} instead of an array"
    shape = (rows, *leaf.shape)
    if value.shape == shape and value.dtype.name == leaf.dtype:
        return None
    return f"{leaf.name!r} as {value.dtype} {value.shape} instead of {leaf.dtype} {shape}"


def _output(leaf: Leaf, space: Space[Any]) -> _Output:
    start = start_of(space)
    counts = {spaces.Discrete: "n", spaces.MultiDiscrete: "nvec"}
    binary = 2 if isinstance(space, spaces.MultiBinary) else None
    count = next((getattr(space, name) for kind, name in counts.items() if isinstance(space, kind)), binary)
    return _Output(leaf, 0 if start is None else start, count, leaf_spec(space, "action").dtype)


def open_policy(file: Path) -> tuple[InferenceSession, Interface]:
    """Return the network in a file of `maze export`, and what goes in and comes out.

    Raises:
        ConfigError: there is no such file, or it is something else.
    """
    try:
        data = files.read_bytes(file, _LARGEST_FILE)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", "policy.file") from None
    try:
        session = open_session(data)
        metadata = session.get_modelmeta().custom_metadata_map.get(METADATA)  # reading them fails if they are no UTF-8
    except Exception as error:  # noqa: BLE001 — onnxruntime's errors have no base
        raise ConfigError(f"{file} is not an ONNX file that can be run: {_reason(error)}", "policy.file") from None
    if metadata is None:
        raise ConfigError(f"{file} was not written by `maze export`: it has no metadata of Maze", "policy.file")
    try:
        return session, read_interface(metadata)
    except ValueError as error:
        raise ConfigError(f"{file} cannot be used: {printable(plain(error), 300)}", "policy.file") from None


def open_session(data: bytes) -> InferenceSession:
    """Return the network in an ONNX file's bytes. It runs in one thread and prints nothing."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # A model may name other files to read its parameters from; there are none in what is no folder.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _check_spaces(interface: Interface, observation_space: Space[Any], action_space: Space[Any]) -> None:
    for name, theirs, ours in (
        ("observation", interface.observation_space, acting_space(observation_space)),
        ("action", interface.action_space, action_space),
    ):
        if space_to_json(theirs) != space_to_json(ours):
            there, here = printable(theirs, 300), printable(ours, 300)
            problem = f"the policy was exported for the {name} space {there}, but the environment has {here}"
            raise ConfigError(problem, "policy.file")


def _reason(error: Exception) -> str:
    return printable(plain(error).strip().partition("\n")[0], 300)
