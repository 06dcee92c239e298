"""The search of the site without a browser: what its pages say, ranked as the theme's script and lunr rank it.

The script builds an index of a page's sections, with the title of each counting a thousand times as much as its text,
and with the boost of its page. Words of a query stand for all words that begin so. The reference of the Python API,
which only a built site has, is left out: with its boost it hardly ever comes before other pages.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import takewhile
from math import log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

FIELDS = {"title": 1000.0, "text": 1.0, "tags": 1000.0}
"""How much a word counts in each; `tags` are the words that a page gives itself."""
SEPARATOR = re.compile(r"[\s\-&]+|amp;")
"""As in mkdocs.yml."""
SATURATION = 1.2
"""lunr's k1; its b, for the length of a text, is 0."""
STOP_WORDS = """
a able about across after all almost also am among an and any are as at be because been but by can cannot could
dear did do does either else ever every for from get got had has have he her hers him his how however i if in
into is it its just least let like likely may me might most must my neither no nor not of off often on only or
other our own rather said say says she should since so some than that the their them then there these they this
tis to too twas us wants was we were what when where which while who whom why will with would yet you your
"""
"""lunr's, which are not in the index."""
_STOPPED = frozenset(STOP_WORDS.split())
_HIDDEN = re.compile(r"<!--.*?-->|!\[[^]]*\]\([^)]*\)|^```math\n.*?^```|^\|[-:| ]+\|$", re.MULTILINE | re.DOTALL)
_MARKS = re.compile(r"^```.*$|</?\w[^>]*>|`|^ *[-*] |^#+ |\|", re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)|\*\*")
_HEADING = re.compile(r"^(#+) (.+)$")


class Section(NamedTuple):
    """A heading of a page, and what stands below it."""

    page: str
    boost: float
    first: bool
    title: str
    text: str
    tags: str


def sections(page: str, markdown: str, boost: float, tags: str = "") -> list[Section]:
    """Return the sections of a page; the first one is that of its title."""
    found: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in _HIDDEN.sub("", markdown).splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading and (found[0][0] or found[0][1]):
            found.append((heading[2], []))
        elif heading:
            found[0] = (heading[2], [])
        else:
            found[-1][1].append(line)
    return [
        Section(page, boost, not number, _plain(title), _plain("\n".join(lines)), tags)
        for number, (title, lines) in enumerate(found)
    ]


def _plain(markdown: str) -> str:
    """Return what is read of a text: the ends of code divide words, those of emphasis do not."""
    return _MARKS.sub(" ", _LINK.sub(r"\1", markdown))


class Search:
    """An index of sections."""

    def __init__(self, found: list[Section]) -> None:
        self._sections = found
        self._weights: dict[str, dict[tuple[int, str], float]] = defaultdict(dict)
        for number, section in enumerate(found):
            for field in FIELDS:
                for word, count in Counter(_words(getattr(section, field))).items():
                    self._weights[word][number, field] = count
        for postings in self._weights.values():
            rarity = log(1 + abs((len(found) - len(postings) + 0.5) / (len(postings) + 0.5)))
            for (number, field), count in postings.items():
                weight = rarity * (SATURATION + 1) * count / (SATURATION + count) * FIELDS[field]
                postings[number, field] = round(weight * found[number].boost, 3)
        self._sorted = sorted(self._weights)

    def pages(self, query: str) -> list[str]:
        """Return the pages that a query finds, the best first."""
        clauses = [each for each in SEPARATOR.split(query.lower()) if each]
        asked: Counter[str] = Counter(word for clause in clauses for word in self._beginning(clause))
        length = sqrt(sum(count**2 for count in asked.values()))
        scores: dict[int, float] = defaultdict(float)
        met: dict[int, set[str]] = defaultdict(set)
        for word, count in asked.items():
            for (number, _), weight in self._weights[word].items():
                scores[number] += count * weight / length
                met[number].add(word)
        final = {number: score * self._share(number, clauses, met[number]) for number, score in scores.items()}
        best = sorted(final, key=lambda number: -final[number])
        return list(dict.fromkeys(self._sections[number].page for number in best))

    def _beginning(self, clause: str) -> list[str]:
        start = bisect_left(self._sorted, clause)
        return list(takewhile(lambda word: word.startswith(clause), self._sorted[start:]))

    def _share(self, number: int, clauses: list[str], met: set[str]) -> float:
        """Return the factor for the share of the query's words that a section has; the first section has more."""
        having = {each: any(word.startswith(each) for word in met) for each in clauses}
        counted = {each: found for each, found in having.items() if found or each not in _STOPPED}
        return 1 + (self._sections[number].first + sum(counted.values()) / len(counted)) ** 2


def _words(text: str) -> list[str]:
    words = (word.lower() for word in SEPARATOR.split(text) if word)
    return [word for word in words if word not in _STOPPED]


def of_site(hooks: Any, docs: Path) -> Search:
    """Return the search of the site whose pages are in a folder, and in READMEs."""
    pages = {page.relative_to(docs).as_posix(): page for page in sorted(docs.rglob("*.md"))}
    pages |= {page: file for file, page in hooks.outside().items()}
    found = []
    for page, file in pages.items():
        text = file.read_text(encoding="utf-8")
        found += sections(page, text, hooks.boost(page), " ".join(hooks.words(text)))
    return Search(found)
