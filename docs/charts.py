"""Draw what the published figures say: a picture for each algorithm, and one beside peers.

    python docs/charts.py        write docs/pictures/algorithms/*.svg and docs/pictures/peers.svg

The figures are those of docs/benchmarks/*.json. The same figures give the same pictures, to the byte. The page of an
algorithm that has figures shows its picture below the heading Measured, or before the presets or the references.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent
PICTURES = DOCS / "pictures"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
WIDTH, HEIGHT, ACROSS = 250, 150, 330
"""Of the area of a panel, and between two panels."""
LEFT, TOP, BAR = 58, 46, 38
"""The margins of a panel, and the height of a pair of bars."""
MOST = 12
"""Panels of a picture."""
RECORDED = "score by seed, from recordings of half-trained SAC"
OF_EXPERT = "score by seed, from 20 episodes of an expert"
OF_GAMES = "% of games against random moves, by seed"
OFFLINE = ("bc", "cql", "dt", "iql", "td3_bc")
BESIDE = {"vdn": "qmix", "ddpg": "td3", "airl": "gail", "sacfd": "sac"}
"""Algorithms that are described with another one, in whose picture they are."""
SHARED = {"a2c": ("pg",), "dqn": ("pqn", "apex"), "es": ("cma_es",), "impala": ("appo",), "iql": ("cql", "td3_bc")}
"""Pages of algorithms with sections on further ones, which have pictures of their own."""
_STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:11px;fill:#1f2430}.title{font-weight:600;font-size:13px}"
    ".small{fill:#5a6272}.halo{paint-order:stroke;stroke:#fff;stroke-width:4px}.axis{stroke:#9aa7bd;fill:none}.grid{stroke:#e3e8f0}.line{fill:none;stroke-width:1.8}"
)
Points = list[list[float]]


class Shown(NamedTuple):
    """What is drawn of the run that the page of an algorithm shows."""

    page: str
    row: str
    """In page_curves.json."""
    title: str
    metrics: dict[str, str]
    """Metrics, and their names in the picture."""
    beside: tuple[str, float] | None = None
    """A line with its name."""
    below: str = "environment steps"


SHOWN = (
    Shown(
        "maml",
        "maml-PointNavigation",
        "PointNavigation",
        {"train/return_mean": "before", "train/adapted_return_mean": "after the step"},
    ),
    Shown(
        "cql", "cql-Pendulum-v1", "Pendulum-v1", {"eval/return_mean": "mean return"}, ("the data", -539.0), "updates"
    ),
    Shown("rllib", "rllib_ppo-CartPole-v1", "rllib-ppo, CartPole-v1", {"eval/return_mean": "mean return"}),
)


class Panel(NamedTuple):
    """One diagram: its title, what it is about, and what draws it into the area that begins at x and y."""

    title: str
    about: str
    draw: Callable[[float, float], list[str]]


def main() -> None:
    """Write all pictures."""
    (PICTURES / "algorithms").mkdir(parents=True, exist_ok=True)
    for name, picture in pictures().items():
        (PICTURES / name).write_text(picture, encoding="utf-8")
    for page in (DOCS / "algorithms").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(with_pictures(page.stem, text), encoding="utf-8")


def with_pictures(page: str, text: str) -> str:
    """Return a page with the pictures of its algorithms."""
    for name in (page, *SHARED.get(page, ())):
        text = with_picture(name, text)
    return text


def with_picture(name: str, text: str) -> str:
    """Return the page of an algorithm with its picture, if there are figures."""
    if not (panels := list(of_algorithm(name))[:MOST]):
        return text
    kind = "Scores by seed" if panels[0].about in (RECORDED, OF_EXPERT, OF_GAMES) else "Learning curves"
    titles = ", ".join(panel.title for panel in panels)
    line = f"![{kind} on {titles}.](../pictures/algorithms/{name}.svg)"
    shown = re.compile(rf"!\[[^]]*\]\(\.\./pictures/algorithms/{name}\.svg\)")
    if shown.search(text):
        return shown.sub(lambda found: line, text)
    if "\n## Measured\n" in text:
        return text.replace("\n## Measured\n", f"\n## Measured\n\n{line}\n", 1)
    before = next(each for each in ("\n## Presets\n", "\n## References\n") if each in text)
    return text.replace(before, f"\n## Measured\n\n{line}\n{before}", 1)


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    found = {"peers.svg": beside_peers()}
    pages = [page.stem for page in (DOCS / "algorithms").glob("*.md")]
    for name in sorted([*pages, *(each for page in pages for each in SHARED.get(page, ()))]):
        if panels := list(of_algorithm(name)):
            found[f"algorithms/{name}.svg"] = picture(panels[:MOST], f"What {name} reached.")
    return found


def load(name: str) -> dict[str, Any]:
    """Return published figures by row; none where nothing was measured."""
    file = DOCS / "benchmarks" / f"{name}.json"
    figures: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return figures


# Which panels


def of_algorithm(name: str) -> Iterator[Panel]:
    """Yield the panels of an algorithm: learning curves by environment, then scores where there are no curves."""
    by_env: dict[str, dict[str, list[Points]]] = {}
    for row, seeds in load("learning_curves").items():
        algorithm, _, rest = row.partition("-")
        found = re.search(r"(?:^|-)(\w+_v\d+|\w+-v\d+)$", rest)
        if name in (algorithm, BESIDE.get(algorithm)) and found:
            label = rest[: found.start()] or ("preset" if algorithm == name else algorithm)
            by_env.setdefault(found[1], {})[label] = [*seeds.values()]
    for env, runs in sorted(by_env.items()):
        yield Panel(env, f"mean return, {_seeds(runs)}", partial(curves, runs))
    figures = load("page_curves")
    for each in (each for each in SHOWN if each.page == name and each.row in figures):
        runs = figures[each.row]["runs"].values()
        lines = {label: [seeds[metric] for seeds in runs] for metric, label in each.metrics.items()}
        about = f"{next(iter(lines)) if len(lines) == 1 else 'mean return'}, {_seeds(lines)}"
        yield Panel(each.title, about, partial(curves, lines, beside=each.beside, below=each.below))
    yield from scores_of(name)


def scores_of(name: str) -> Iterator[Panel]:
    """Yield the panels of an algorithm that learns from recordings, or plays games."""
    for row, result in load("offline").items() if name in OFFLINE else ():
        if name in result["runs"]:
            yield Panel(row, RECORDED, partial(dots, result["runs"], ("the data", result["data_return"])))
    for row, result in load("sequence").items() if name == "dt" else ():
        yield Panel(row, RECORDED, partial(dots, result["runs"], ("the data", result["data_return"])))
    for row, result in load("imitation").items() if name == "gail" else ():
        yield Panel(row, OF_EXPERT, partial(dots, result["runs"], ("the expert", result["expert_score"])))
    learnt = load("learning")
    for row in (row for row in learnt if row.startswith("alphazero-") and name == "alphazero"):
        game = row.partition("-")[2]
        both = {each: learnt[f"{each}-{game}"]["runs"] for each in ("alphazero", "ppo") if f"{each}-{game}" in learnt}
        runs = {each: {str(run["seed"]): run for run in found} for each, found in both.items()}
        yield Panel(game, OF_GAMES, partial(dots, runs, None))


def beside_peers() -> str:
    """Return the picture beside Stable-Baselines3: the rows whose updates are not compiled, and have that peer."""
    times, speeds = [], []
    for row, result in load("time_to_score").items():
        if result["settings"]["peer"] != "stable-baselines3":
            continue
        ours, theirs = (statistics.median(pair[who]["seconds"] for pair in result["pairs"]) for who in ("maze", "peer"))
        times.append((f"{row}, {result['settings']['score']:,}", ours, theirs))
    for row, result in load("speed").items():
        peer = next(each for each in result["runs"] if each != "maze")
        if "compiled" in row or "native" in row or "by JAX" in peer:
            continue
        ours, theirs = (
            statistics.median(run["env_steps_per_second"] for run in result["runs"][who]) for who in ("maze", peer)
        )
        speeds.append((row if peer == "stable-baselines3" else f"{row}, grey: {peer.rpartition(' ')[2]}", ours, theirs))
    peers = "blue: Maze, grey: Stable-Baselines3"
    panels = [
        Panel("Seconds to a score: less is better", peers, partial(bars, times, "s")),
        Panel("Steps per second: more is better", peers, partial(bars, speeds, "")),
    ]
    title = "Seconds to a score, and steps per second, of Maze and its peers."
    return picture(panels, title, TOP + BAR * max(len(times), len(speeds)))


# Diagrams


def curves(
    runs: dict[str, list[Points]],
    x: float,
    y: float,
    beside: tuple[str, float] | None = None,
    below: str = "environment steps",
) -> list[str]:
    """Return learning curves: the median over the seeds, and the band from the least to the best; `beside`: a line."""
    tables = {label: _table(seeds) for label, seeds in runs.items()}
    every = [value for table in tables.values() for row in table for value in row[1:]] + ([beside[1]] if beside else [])
    steps = max(table[-1][0] for table in tables.values())
    low, high = min(every), max(every)
    across, up = _scale(0, steps, x, WIDTH), _scale(low, high, y + HEIGHT, -HEIGHT)
    parts = _axes(x, y, (0, steps), (low, high), below)
    parts += _level(beside, up, x, y)
    for colour, table in zip(COLOURS, tables.values(), strict=False):
        upper = [f"{across(at):.1f},{up(best):.1f}" for at, _, _, best in table]
        lower = [f"{across(at):.1f},{up(least):.1f}" for at, least, _, _ in reversed(table)]
        middle = " ".join(f"{across(at):.1f},{up(median):.1f}" for at, _, median, _ in table)
        parts.append(f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" opacity="0.18"/>')
        parts.append(f'<polyline class="line" points="{middle}" stroke="{colour}"/>')
    if len(tables) > 1:
        pairs = zip(COLOURS, tables, strict=False)
        legend = " ".join(f'<tspan fill="{colour}" style="font-weight:600">{label}</tspan>' for colour, label in pairs)
        parts.append(f'<text x="{x + WIDTH}" y="{y - 10}" text-anchor="end">{legend}</text>')
    return parts


def dots(runs: dict[str, dict[str, Any]], beside: tuple[str, float] | None, x: float, y: float) -> list[str]:
    """Return a dot for the final score of each seed, and a line for what they stand beside."""
    found = {label: [run["score"] for run in seeds.values()] for label, seeds in runs.items()}
    every = [value for values in found.values() for value in values] + ([beside[1]] if beside else [])
    low, high = min(every), max(every)
    low, high = (low - 1, high + 1) if low == high else (low, high)
    up = _scale(low, high, y + HEIGHT, -HEIGHT)
    parts = _axes(x, y, None, (low, high), "")
    parts += _level(beside, up, x, y)
    for number, (label, values) in enumerate(found.items()):
        middle = x + WIDTH * (number + 0.5) / (len(found) + 0.5)
        parts.append(_text(middle, y + HEIGHT + 16, label, "middle"))
        for place, value in enumerate(values):
            where = f'cx="{middle + 5 * (place - (len(values) - 1) / 2):.1f}" cy="{up(value):.1f}"'
            parts.append(f'<circle {where} r="3.5" fill="{COLOURS[number]}" opacity="0.8"/>')
    return parts


def _level(beside: tuple[str, float] | None, up: Callable[[float], float], x: float, y: float) -> list[str]:
    """Return a line with its name; nothing if there is none."""
    if beside is None:
        return []
    at = up(beside[1])
    line = f'x1="{x}" x2="{x + WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#5a6272" stroke-dasharray="4 3"'
    place = at + (12 if at < y + HEIGHT / 2 else -4)
    return [f"<line {line}/>", _text(x + WIDTH, place, beside[0], "end", 'class="small halo"')]


def bars(rows: Sequence[tuple[str, float, float]], unit: str, x: float, y: float) -> list[str]:
    """Return bars of ours and theirs, each pair relative to the longer of the two."""
    parts = []
    for number, (label, ours, theirs) in enumerate(rows):
        top = y + BAR * number
        parts.append(_text(x, top + 8, label))
        for line, (value, colour) in enumerate(((ours, COLOURS[0]), (theirs, "#b6bfcc"))):
            length = max(200 * value / max(ours, theirs), 2)
            shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
            parts.append(f'<rect x="{x}" y="{top + 12 + 10 * line}" width="{length:.1f}" height="8" fill="{colour}"/>')
            parts.append(_text(x + length + 4, top + 20 + 10 * line, f"{shown} {unit}"))
    return parts


def _text(x: float, y: float, text: str, anchor: str = "start", more: str = 'class="small"') -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text.strip())}</text>'


def _seeds(runs: dict[str, list[Points]]) -> str:
    counts = sorted({len(seeds) for seeds in runs.values()})
    return f"{' and '.join(map(str, counts))} {'seed' if counts == [1] else 'seeds'}"


def _table(seeds: list[Points]) -> list[tuple[float, float, float, float]]:
    """Return steps, least, median and best at the steps of the first seed, as far as all of them go."""
    end = min(seed[-1][0] for seed in seeds)
    found = []
    for at in dict.fromkeys(point[0] for point in seeds[0] if point[0] <= end):
        values = [_at(seed, at) for seed in seeds]
        found.append((at, min(values), statistics.median(values), max(values)))
    return found


def _at(points: Points, step: float) -> float:
    """Return the return at a step, on the line between two evaluations."""
    for (a, left), (b, right) in pairwise(points):
        if a <= step < b:
            return left + (right - left) * (step - a) / (b - a)
    return points[0][1] if step < points[0][0] else points[-1][1]


def _scale(low: float, high: float, start: float, length: float) -> Callable[[float], float]:
    return lambda value: start + length * (value - low) / ((high - low) or 1)


def _axes(x: float, y: float, steps: tuple[float, float] | None, values: tuple[float, float], below: str) -> list[str]:
    """Return the frame of a panel with three marks upwards and three to the right."""
    up = _scale(*values, y + HEIGHT, -HEIGHT)
    parts = []
    for value in (values[0], sum(values) / 2, values[1]):
        parts.append(f'<line class="grid" x1="{x}" x2="{x + WIDTH}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>')
        parts.append(
            f'<text class="small" x="{x - 6}" y="{up(value) + 4:.1f}" text-anchor="end">{_short(value)}</text>'
        )
    if steps:
        for value, anchor in zip((steps[0], sum(steps) / 2, steps[1]), ("start", "middle", "end"), strict=True):
            place = _scale(*steps, x, WIDTH)(value)
            mark = f'x="{place}" y="{y + HEIGHT + 14}" text-anchor="{anchor}"'
            parts.append(f'<text class="small" {mark}>{_short(value)}</text>')
        parts.append(
            f'<text class="small" x="{x + WIDTH / 2}" y="{y + HEIGHT + 28}" text-anchor="middle">{below}</text>'
        )
    parts.append(f'<path class="axis" d="M{x},{y} V{y + HEIGHT} H{x + WIDTH}"/>')
    return parts


def _short(value: float) -> str:
    """Return a number for a mark of an axis: three digits, thousands and millions by letter."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if float(f"{abs(value):.3g}") >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def picture(panels: Sequence[Panel], title: str, down: int = 250) -> str:
    """Return panels side by side, three in a row, on white."""
    columns = min(3, len(panels))
    width, height = 20 + ACROSS * columns, down * -(-len(panels) // 3)
    view = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for number, panel in enumerate(panels):
        x, y = LEFT + ACROSS * (number % 3), TOP + down * (number // 3)
        parts += [_text(x, y - 26, panel.title, more='class="title"'), _text(x, y - 10, panel.about)]
        parts += panel.draw(x, y)
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
