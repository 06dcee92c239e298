"""Starts a policy from the parameters of another run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maze_core.base.errors import ConfigError
from maze_core.base.saved_state import check_state
from maze_core.base.terminal_text import argument
from maze_core.run.saved.checkpoint import read_checkpoint
from maze_core.run.saved.manifest import MODEL
from maze_core.run.saved.run_dir import checkpoint_folder, find_run

if TYPE_CHECKING:
    from maze_core.models.policy import Policy


def load_parameters(policy: Policy, source: Path) -> None:
    """Load parameters and normaliser statistics of another run's best checkpoint (else its last) into a policy.

    Raises:
        ConfigError: names or shapes differ; each difference is listed.
    """
    theirs = read_checkpoint(checkpoint_folder(find_run(source), None)).model
    ours = policy.state_dict()
    problems = [f"  {name}: this run has no such tensor" for name in theirs.keys() - ours.keys()]
    problems += [f"  {name}: missing from {source}" for name in ours.keys() - theirs.keys()]
    problems += [
        f"  {name}: {tuple(theirs[name].shape)} there, {tuple(ours[name].shape)} here"
        for name in theirs.keys() & ours.keys()
        if theirs[name].shape != ours[name].shape
    ]
    if problems:
        raise ConfigError(
            "\n".join([f"the networks differ from those of {source}:", *sorted(problems)]),
            "--init-from",
            f"Next: train with the model of that run (maze config show {argument(source)}).",
        )
    check_state(theirs, ours, MODEL)
    policy.load_state_dict(theirs)
