"""The two formats of an exported policy: how each is written to bytes and run from bytes."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from maze_core import ConfigError, to_arrays, to_tensors
from maze_core.base.blame import causes
from maze_core.base.terminal_text import plain, printable
from maze_export.interface import METADATA, Interface

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from maze_core import Tree
    from maze_export.graph import ExportedPolicy

Format = Literal["onnx", "pt2"]
FORMATS: tuple[Format, ...] = get_args(Format)
PT2_FILE = f"{METADATA}.json"
"""The name of the description within a pt2 file."""

_ALIKE = "A model's forward must not branch on the values of tensors, and must treat the rows of a batch alike."
_NO_ONNX = "ONNX may have no such operation. Next: --out FILE.pt2, whose operations are those of torch"

Play = Callable[["Tree"], "Tree"]
"""Runs an exported policy: inputs by name, leaves [B, …], to outputs by name."""


def write(policy: ExportedPolicy, name: Format, about: Mapping[str, Any]) -> bytes:
    """Return the contents of a file with a policy and its description.

    Raises:
        ConfigError: torch cannot export this network.
    """
    try:
        with _silent():
            return _WRITERS[name](policy, about)
    except Exception as error:  # noqa: BLE001 — whatever the exporter and the network raise
        reason: BaseException = error
        hint = _ALIKE
        if type(error).__module__.startswith("torch.onnx"):  # its causes say what is wrong
            reason, hint = list(causes(error, "__cause__"))[-1], _NO_ONNX
        text = printable(_first_line(reason), 300)
        raise ConfigError(f"torch cannot export this network to {name}: {text}", "model", hint) from None


def _first_line(error: BaseException) -> str:
    """Return the first line of an exporter's message that says something, without its colours."""
    lines = (line.strip() for line in plain(error).splitlines())
    said = [line for line in lines if any(map(str.isalnum, line))]
    return said[0] if said else type(error).__name__


def load(data: bytes, name: Format, interface: Interface) -> Play:
    """Return what runs the contents that `write` returned."""
    with _silent():
        return _LOADERS[name](data, interface)


def _write_onnx(policy: ExportedPolicy, about: Mapping[str, Any]) -> bytes:
    interface = policy.interface
    program = torch.onnx.export(
        _program(policy),
        input_names=[leaf.name for leaf in interface.inputs],
        output_names=[leaf.name for leaf in interface.outputs],
        dynamic_shapes=({leaf.name: {0: "batch"} for leaf in interface.inputs},),
        verbose=False,
    )
    if program is None:
        raise RuntimeError("the exporter returned nothing")
    model = program.model
    for node in model.graph:
        node.metadata_props.clear()  # names of the exporter
    model.metadata_props.clear()
    model.metadata_props[METADATA] = json.dumps(about)
    model.graph.name, model.doc_string = "policy", about["description"]
    model.producer_name, model.producer_version = "maze-export", about["versions"]["maze-export"]
    model.model_version = about["run"]["epoch"]  # a reader of a file without one makes up a number
    written: bytes = program.model_proto.SerializeToString()
    return written


def _write_pt2(policy: ExportedPolicy, about: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.export.save(_program(policy), file, extra_files={PT2_FILE: json.dumps(about)})
    return file.getvalue()


def _program(policy: ExportedPolicy) -> ExportedProgram:
    inputs = policy.example(2)  # two rows: torch takes a size of one for a constant
    batch = torch.export.Dim("batch")
    program = torch.export.export(policy, (inputs,), dynamic_shapes=({name: {0: batch} for name in inputs},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    return program


def _load_onnx(data: bytes, interface: Interface) -> Play:
    from maze_export.onnx_policy import open_session

    session, names = open_session(data), [leaf.name for leaf in interface.outputs]

    def play(inputs: Tree) -> Tree:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return play


def _load_pt2(data: bytes, interface: Interface) -> Play:
    # Pickle lies within such a file, so none is loaded but the one that was just written.
    module = torch.export.load(io.BytesIO(data)).module()

    def play(inputs: Tree) -> Tree:
        with torch.no_grad():
            outputs = module(to_tensors(inputs))
        return to_arrays(outputs)

    return play


_WRITERS: Mapping[Format, Callable[[ExportedPolicy, Mapping[str, Any]], bytes]] = {
    "onnx": _write_onnx,
    "pt2": _write_pt2,
}
_LOADERS: Mapping[Format, Callable[[bytes, Interface], Play]] = {"onnx": _load_onnx, "pt2": _load_pt2}


@contextmanager
def _silent() -> Iterator[None]:
    """Keep back the exporter's notes about itself, pages of them: what it does is checked afterwards."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
