"""Writes the policy of a run to a file that runs without Maze."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from maze_core import ConfigError, vector_env
from maze_core.base import files
from maze_core.base.process_state import torch_threads
from maze_core.base.terminal_text import shown
from maze_core.base.tolerant_output import to_stderr
from maze_core.envs.wrappers import cycled
from maze_export.agreement import ENVS, ROWS, check_agreement, recorded
from maze_export.formats import FORMATS, Format, load, write
from maze_export.graph import ExportedPolicy, actor
from maze_export.meanings import declared_actions
from maze_export.origin import facts_of, planner_names

if TYPE_CHECKING:
    from maze_core import Run


class Exported(NamedTuple):
    """A file that was written."""

    file: Path
    bytes: int
    rows: int
    """Observations on which it was compared with torch."""
    without: tuple[str, ...] = ()
    """The plugins with which the run looks ahead: the file is the network alone."""
    sha256: str = ""
    """Checksum of the file."""


def export_policy(
    run: Run,
    file: Path | str,
    format: Format | None = None,
    *,
    stochastic: bool = False,
) -> Exported:
    """Write the current policy of a run to a file, once it gives the actions of torch.

    Args:
        run: a run with its policy, such as `RunContext.open("runs/first").run`.
        file: the new file; one that exists is replaced.
        format: `onnx` or `pt2`; None: by the suffix of the file.
        stochastic: sample actions, with noise as further inputs, instead of the most likely ones.

    Raises:
        ConfigError: the network cannot be exported, or the exported one differs; nothing is written.
    """
    file = Path(file)
    chosen = _format(file, format)
    run.check_open()
    if (note := run.environments.left_behind()) is not None:
        to_stderr(f"note: {note}")
    with torch_threads(run.config.threads):
        policy = ExportedPolicy(actor(run.policy), stochastic=stochastic)
        about = policy.interface.to_json(**facts_of(run), actions=declared_actions(run, policy.interface))
        data = write(policy, chosen, about)
        with closing(vector_env(run.env_builder("rollout"), ENVS)) as env:
            env.load_memory(cycled(run.wrapper_memory(), range(ENVS)))
            obs, state = recorded(policy.policy, env, run.seed, ROWS)
        check_agreement(policy, load(data, chosen, policy.interface), obs, state, run.seed)
    try:
        files.write_bytes(file, data)
    except OSError as error:
        raise _unwritable(file, str(error.strerror)) from None
    return Exported(
        file, len(data), len(next(iter(obs.values()))), planner_names(run), hashlib.sha256(data).hexdigest()
    )


def _format(file: Path, format: Format | None) -> Format:
    """Return the format of a file.

    Raises:
        ConfigError: it is unknown, or the file cannot be written.
    """
    suffix = file.suffix.removeprefix(".")
    chosen = next((each for each in FORMATS if each == (format or suffix)), None)
    if chosen is None and format is not None:
        raise ConfigError(f"must be {' or '.join(FORMATS)}, got {shown(format)}", "--format")
    if chosen is None or suffix != chosen:
        endings = " or ".join(f".{each}" for each in ([chosen] if chosen else FORMATS))
        raise ConfigError(f"{file} must end in {endings}", "--out")
    if not file.parent.is_dir():
        raise _unwritable(file, f"there is no folder {file.parent}")
    if file.is_dir():
        raise _unwritable(file, "it is a folder")
    return chosen


def _unwritable(file: Path, reason: str) -> ConfigError:
    return ConfigError(f"cannot write {file}: {reason}", "--out")
