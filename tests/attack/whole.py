"""All that a run left, as plain values: what an interrupted run must have in common with one that was not."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.attack.runs import ENV, RECORDINGS, RUN
from tests.states import plain, walk

Parts = dict[str, dict[str, str]]
"""Parts of a run, each as texts by path."""
_UNREADABLE = "unreadable"
_TIMES = ("seconds", "started", "id", "sha256")
"""What differs from run to run: times, and checksums of files that hold some."""


def whole(folder: Path, checkpoints: Iterable[str] = ("last", "best")) -> Parts:
    """The run in `folder`: checkpoints, replay data, metrics, TensorBoard's curves, summary and recordings.

    Which checkpoint is the one before the last depends on where a run stopped: where it is there, it must be whole.
    """
    import gymnasium

    run, env = folder / RUN, gymnasium.make(ENV)
    parts = checkpoints_of(run, env, checkpoints)
    if (run / "checkpoints" / "previous").exists():
        previous = _checkpoint(run, "previous", env)[0]
        parts["previous"] = {key: text for key, text in previous.items() if key == _UNREADABLE}
    parts["tensorboard"] = _curves(run / "tensorboard")
    parts["run.json"] = _texts(_timeless(json.loads((run / "run.json").read_text())))
    if (folder / RECORDINGS).exists():
        parts["recordings"] = _episodes(folder / RECORDINGS)
    return parts


def checkpoints_of(run: Path, env: Any, names: Iterable[str] = ("last", "best")) -> Parts:
    """The checkpoints and metrics of the run in this folder; `env` has the spaces of the rows of replay."""
    parts: Parts = {"metrics.jsonl": _metrics(run / "metrics.jsonl")}
    for name in names:
        parts[name], parts[f"replay of {name}"] = _checkpoint(run, name, env)
    return parts


def differences(expected: Parts, found: Parts) -> list[str]:
    """What of a run is not as expected, a line for each part."""
    lines = []
    for part in sorted(expected.keys() | found.keys()):
        ours, theirs = expected.get(part, {}), found.get(part, {})
        wrong = sorted(path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path))
        if wrong:
            shown = "; ".join(
                f"{path}: {_short(ours.get(path))} became {_short(theirs.get(path))}" for path in wrong[:3]
            )
            lines.append(f"{part}: {len(wrong)} of {len(ours.keys() | theirs.keys())} entries differ: {shown}")
    return lines


def _short(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) < 60 else f"{text[:57]}..."


def _texts(value: Any) -> dict[str, str]:
    texts = {}
    for path, leaf in walk(plain(value)):
        text = repr(leaf)
        texts[path] = text if len(text) < 200 else f"{text[:30]} {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return texts


def _timeless(record: dict[Any, Any]) -> dict[Any, Any]:
    kept = {key: value for key, value in record.items() if key not in _TIMES and not str(key).startswith("time/")}
    return {key: _timeless(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _checkpoint(run: Path, name: str, env: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The state of a checkpoint, and the replay rows that it refers to, whatever files they lie in."""
    from maze_core.base.errors import MazeError
    from maze_core.run.saved.checkpoint import read_checkpoint

    rows: dict[str, str] = {}
    try:
        saved = read_checkpoint(run / "checkpoints" / name)
    except MazeError as error:
        return {_UNREADABLE: str(error).splitlines()[0]}, rows
    state = dict(saved.state)
    collector = state["algorithm"].get("collector") if isinstance(state["algorithm"], dict) else None
    if isinstance(collector, dict) and isinstance(collector.get("replay"), dict):
        replay = dict(collector["replay"])
        rows = _texts(_rows(run, replay, env))
        del replay["segments"]
        state["algorithm"] = {**state["algorithm"], "collector": {**collector, "replay": replay}}
    return _texts({"model": saved.model, **_timeless(state)}), rows


def _rows(run: Path, replay: dict[str, Any], env: Any) -> dict[str, Any]:
    from maze_offpolicy.replay.buffer import ReplayBuffer
    from maze_offpolicy.replay.log import ReplayLog

    from maze_core.plugins.config.assembly import load_run_config

    config: Any = load_run_config(run / "config.yaml").algorithm
    buffer = ReplayBuffer(env.observation_space, env.action_space, config.replay_buffer_size)
    ReplayLog(run / "replay", buffer).load(replay)
    columns = buffer.read(buffer.rows - len(buffer), len(buffer))
    steps = columns["ahead"] > 0
    return {"rows": buffer.rows, "steps": steps, **{key: column[steps] for key, column in columns.items()}}


def _metrics(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return _texts({f"line {number}": _timeless(json.loads(line)) for number, line in enumerate(lines, 1)})


def _curves(folder: Path) -> dict[str, str]:
    """The points of all curves as TensorBoard's own reader shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    try:
        events.Reload()
    except OSError as error:
        return {_UNREADABLE: str(error)}
    tags = [tag for tag in events.Tags()["scalars"] if not tag.startswith("time/") and "/time/" not in tag]
    return {tag: str([(each.step, each.value) for each in events.Scalars(tag)]) for tag in tags if "seconds" not in tag}


def _episodes(folder: Path) -> dict[str, str]:
    """How often each episode was recorded."""
    from maze_recordings.loader import load_trajectories
    from maze_recordings.writer import columns_of

    data = load_trajectories(folder)
    found: Counter[str] = Counter()
    for episode in data:
        columns = sorted(columns_of(episode).items())
        content = b"".join(key.encode() + rows.tobytes() for key, rows in columns)
        ending = "terminated" if episode.terminated else "truncated"
        digest = hashlib.sha256(content).hexdigest()[:8]
        found[f"episode of seed {episode.seed}, {len(episode)} steps, {ending}, {digest}"] += 1
    return {name: f"{times} times" for name, times in found.items()}
