"""The card of a published policy: plain facts in `card.json`, and a page for people in `card.md` that is made of them.

Both may come from anyone. Only the facts are read, by a closed schema, and shown with escapes; the page is never.
"""

from __future__ import annotations

import html
import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maze_core.base.plain_json import parse_object
from maze_core.base.terminal_text import printable

MOST_BYTES = 200_000

_CLOSED = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
_MARKUP = re.compile(r"([\\`*_{}\[\]()#!|~@]|:(?=//)|(?<=www)\.)")
_Text = Annotated[str, Field(max_length=300)]


class Score(BaseModel):
    """The return of a policy over episodes that no training has seen."""

    model_config = _CLOSED

    mean: float
    low: float | None
    """The lower end of the 95 % confidence interval of the mean; None for few episodes."""
    high: float | None
    deviation: float
    """Between episodes."""
    episodes: int = Field(ge=1)
    seed: int = Field(ge=0)
    """Of the episodes: `maze eval ADDRESS --episodes N --seed S` plays the same ones."""
    deterministic: bool
    others: dict[_Text, float] = Field(max_length=50)
    """Means of further metrics."""

    @property
    def text(self) -> str:
        """The score in a few words."""
        interval = "" if self.low is None or self.high is None else f" [{self.low:,.4g}, {self.high:,.4g}]"
        return f"{self.mean:,.4g}{interval}"


class Card(BaseModel):
    """The facts about a published policy."""

    model_config = _CLOSED

    name: _Text
    algorithm: _Text
    environment: _Text
    source: _Text
    """The plugin that builds the environment."""
    imports: list[_Text] = Field(max_length=20)
    """Packages that the environment's name makes an evaluation import; not those of Maze."""
    memory: bool
    agents: bool
    """True for an environment with several agents."""
    score: Score | None
    """None where nothing was measured."""
    seed: int = Field(ge=0)
    """Of the training."""
    steps: int = Field(ge=0)
    """Of the environments, in training."""
    epoch: int = Field(ge=0)
    """After which the weights were saved."""
    seconds: float
    """Of training."""
    parameters: int = Field(ge=0)
    trained: _Text
    """When the training began."""
    versions: dict[_Text, _Text] = Field(max_length=100)
    command: Annotated[str, Field(max_length=2000)]
    """What trains such a policy again."""
    note: Annotated[str, Field(max_length=2000)] = ""

    def encode(self) -> bytes:
        """Return the contents of `card.json`."""
        return self.model_dump_json(indent=1).encode()


def decode(data: bytes) -> Card:
    """Return the card in a file. Raises ValueError if it is none."""
    values = parse_object(data)
    try:
        return Card.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(each) for each in first["loc"])
        raise ValueError(f"{printable(place, 100)}: {first['msg']}") from None


def facts(card: Card) -> list[tuple[str, str]]:
    """Return what a card says, by name; the texts are those of the card."""
    return [
        ("algorithm", card.algorithm),
        ("environment", f"{card.environment} (from {card.source})"),
        *([("an evaluation imports", ", ".join(card.imports))] if card.imports else []),
        ("memory", "yes" if card.memory else "no"),
        ("several agents", "yes" if card.agents else "no"),
        ("trained", f"{card.trained}, {card.steps:,} steps, {card.seconds:,.0f} seconds, seed {card.seed}"),
        ("parameters", f"{card.parameters:,}"),
        ("written with", ", ".join(f"{name} {version}" for name, version in card.versions.items())),
        *([("note", card.note)] if card.note else []),
    ]


def score_facts(score: Score) -> list[tuple[str, str]]:
    """Return statistics by name."""
    rows = [("return", score.text), ("deviation between episodes", f"{score.deviation:,.4g}")]
    return rows + [(name, f"{value:,.4g}") for name, value in score.others.items()]


def measured(score: Score) -> str:
    """Return how a score was measured, in a sentence."""
    kind = "deterministic" if score.deterministic else "sampled"
    interval = "" if score.low is None else " In brackets: the 95 % interval of the mean."
    return f"{score.episodes:,} episodes with {kind} actions, seed {score.seed}.{interval}"


def page(card: Card, film: str | None) -> bytes:
    """Return the contents of `card.md`, in which no text of the card can be markup."""
    lines = [f"# {_escaped(card.name)}", ""]
    lines += ["| fact | value |", "|---|---|", *(f"| {name} | {_escaped(value)} |" for name, value in facts(card)), ""]
    lines += ["## Score", "", "Not measured." if card.score is None else measured(card.score), ""]
    if card.score is not None:
        rows = [f"| {_escaped(name)} | {value} |" for name, value in score_facts(card.score)]
        lines += ["| statistic | value |", "|---|---|", *rows, ""]
    lines += ["## The command that made it", "", f"    {printable(card.command)}", ""]
    lines += [f"![A film of one episode]({film})", ""] if film else []
    return "\n".join(lines).encode()


def _escaped(text: str) -> str:
    """Return a text in one line, in which Markdown and HTML find nothing."""
    return _MARKUP.sub(r"\\\1", html.escape(printable(text), quote=True).replace("&#x27;", "'"))
