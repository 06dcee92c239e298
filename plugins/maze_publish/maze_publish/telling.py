"""Prints the card of a published policy; it may be a stranger's."""

from __future__ import annotations

from maze_core.cli import output
from maze_publish.card import Card, facts, measured, score_facts


def tell(card: Card) -> None:
    """Print what a card says, in printable characters."""
    rows = facts(card)
    if card.score is not None:
        rows += [*score_facts(card.score), ("measured", measured(card.score))]
    rows.append(("made by", card.command))
    output.say(card.name)
    for name, value in rows:
        output.say_fact(name[:27], [value], 29)
