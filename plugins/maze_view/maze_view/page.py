"""The page: one HTML file that contains everything and may load nothing.

What comes from runs is in one block of JSON, which the page's script writes as text. A policy in the page lets the
browser execute that script alone and refuses every address.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page(data: Mapping[str, Any]) -> str:
    """Return the page that shows this data."""
    style, script = _part("page.css"), _part("page.js")
    allowed = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n',
        '<meta name="viewport" content="width=device-width">\n<title>Maze</title>\n',
        f"<style>{style}</style>\n</head>\n<body>\n<header><h1></h1><p></p></header>\n<main></main>\n",
        f'<script id="data" type="application/json">{embedded(data)}</script>\n',
        f"<script>{script}</script>\n</body>\n</html>\n",
    ]
    return "".join(parts)


def embedded(data: Any) -> str:
    """Return data as JSON in ASCII that cannot end the element that contains it."""
    found = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        found = found.replace(character, escape)
    return found


def _part(name: str) -> str:
    return resources.files("maze_view").joinpath("page", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
