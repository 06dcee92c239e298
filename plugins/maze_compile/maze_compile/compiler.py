"""Compiles a step: `python compiler.py FOLDER THREADS` turns FOLDER/step.json into FOLDER/step.so.

A program of its own, so that what a compiler needs takes no memory of the run. It ends when its standard input does:
then the run has ended.
"""

from __future__ import annotations

import json
import operator
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple


def _end_with_the_run() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)  # with the compilers that were started


def graph_of(description: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return a graph of torch.fx, and tensors like its inputs."""
    import torch

    graph, values, examples = torch.fx.Graph(), {}, []
    for number, shape, stride, dtype in description["inputs"]:
        values[number] = graph.placeholder(f"input_{number}")
        dtype = getattr(torch, dtype.removeprefix("torch."))
        examples.append(torch.empty_strided(shape, stride, dtype=dtype).zero_())

    def decoded(value: Any) -> Any:
        if isinstance(value, list):
            return [decoded(each) for each in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "tensor":
            return values[content]
        if kind == "arguments":
            return {name: decoded(each) for name, each in content}
        return torch.device(content) if kind == "device" else getattr(torch, content)

    for name, args, kwargs, outputs, several in description["calls"]:
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        function = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
        node = graph.call_function(function, tuple(decoded(args)), decoded(kwargs))
        for place, number in enumerate(outputs):
            if number is not None:
                values[number] = graph.call_function(operator.getitem, (node, place)) if several else node
    graph.output([values[number] for number in description["outputs"]])
    _make_cheaper(graph, examples)
    return torch.fx.GraphModule(torch.nn.Module(), graph), examples


_TANH_FROM = 8.0
"""tanh is 1 from here on, but for 3e-7."""
_TANH_ABOVE = (0.9999999935990526, 0.13444505552956804, 0.003571606956395867, 2.18948075866295e-05, 1.523062014725e-08)
_TANH_BELOW = (1.0, 0.4677783288062245, 0.02616447706616154, 0.0003411306549962487, 8.522529138792487e-07)
"""Coefficients of x^0, x^2, … of two polynomials: tanh(x) is x times the first, divided by the second. They were fitted
for the least largest relative error in between: 6e-9, in float32 with its rounding 3e-7."""


def _make_cheaper(graph: Any, examples: list[Any]) -> None:
    """Replace operations by others that give the same but for rounding, and take a fraction of the time.

    tanh in torch takes six times as long as this polynomial. So does the gradient of the weights of few inputs: the
    product of many rows by few columns is slow, and that of few rows by many columns is not.
    """
    import torch

    aten, layouts = torch.ops.aten, _layouts(graph, examples)
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            if node.target in (aten.tanh.default, aten.tanh_.default) and layouts[node].dtype == torch.float32:
                other = _tanh(graph, node.args[0])
                if node.target is aten.tanh_.default:
                    other = graph.call_function(aten.copy_.default, (node.args[0], other))
            elif node.target is aten.mm.default and _has_few_columns(*(layouts[each] for each in node.args)):
                other = _turned(graph, *node.args)
            else:
                continue
            layouts[other] = layouts[node]  # what is replaced next may ask for it
            node.replace_all_uses_with(other)
            graph.erase_node(node)


class _Layout(NamedTuple):
    """How a tensor lies in memory."""

    dtype: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def _layouts(graph: Any, examples: list[Any]) -> dict[Any, _Layout]:
    """Return how the tensor of each node lies in memory, found by computing all of them, each as long as it is used."""
    import torch

    given = iter(examples)
    values: dict[Any, Any] = {}
    layouts: dict[Any, _Layout] = {}
    uses = {node: len(node.users) for node in graph.nodes}
    for node in graph.nodes:
        if node.op == "output":
            break
        if node.op == "placeholder":
            value = next(given)
        else:
            args, kwargs = (torch.fx.map_arg(each, values.__getitem__) for each in (node.args, node.kwargs))
            value = node.target(*args, **kwargs)
        if uses[node]:
            values[node] = value
        if isinstance(value, torch.Tensor):
            layouts[node] = _Layout(value.dtype, tuple(value.shape), value.stride())
        for used in node.all_input_nodes:
            uses[used] -= 1
            if not uses[used]:
                del values[used]
    return layouts


def _has_few_columns(left: _Layout, right: _Layout) -> bool:
    """Whether a product of a transposed matrix has many rows and few columns."""
    (rows, within), columns = left.shape, right.shape[1]
    return bool(left.stride[0] == 1 and within > columns and rows >= 2 * columns)


def _turned(graph: Any, left: Any, right: Any) -> Any:
    """Return a node with a product, computed as the transpose of that of the transposed matrices."""
    import torch

    aten = torch.ops.aten
    left, right = (graph.call_function(aten.t.default, (each,)) for each in (left, right))
    product = graph.call_function(aten.t.default, (graph.call_function(aten.mm.default, (right, left)),))
    return graph.call_function(aten.clone.default, (product,), {"memory_format": torch.contiguous_format})


def _tanh(graph: Any, x: Any) -> Any:
    """Return a node with the tanh of x."""
    import torch

    aten = torch.ops.aten

    def call(function: Any, *args: Any) -> Any:
        return graph.call_function(function, args)

    x = call(aten.clamp.default, x, -_TANH_FROM, _TANH_FROM)
    square = call(aten.mul.Tensor, x, x)
    parts = []
    for coefficients in (_TANH_ABOVE, _TANH_BELOW):
        *rest, last = coefficients
        part = call(aten.mul.Tensor, square, last)
        for coefficient in reversed(rest[1:]):
            part = call(aten.mul.Tensor, call(aten.add.Tensor, part, coefficient), square)
        parts.append(call(aten.add.Tensor, part, rest[0]))
    return call(aten.div.Tensor, call(aten.mul.Tensor, x, parts[0]), parts[1])


def main() -> None:
    """Compile a step."""
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    import torch
    import torch._inductor
    from torch._inductor import config

    torch.set_num_threads(threads)
    config.cpp.threads = threads
    config.allow_buffer_reuse = False  # with it torch 2.13 gives a wrong gradient of an encoder of images
    config.cpp.vec_isa_ok = True  # else a program tries each extension that the processor has
    config.aot_inductor.precompile_headers = config.cpp_cache_precompile_headers = False  # they would serve once
    module, examples = graph_of(json.loads((folder / "step.json").read_text(encoding="utf-8")))
    with torch.no_grad():
        made = torch._inductor.aot_compile(module, tuple(examples), options={})
    Path(str(made)).replace(folder / "step.so")


if __name__ == "__main__":
    main()
