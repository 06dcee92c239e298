"""The events and the KPIs of an episode of cutting."""

from __future__ import annotations

from maze_events import Event, Events
from maze_events.event import EpisodeEvents

from maze_cutting_2d.shop import Shop


def cutting_events() -> Events:
    """Return the events that both kinds of environment report.

    | event | value |
    |---|---|
    | `fresh_sheet` | 1 for each sheet taken |
    | `scrap` | area of the remainders that a cut made useless, in units of a sheet |
    | `stock` | number of remainders after each order |
    """
    declared = {"fresh_sheet": Event(["count"]), "scrap": Event(["sum", "histogram"]), "stock": Event(["mean", "max"])}
    return Events(declared, _kpis)


def report(events: Events, shop: Shop, fresh: bool, scrap_before: int) -> None:
    """Report what serving an order did to the shop; `scrap_before`: pieces of scrap before it."""
    if fresh:
        events.report("fresh_sheet")
    wasted = sum(piece.size.area for piece in shop.scrap[scrap_before:])
    if wasted:
        events.report("scrap", wasted / shop.sheet.area)
    events.report("stock", len(shop.pieces) - 1)


def _kpis(events: EpisodeEvents) -> dict[str, float]:
    """Return the sheets per order, and the share of them that became scrap."""
    sheets, orders = events.count("fresh_sheet"), events.count("stock")
    return {"sheets_per_order": sheets / orders, "waste": events.sum("scrap") / sheets} if sheets else {}
