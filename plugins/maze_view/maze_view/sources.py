"""Runs and recordings as plain data for the page. Their files are read as those of a stranger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from maze_compare.groups import flatten
from maze_compare.records import RunRecord
from maze_recordings.loader import load_trajectories

from maze_core import MazeError
from maze_core.base import files
from maze_core.base.metrics import RETURN
from maze_core.run.saved.run_dir import NETWORK
from maze_view.defaults import changes
from maze_view.episodes import episode_data
from maze_view.pictures import data_uri
from maze_view.plain import column, text

Source = dict[str, Any]
"""What the page shows of a run or a recording."""

_POINTS = 2000
"""Most epochs of a run in the page."""
_ALL_POINTS = 12_000
"""Most epochs of all runs."""
_METRICS, _FACTS, _NAME = 200, 300, 200
_NETWORK_BYTES = 1_000_000
_ELSEWHERE = ("summary", "started", "observers")
"""What `run.json` holds that the page shows in other words, or not at all."""
_COUNTERS = ("env_steps", "seconds", "updates", "epoch")


def run_source(record: RunRecord, among: int = 1) -> Source:
    """Return a run without episodes; `among`: number of runs in the page."""
    notes = [text(record.damage)] if record.damage else []
    try:
        differing: list[Any] | None = [[text(part) for part in change] for change in changes(record.config)]
    except MazeError as error:
        differing = None
        notes.append(f"The defaults are not known here: {text(_line(error))}")
    kept, note = thinned(record, max(100, min(_POINTS, _ALL_POINTS // among)))
    network, problem = _network(record.path)
    return {
        "name": text(record.path),
        "of": text(f"{record.algorithm} on {record.env}"),
        "facts": _facts(record),
        "notes": [*notes, *filter(None, [note, problem])],
        "changed": differing,
        "config": yaml.safe_dump(record.config, sort_keys=False),
        "network": network,
        "curves": kept,
        "episodes": [],
    }


def recording_source(folder: Path, episodes: int, frames: int) -> Source:
    """Return a recording with its first episodes; nothing of it is executed.

    Args:
        folder: a recording, or a folder of recordings with equal spaces.
        episodes: most episodes.
        frames: most pictures of all episodes, from observations that are images.

    Raises:
        TrajectoryError: it is damaged or empty.
    """
    data = load_trajectories(folder)
    spaces = (data.observation_space, data.action_space)
    count = min(episodes, len(data))
    facts = {"episodes": len(data), "steps": data.steps, "observations": spaces[0], "actions": spaces[1]}
    facts["rewards"], source = data.description.rewards, data.description.source
    return {
        "name": text(folder),
        "of": "",
        "facts": [[name, text(value)] for name, value in {**facts, **_cut(flatten({"source": source}))}.items()],
        "notes": [f"Shown are the first {count:,} of {len(data):,} episodes."] if count < len(data) else [],
        "changed": None,
        "config": "",
        "network": "",
        "curves": {},
        "episodes": [
            episode_data(number, data[number], *spaces, most_frames=frames // max(1, count)) for number in range(count)
        ],
    }


def thinned(record: RunRecord, most: int) -> tuple[dict[str, list[float | int | None]], str]:
    """Return the metrics of at most `most` epochs by name, and a note if epochs or metrics were left out."""
    epochs: Sequence[dict[str, Any]] = record.epochs
    every = -(-len(epochs) // most) if epochs else 1
    # Counted from the end, so that the newest epoch is always there.
    kept = epochs[(len(epochs) - 1) % every :: every]
    names = list(dict.fromkeys(name for epoch in kept for name in epoch))
    shown = [name for name in names if len(name) <= _NAME]
    shown.sort(key=lambda name: name not in _COUNTERS)
    left_out = len(names) - len(shown[:_METRICS])
    notes = [f"The curves show every {every}th of {len(epochs):,} epochs."] if every > 1 else []
    notes += [f"{left_out:,} metrics are left out."] if left_out else []
    return {name: column(epoch.get(name) for epoch in kept) for name in shown[:_METRICS]}, " ".join(notes)


def _facts(record: RunRecord) -> list[list[str]]:
    best, final = record.value(), record.value(take="last")
    metric = record.judged_by[0]
    judged = "return" if metric == RETURN else metric
    facts: dict[str, Any] = {
        "algorithm": record.algorithm,
        "environment": record.env,
        "seed": record.seed,
        "state": record.state,
        "reason": record.reason,
        "started": record.started.isoformat(timespec="seconds"),
        "environment steps": f"{record.count('env_steps'):,.0f}",
        "epochs": f"{record.count('epoch'):,.0f}",
        "seconds": f"{record.count('seconds'):,.0f}",
        f"best {judged}": None if best is None else f"{best:,.6g}",
        f"final {judged}": None if final is None else f"{final:,.6g}",
    }
    rest = {key: value for key, value in record.facts.items() if key not in _ELSEWHERE}
    facts |= _cut(flatten(rest))
    return [[name, text(value)] for name, value in facts.items() if value not in (None, "", {}, [])]


def _cut(facts: dict[str, Any]) -> dict[str, Any]:
    return {text(name, _NAME): facts[name] for name in list(facts)[:_FACTS]}


def _network(run_dir: Path) -> tuple[str, str]:
    """Return the picture of the network as an address, and what is wrong with it.

    It is shown as an image: what is inside can neither run nor reach anything.
    """
    try:
        return data_uri("image/svg+xml", files.read_bytes(run_dir / NETWORK, _NETWORK_BYTES)), ""
    except FileNotFoundError:
        return "", ""
    except OSError as error:
        return "", f"{NETWORK} cannot be read: {text(error.strerror)}"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
