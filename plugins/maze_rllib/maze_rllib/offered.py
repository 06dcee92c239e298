"""Which of RLlib's parameters its algorithms read, and in which runs, so that only those with an effect can be set.

The data are traced with the installed Ray: `python -m maze_rllib.tracing` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from maze_core import ConfigError
from maze_rllib.refused import REFUSED, WITHOUT_EFFECT

FILE = Path(__file__).with_name("reads.json")

WORKERS, LEARNERS, CLUSTER, THEIR_NETWORK = "workers", "learners", "cluster", "their network"
"""What some parameters need: env runners or learners in other processes, a cluster, RLlib's own network."""
_MISSING: Mapping[str, tuple[str, str]] = {
    WORKERS: ("has no effect where environments are stepped in this process", "Next: --runner local"),
    LEARNERS: ("has no effect while algorithm.num_learners is 0", "Next: --num-learners 1"),
    CLUSTER: (
        "has no effect on one machine, where Maze lets Ray start all processes at once",
        "Next: leave it out; or --runner ray --set runner.address=auto",
    ),
    THEIR_NETWORK: ("needs RLlib's own network", "Next: --rllib-model"),
}
_ALSO: Mapping[str, Collection[str]] = {
    "custom_resources_per_env_runner": (WORKERS, CLUSTER),
    "custom_resources_per_learner": (LEARNERS, CLUSTER),
    "max_requests_in_flight_per_env_runner": (WORKERS,),
    "model_config": (THEIR_NETWORK,),
    "num_cpus_per_env_runner": (WORKERS, CLUSTER),
    "num_cpus_per_learner": (LEARNERS, CLUSTER),
    "num_gpus_per_env_runner": (WORKERS,),
    "sample_timeout_s": (WORKERS,),
    "use_env_runner_state_server": (WORKERS,),
}
"""Parameters that are read in every run, with what they need for an effect."""
_UNLESS: Mapping[str, tuple[str, Any]] = {
    "circular_buffer_iterations_per_batch": ("use_circular_buffer", False),
    "circular_buffer_num_batches": ("use_circular_buffer", False),
    "grad_clip_by": ("grad_clip", None),
    "kl_coeff": ("use_kl_loss", False),
    "kl_target": ("use_kl_loss", False),
    "simple_queue_size": ("use_circular_buffer", True),
    "v_max": ("num_atoms", 1),
    "v_min": ("num_atoms", 1),
}
"""Parameters that have no effect while another one has a value."""


@cache
def traced() -> dict[str, Any]:
    """Return the data: `ray`, the version, and for each algorithm the parameters it reads, with what that needs."""
    data: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return data


def other_version() -> str:
    """Return a sentence if another Ray is installed than that of the data, which may read other parameters."""
    found, known = version("ray"), traced()["ray"]
    if found == known:
        return ""
    return f"what RLlib reads is known of Ray {known}, and this is {found}: a parameter that is set may have no effect"


def is_read(title: str, name: str, reads: Container[str] | None = None) -> bool:
    """Return True if an algorithm reads a parameter with an effect, in some run at least. `reads`: other traces."""
    known = traced().get(title, {}) if reads is None else reads
    return name in known and name not in WITHOUT_EFFECT.get(title, {}) and name not in REFUSED


def needs(title: str, name: str, reads: Mapping[str, Collection[str]] | None = None) -> list[str]:
    """Return what a parameter needs for an effect, of `WORKERS`, `LEARNERS`, `CLUSTER` and `THEIR_NETWORK`."""
    known = traced().get(title, {}) if reads is None else reads
    return list(dict.fromkeys((*known.get(name, ()), *_ALSO.get(name, ()))))


def idle(title: str, values: Mapping[str, Any], given: Mapping[str, bool]) -> Iterator[ConfigError]:
    """Yield an error for each of `values`, those that are set, that has no effect in a run.

    `given` says of what parameters may need whether the run has it; what it leaves out is not known yet.
    """
    for name in values:
        lacking = next((need for need in needs(title, name) if not given.get(need, True)), None)
        if lacking is not None:
            message, hint = _MISSING[lacking]
            yield ConfigError(message, f"algorithm.{name}", hint)


def switched_off(values: Mapping[str, Any], every: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Yield an error for each of `values`, those that are set, that another one of `every` switches off."""
    for name in values:
        switch, off = _UNLESS.get(name, ("", None))
        if switch in every and every[switch] == off:
            text = f"has no effect while algorithm.{switch} is {json.dumps(off)}"
            yield ConfigError(text, f"algorithm.{name}", f"Next: set algorithm.{switch} too, or leave it out")
