"""Configurations of RLlib that note which of their parameters are read, in every process that has them.

Not every look at a parameter is a use of it: those of RLlib's checks, of copies and of methods that set parameters do
not count.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

_FILE = "_traced_to"
"""The attribute with the file to which a configuration writes; it travels to other processes."""
_NO_USE = (
    "__init__",
    "__setattr__",
    "_resolve_tf_settings",
    "_translate_special_keys",
    "api_stack",
    "build_algo",
    "callbacks",
    "checkpointing",
    "copy",
    "debugging",
    "env_runners",
    "environment",
    "evaluation",
    "experimental",
    "fault_tolerance",
    "framework",
    "freeze",
    "from_dict",
    "from_state",
    "get_state",
    "learners",
    "multi_agent",
    "offline_data",
    "overrides",
    "reporting",
    "resources",
    "rl_module",
    "serialize",
    "to_dict",
    "training",
    "update_from_dict",
    "validate",
    "validate_train_batch_size_vs_rollout_fragment_length",
)
"""Methods of a configuration that look at parameters without using them."""
_STORED = {"_model_config": "model_config", "_train_batch_size_per_learner": "train_batch_size_per_learner"}
"""Parameters by the attributes under which RLlib keeps them."""
_FOR_NETWORKS = "_model_config_auto_includes"
"""The method that hands parameters to RLlib's own networks, and to no other."""


def trace(config: Any, file: Path) -> None:
    """Let a configuration of RLlib, and all its copies, write each parameter that is read to a file, one a line."""
    config.__class__ = _traced(type(config).__name__)
    object.__setattr__(config, _FILE, str(file))


def noted(file: Path, *, own_network: bool) -> set[str]:
    """Return the parameters that were read; `own_network`: RLlib's own, rather than one of Maze's."""
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    return {name for name, way in lines if own_network or way != _FOR_NETWORKS}


def __getattr__(name: str) -> Any:
    """Return the class `TracedTITLEConfig`, by which pickle finds it in another process."""
    if not (name.startswith("Traced") and name.endswith("Config")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _traced(name.removeprefix("Traced"))


@cache
def _traced(name: str) -> Any:
    """Return the class of RLlib with that name, such as `PPOConfig`, as one that notes what is read."""
    from maze_rllib.parameters import rllib_config

    kind: Any = type(rllib_config(name.removesuffix("Config")))

    def look(self: Any, attribute: str) -> Any:
        if not attribute.startswith("__") and attribute != _FILE:
            _note(self, attribute, sys._getframe(1))
        return kind.__getattribute__(self, attribute)

    title = f"Traced{name}"
    return type(title, (kind,), {"__getattribute__": look, "__module__": __name__, "__qualname__": title})


def _note(config: Any, name: str, frame: FrameType | None) -> None:
    file, noted_before = vars(config).get(_FILE), vars(config).setdefault("_noted", set())
    own, way = _STORED.get(name, name), _way(frame)
    if file is None or way is None or (own, way) in noted_before:
        return
    noted_before.add((own, way))
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{own} {way}\n")


def _way(frame: FrameType | None) -> str | None:
    """Return which method of a configuration hands a parameter on, `-` for none; None where that is no use of it."""
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    way = "-"
    while frame is not None and isinstance(frame.f_locals.get("self"), AlgorithmConfig):
        method = frame.f_code.co_name
        if method in _NO_USE or method.startswith("_validate"):
            return None
        way = method if method == _FOR_NETWORKS else way
        frame = frame.f_back
    by_maze = frame is not None and frame.f_globals.get("__name__", "").startswith("maze_rllib.")
    return None if by_maze else way
