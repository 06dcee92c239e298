"""Draw the pictures of the architecture page from the code.

    python docs/structure.py        write docs/pictures/kinds.svg, rooms.svg, road.svg and timeline.svg

Distributions, rooms and their arrows come from imports. The stations of the road of a row are classes: one that moves
or disappears is an error here. So is a hook without a time, and a time without a hook; files are those that call it.
"""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import libraries_page as libraries

ROOT = Path(__file__).resolve().parents[1]
CORE, PICTURES = ROOT / "maze_core", ROOT / "docs" / "pictures"
ROOMS = {
    "cli": "commands, and the callbacks that print and log",
    "run": "the run and its loop, evaluations, checkpoints, the run directory",
    "learn": "the base of algorithms, the gradient step, optimizers",
    "collect": "agents, the stepper, workers",
    "models": "policies, encoders, distributions",
    "data": "rollouts, batches, sequences",
    "envs": "spaces, vector environments, sources, wrappers",
    "plugins": "how plugins are found, called and configured",
    "base": "errors, files, seeds, processes, trees",
}


class Station(NamedTuple):
    """A class on the road of a row."""

    place: str
    says: str
    column: int
    row: int


ROAD = (
    Station("maze_core.collect.stepper:Stepper", "agent acts, environments step", 1, 0),
    Station("maze_core.envs.vector:StepResult", "one step of N environments", 1, 1),
    Station("maze_onpolicy.collect.assembler:Assembler", "several agents: open actions", 2, 1),
    Station("maze_onpolicy.data.transitions:Transitions", "complete, of single rows", 2, 2),
    Station("maze_core.data.rollout:Rollout", "T steps of N rows, also of workers", 0, 3),
    Station("maze_offpolicy.replay.buffer:ReplayBuffer", "the newest rows", 1, 3),
    Station("maze_offpolicy.replay.selectors:Selector", "chooses the rows of a batch", 2, 3),
    Station("maze_core.data.batch:Batch", "rows to learn from", 1, 4),
    Station("maze_core.learn.learner:Learner", "backward, clip, optimizer", 1, 5),
)
ARROWS = (
    ("Stepper", "StepResult"),
    ("StepResult", "Assembler"),
    ("StepResult", "Rollout"),
    ("StepResult", "ReplayBuffer"),
    ("Assembler", "Transitions"),
    ("Transitions", "Rollout"),
    ("Transitions", "ReplayBuffer"),
    ("Rollout", "ReplayBuffer"),
    ("Selector", "ReplayBuffer"),
    ("Rollout", "Batch"),
    ("ReplayBuffer", "Batch"),
    ("Batch", "Learner"),
)
TIMELINE = {
    "before the first step": {
        "make_vector_env": "a natively vectorised environment",
        "make_env": "one environment; wrappers wrap it",
        "make_agents_env": "or one with several agents",
        "build_policy": "policy and critic",
        "build_planner": "what looks ahead",
        "wrap_agent": "who acts",
        "build_modules": "networks beside the policy",
        "on_run_start": "all is built, nothing stepped",
    },
    "each update": {
        "change_rollout": "on-policy: rewards, values added",
        "change_transitions": "off-policy: each sampled batch",
        "compute_loss": "the objective of each batch",
    },
    "each epoch": {
        "on_evaluation": "evaluations within the epoch",
        "on_metrics": "metrics that plugins add",
        "on_epoch_end": "all metrics; may stop the run",
        "on_checkpoint": "the best, the last: complete on disk",
    },
    "the end": {"on_run_end": "also after a failure"},
}
"""When each hook is called."""
_STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:14px;fill:#1f2430}.small{font-size:12px;fill:#5a6272}"
    "rect{fill:#eef2f8;stroke:#9aa7bd}path{fill:none;stroke:#5b7db1;stroke-width:1.6}.name{font-weight:600}"
)


def main() -> None:
    """Write all pictures."""
    for name, picture in pictures().items():
        (PICTURES / name).write_text(picture, encoding="utf-8")


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    return {"kinds.svg": kinds(), "rooms.svg": rooms(), "road.svg": road(), "timeline.svg": timeline()}


def kinds() -> str:
    """Return plugins, libraries and core from above, with an arrow to each library that a distribution imports."""
    packages = {folder.name: folder / folder.name for folder in libraries.folders()}
    own = {name: _tops(path) & packages.keys() - {name} for name, path in packages.items()}
    heights = dict.fromkeys(packages, 1)
    for name in sorted(packages, key=lambda each: len(_below(each, own))):
        heights[name] = 1 + max((heights[each] for each in own[name]), default=0)
    plugins = [path for path in sorted(ROOT.glob("plugins/*")) if path.name not in packages]
    using = Counter(each for path in plugins for each in _tops(path / path.name) & packages.keys())
    top, width, height, parts = max(heights.values()), 160, 58, []
    rows = [[each for each in packages if heights[each] == level] for level in range(top, 0, -1)]
    across = max(len(row) for row in rows) * (width + 24) + 16
    y = 16
    parts += _band(
        16, y, across - 24, 46, f"{len(plugins)} plugins", "each imports the core, and libraries; none another"
    )
    places = {}
    for row in rows:
        y += 46 + 44 if row is rows[0] else height + 44
        for number, name in enumerate(row):
            places[name] = (16 + number * (width + 24), y)
            parts += _band(*places[name], width, height, name, f"for {using[name]} plugins", below=True)
    y += height + 44
    parts += _band(16, y, across - 24, 46, "maze_core", "imports none of them; finds them by entry point")
    for name, (x, start) in places.items():
        for other in sorted(own[name]):
            u, end = places[other]
            path = f"M{x + width / 2},{start + height} L{u + width / 2},{end - 6}"
            parts.append(f'<path d="{path}" marker-end="url(#tip)"/>')
    return picture(across, y + 62, parts, "Plugins above libraries above the core; each imports only what is below it.")


def _band(x: float, y: float, width: float, height: float, name: str, says: str, below: bool = False) -> list[str]:
    """Return a box with a name, and what is said of it beside the name or below it."""
    place = (x + 12, y + 44) if below else (x + 150, y + 28)
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>',
        f'<text class="name" x="{x + 12}" y="{y + (24 if below else 28)}">{escape(name)}</text>',
        f'<text class="small" x="{place[0]}" y="{place[1]}">{escape(says)}</text>',
    ]


def _tops(package: Path) -> set[str]:
    """Return the packages that the files of a package import."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py"))
    return {name.partition(".")[0] for tree in trees for name in _imported(tree)}


def _below(name: str, own: dict[str, set[str]]) -> set[str]:
    """Return the libraries that a library imports, directly or not."""
    return own[name] | {each for lower in own[name] for each in _below(lower, own)}


def imports() -> Counter[tuple[str, str]]:
    """Return how many imports lead from each room to each other one, late ones and those of types included."""
    found: Counter[tuple[str, str]] = Counter()
    for path in CORE.rglob("*.py"):
        room = path.relative_to(CORE).parts[0]
        for name in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            other = name.split(".")[1] if name.startswith("maze_core.") else room
            if room in ROOMS and other in ROOMS and other != room:
                found[room, other] += 1
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def rooms() -> str:
    """Return the rooms from above, and an arc for each pair of which the upper one imports the lower one."""
    names, found, parts = list(ROOMS), imports(), []
    left, width, height, gap = 20, 520, 44, 14
    for number, (name, says) in enumerate(ROOMS.items()):
        y = 16 + number * (height + gap)
        parts.append(f'<rect x="{left}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        parts.append(f'<text class="name" x="{left + 14}" y="{y + 27}">{name}</text>')
        parts.append(f'<text class="small" x="{left + 96}" y="{y + 27}">{escape(says)}</text>')
    for upper, lower in found:
        first, last = names.index(upper), names.index(lower)
        if first < last:
            start, end = (16 + place * (height + gap) + height / 2 for place in (first, last))
            bend, x = 26 + 16 * (last - first), left + width
            path = f"M{x},{start} C{x + bend},{start} {x + bend},{end} {x + 6},{end}"
            parts.append(f'<path d="{path}" marker-end="url(#tip)"/>')
    return picture(720, 20 + len(ROOMS) * (height + gap), parts, "Nine rooms; each imports only rooms below it.")


def road() -> str:
    """Return the way of a row from the environment to the gradient."""
    width, height, across, down, parts, places = 228, 58, 256, 100, [], {}
    for place, says, column, row in ROAD:
        module, _, name = place.partition(":")
        getattr(importlib.import_module(module), name)
        x, y = 16 + column * across, 16 + row * down
        places[name] = (x, y)
        parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        parts.append(f'<text class="name" x="{x + 12}" y="{y + 24}">{name}</text>')
        parts.append(f'<text class="small" x="{x + 12}" y="{y + 44}">{escape(says)}</text>')
    for start, end in ARROWS:
        (x, y), (u, v) = places[start], places[end]
        if y == v:
            path = f"M{x + width},{y + height / 2} L{u - 6},{v + height / 2}"
            if u < x:
                path = f"M{x},{y + height / 2} L{u + width + 6},{v + height / 2}"
            elif u - x > across:  # over the station between them
                path = (
                    f"M{x + width / 2},{y} C{x + width / 2},{y - 40} {u + width / 2},{v - 40} {u + width / 2},{v - 6}"
                )
        else:
            middle, here, there = (y + height + v) / 2, x + width / 2, u + width / 2
            path = f"M{here},{y + height} C{here},{middle} {there},{middle} {there},{v - 6}"
        parts.append(f'<path d="{path}" marker-end="url(#tip)"/>')
    return picture(772, 16 + 6 * down, parts, "From the step of the environments to the gradient step.")


def timeline() -> str:
    """Return the hooks from above in the order of their calls, with the file that calls each."""
    called = callers()
    planned = [name for hooks in TIMELINE.values() for name in hooks]
    if sorted(planned) != sorted(called):
        raise ValueError(f"hooks that differ from the timeline: {sorted(set(planned) ^ set(called))}")
    y, parts, tops = 16, [], {}
    for phase, hooks in TIMELINE.items():
        height = 34 + 26 * len(hooks)
        tops[phase] = (y, y + height)
        parts.append(f'<rect x="76" y="{y}" width="680" height="{height}" rx="6"/>')
        parts.append(f'<text class="small" x="88" y="{y + 20}">{phase}</text>')
        for number, (name, says) in enumerate(hooks.items()):
            line = y + 44 + 26 * number
            parts.append(f'<text class="name" x="100" y="{line}">{name}</text>')
            parts.append(f'<text class="small" x="276" y="{line}">{escape(says)}</text>')
            parts.append(f'<text class="small" x="744" y="{line}" text-anchor="end">{called[name]}</text>')
        y += height + 16
    (update, _), (_, end) = tops["each update"], tops["each epoch"]
    for x, top, bottom in ((52, *tops["each update"]), (24, update, end)):
        path = f"M72,{bottom - 12} L{x},{bottom - 12} L{x},{top + 12} L68,{top + 12}"
        parts.append(f'<path d="{path}" marker-end="url(#tip)"/>')
    return picture(772, y, parts, "The hooks of a run in the order of their calls.")


def callers() -> dict[str, str]:
    """Return the file of the core or of a library that calls each hook, of several the first by name.

    There is none where nobody calls.
    """
    specs = ast.parse((CORE / "plugins" / "hookspecs.py").read_text(encoding="utf-8"))
    found = {node.name: "" for node in ast.walk(specs) if isinstance(node, ast.FunctionDef)}
    for base in (CORE, *libraries.folders()):
        for path in sorted(base.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "hooks." in text else ():
                if isinstance(node, ast.Attribute) and node.attr in found and ast.unparse(node.value).endswith("hooks"):
                    found[node.attr] = found[node.attr] or path.relative_to(base).as_posix()
    return {name: file for name, file in found.items() if file}


def picture(width: int, height: int, parts: list[str], title: str) -> str:
    """Return a picture of these parts on white."""
    tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
    tip += '<path d="M0,0 L8,4 L0,8 z" style="fill:#5b7db1;stroke:none"/></marker>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"><title>{title}</title>'
    body = "\n".join([head, f"<style>{_STYLE}</style>", f"<defs>{tip}</defs>"])
    return (
        f'{body}\n<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
