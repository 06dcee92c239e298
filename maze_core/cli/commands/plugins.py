"""`maze plugins`: what is installed, whether it works, and what it offers."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_core.cli import output

if TYPE_CHECKING:
    from maze_core.plugins.catalog import PluginInfo

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List, describe, write and check plugins.")
"""Its commands are separate entry points, such as `plugins.list`, so that other distributions can add some."""

_PRESETS = "presets"
"""The kind under which packages of presets are listed."""
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Kind = Annotated[str | None, typer.Option(metavar="KIND", help="algorithm, env, wrapper, model, runner, …")]


def list_plugins(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]",
            help="Only those with this in name, distribution or summary, or of this kind.",
            show_default=False,
        ),
    ] = None,
    kind: _Kind = None,
    as_json: _Json = False,
) -> None:
    """List the installed plugins and their states.

    \b
    Examples:
      maze plugins list
      maze plugins list offline
      maze plugins list algorithms
      maze plugins list --kind algorithm --json
    """
    found = [info for info in _catalog(kind) if text is None or _mentions(info, text.lower())]
    if as_json:
        output.print_json([asdict(info) for info in found])
        return
    if not found:
        output.say("no plugin is installed" if text is None else f"no plugin mentions {text!r}")
    elif sys.stdout.isatty():
        _print_by_kind(found)
    else:
        rows = [(i.kind, i.name, f"{i.distribution} {i.version}", i.state, i.summary) for i in found]
        output.print_table(("kind", "name", "distribution", "state", "summary"), rows)
    for info in found:
        if info.state != "ok":
            typer.echo("")
            output.say(f"{info.kind} {info.name} ({info.distribution} {info.version}): {info.state}: {info.detail}")


def _mentions(info: PluginInfo, text: str) -> bool:
    words = info.name, info.distribution, info.summary
    return info.kind == text.removesuffix("s") or any(text in each.lower() for each in words)


def _print_by_kind(found: list[PluginInfo]) -> None:
    """Print a table in which the kinds are headings; the distribution is the first to go where room is scarce."""
    headings, rows = [], []
    for info in found:
        if info.kind not in headings:
            headings.append(info.kind)
            rows.append((f"{info.kind}:", "", "", ""))
        rows.append((f"  {info.name}", f"{info.distribution} {info.version}", info.state, info.summary))
    output.print_table(("name", "distribution", "state", "summary"), rows, least=(1, 2))


def describe(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name.", show_default=False)],
    kind: _Kind = None,
    as_json: _Json = False,
) -> None:
    """Describe a plugin: where it comes from, its parameters, hooks and presets.

    \b
    Examples:
      maze plugins info ppo
      maze plugins info mlp --kind model --json
    """
    found = [info for info in _catalog(kind, name) if info.name.lower() == name.lower()]
    if not found:
        _unknown(name, kind)
    pages = [_page(info) for info in found]
    if as_json:
        output.print_json(pages)
        return
    for number, page in enumerate(pages):
        if number:
            typer.echo("")
        _print_page(page)


def _catalog(kind: str | None, name: str | None = None) -> list[PluginInfo]:
    """Return the plugins of a kind and a name, or all, and the packages of presets, which are no plugins."""
    from maze_core.plugins.catalog import catalog, preset_catalog

    _check_kind(kind)
    plugins = [] if kind == _PRESETS else catalog(kind, name)
    return plugins + (preset_catalog() if kind in (None, _PRESETS) else [])


def _page(info: PluginInfo) -> dict[str, Any]:
    page: dict[str, Any] = asdict(info)
    if info.kind == "command":
        page["help"] = f"maze {info.name.replace('.', ' ')} --help"
    if info.state != "ok" or info.kind in ("command", _PRESETS):
        return page
    from maze_core.plugins import discovery
    from maze_core.plugins.config.flags import flags
    from maze_core.plugins.config.presets import named_presets, package, preset_paths, presets_of_source
    from maze_core.plugins.hookspecs import HookSpecs

    plugin = discovery.load(info.kind, info.name)
    page["parameters"] = [
        {"name": flag.field, "type": flag.metavar, "default": flag.default or "required", "range": flag.limits,
         "description": flag.description}
        for flag in flags(plugin.Config)
    ]  # fmt: skip
    page["hooks"] = [hook for hook in vars(HookSpecs) if getattr(getattr(plugin, hook, None), "maze_impl", None)]
    page |= _calls(info.kind, plugin, page["hooks"])
    page["presets"] = []

    def warn(error: Exception) -> None:
        output.warn(str(error))

    if info.kind == "algorithm":
        preset_folders = preset_paths(info.name, package(plugin), None)
        found = named_presets(info.name, preset_folders, warn)
        page["presets"] = [preset.title for preset in found.values()]
    if info.kind == "env":
        page["presets"] = [f"{title} ({owner})" for title, owner in presets_of_source(plugin, warn)]
    return page


def _calls(kind: str, plugin: Any, hooks: list[str]) -> dict[str, Any]:
    """Return which hooks of others an algorithm calls, and which algorithms call those of another plugin.

    Only of the hooks that not every algorithm calls.
    """
    from maze_core.learn.checks import NOT_ALWAYS, callers

    if kind == "algorithm":
        return {} if plugin.calls is None else {"calls": list(plugin.calls)}
    found = {hook: callers(hook) for hook in hooks if hook in NOT_ALWAYS}
    return {"called_by": found} if found else {}


def _print_page(page: dict[str, Any]) -> None:
    facts = ["kind", "name", "distribution", "version", "state", "detail", "summary", "help", "file"]
    if page.get("calls") == []:
        page = {**page, "calls": "none of the hooks by which other plugins change what it learns"}
    for fact in [*facts, "hooks", "calls", "presets"]:
        value = page.get(fact)
        if value:
            output.say(f"{fact + ':':14}{', '.join(value) if isinstance(value, list) else value}")
    for hook, algorithms in page.get("called_by", {}).items():
        output.say(f"{'called by:':14}{hook}: {', '.join(algorithms) or 'none'}")
    if page.get("parameters"):
        typer.echo("")
        headers = ("name", "type", "default", "range", "description")
        output.print_table(
            ("parameter", *headers[1:]), [[row[key] for key in headers] for row in page["parameters"]], (3, 1)
        )


def _unknown(name: str, kind: str | None) -> None:
    from maze_core.base.errors import ConfigError
    from maze_core.plugins import discovery
    from maze_core.plugins.catalog import preset_catalog
    from maze_core.plugins.config.explain import nearest
    from maze_core.plugins.how_to_install import uninstalled

    for each in discovery.KINDS if kind in (None, _PRESETS) else (kind,):
        if advice := discovery.missing(each, name) or uninstalled(name):
            raise ConfigError(f"no plugin is called {name!r}", hint=advice)
    known = {claim.name for claim in discovery.declarations() if kind in (None, claim.kind)}
    known |= {info.name for info in preset_catalog()} if kind in (None, _PRESETS) else set()
    raise ConfigError(f"no plugin is called {name!r}; {nearest(name, sorted(known))}")


def _check_kind(kind: str | None) -> None:
    from maze_core.base.errors import ConfigError
    from maze_core.plugins import discovery

    if kind is not None and kind not in (*discovery.KINDS, _PRESETS):
        raise ConfigError(f"there is no kind {kind!r}; kinds: {', '.join([*discovery.KINDS, _PRESETS])}", "--kind")
