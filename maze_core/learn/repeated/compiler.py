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
from typing import Any


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
    return torch.fx.GraphModule(torch.nn.Module(), graph), examples


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
