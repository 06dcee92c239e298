"""What the bundled algorithms can do: a reference page, and the table of the home page."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from bundled import ROOT, entries
from gymnasium import spaces

_KINDS = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box, spaces.Dict)
_DECLARED = {
    "memory": "supports_memory",
    "actors in turns": "supports_actors",
    "several agents": "supports_agents",
    "several learners": "supports_learners",
    "rollouts on the device": "supports_tensors",
}
_ON_WORKERS = {"RolloutCollector", "ReplayCollector", "workers", "env_runners"}
"""What an algorithm names whose steps workers can take: the collectors of the core, or workers of its own."""


def abilities() -> dict[str, str]:
    """What the bundled algorithms declare."""
    titles = [*(kind.__name__ for kind in _KINDS), *_DECLARED, "workers"]
    rows = [f"| algorithm | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
    for name, plugin in _algorithms():
        cells = [kind in plugin.action_spaces for kind in _KINDS]
        cells += [bool(getattr(plugin, each)) for each in _DECLARED.values()]
        rows.append(f"| `{name}` | {' | '.join('✓' if each else '' for each in [*cells, _on_workers(plugin)])} |")
    return {"Abilities": "\n".join(rows)}


def overview(folder: str) -> str:
    """The table of the home page, with links to pages in a folder: without RLlib's algorithms."""
    titles = "choices | numbers | both | memory | several agents | workers"
    rows = [f"| algorithm | {titles} |", "|---|:-:|:-:|:-:|:-:|:-:|:-:|"]
    for name, plugin in _algorithms():
        if page := _page_of(name):
            actions = [spaces.Discrete in plugin.action_spaces, spaces.Box in plugin.action_spaces]
            more = [plugin.supports_memory, plugin.supports_agents, _on_workers(plugin)]
            cells = [*actions, all([*actions, spaces.Dict in plugin.action_spaces]), *more]
            shown = " | ".join("✓" if each else "" for each in cells)
            rows.append(f"| [`{name}`]({folder}algorithms/{page}) | {shown} |")
    return "\n".join(rows)


def _algorithms() -> Iterator[tuple[str, Any]]:
    """Yield the bundled algorithms that can be imported, with their classes."""
    for entry in entries():
        if entry.kind == "algorithm" and (plugin := entry.load()) is not None:
            yield entry.name, plugin


def _page_of(name: str) -> str:
    """The page of an algorithm: its own, else the section with its name on that of another, else the page that names it
    most often; empty for RLlib's, which share one."""
    pages = _pages()
    if name in pages:
        return f"{name}.md"
    for stem, text in pages.items():
        for heading in re.findall(r"^## (.+)$", text, re.MULTILINE):
            if _plain(heading) == _plain(name):
                return f"{stem}.md#{re.sub(r'[^a-z0-9 -]', '', heading.lower()).replace(' ', '-')}"
    most = max(pages, key=lambda stem: len(re.findall(rf"(?i)\b{name}\b", pages[stem])))
    return "" if most == "rllib" else f"{most}.md"


def _plain(name: str) -> str:
    """A name without what names write differently: `TD3+BC` is td3_bc."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _pages() -> dict[str, str]:
    """The pages of algorithms by name."""
    return {page.stem: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/algorithms").glob("*.md"))}


def _on_workers(plugin: Any) -> bool:
    """True where the code of an algorithm, or what it imports from plugins but recordings, has workers take steps."""
    modules = [each.__module__ for each in plugin.__mro__ if each.__module__.startswith("maze_")]
    for module in modules:  # grows
        names = _names(module) if module in sys.modules else set()
        if module != "maze_core.learn.algorithm" and names & _ON_WORKERS:
            return True
        modules += sorted({each for each in names if re.match(r"maze_(?!core|recordings)", each)} - {*modules})
    return False


@cache
def _names(module: str) -> set[str]:
    """The attributes and names that a module uses, and the modules that it imports from."""
    nodes = list(ast.walk(ast.parse(inspect.getsource(sys.modules[module]))))
    used = [getattr(node, key, None) for node in nodes for key in ("attr", "id", "module")]
    return {each for each in used if isinstance(each, str)}
