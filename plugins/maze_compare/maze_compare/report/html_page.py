"""A report as one HTML file: no script, nothing loaded from elsewhere; everything that was read is escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape

from maze_compare.report.contents import Contents, Table
from maze_compare.report.drawings import bands, intervals, legend
from maze_core.base.files import read_bytes
from maze_core.base.terminal_text import printable

_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#3a9bd6", "#555555", "#7a3db8")
_DARK = ("#4aa8e0", "#ff8a3d", "#2fcf9f", "#e79ac4", "#e6b93c", "#8ccaf2", "#bbbbbb", "#b48cf0")
_MOST_FILM = 8_000_000
_KINDS = {".mp4": "video/mp4", ".webm": "video/webm"}

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2530;--soft:#5b6673;--line:#d9dee4;--back:#fff;--panel:#f5f7f9}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaef;--soft:#9aa6b2;--line:#38424d;--back:#14191f;--panel:#1d242c}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:980px;padding:24px 16px 48px;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 4px}h2{font-size:1.15rem;margin:32px 0 8px}
.asked{color:var(--soft);margin:0 0 16px}
.answer{background:var(--panel);border-left:4px solid #0072b2;padding:10px 14px}
.answer p{margin:4px 0}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
.wide td,.wide th{white-space:nowrap}th{overflow-wrap:normal}th{color:var(--soft);font-weight:600}
figure{margin:16px 0;break-inside:avoid}figcaption,.note{color:var(--soft);font-size:.9rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font-size:13px}.grid{stroke:var(--line);fill:none}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;margin:6px 0}
.legend span{display:inline-block;width:24px;margin-right:6px;vertical-align:middle}
pre{background:var(--panel);padding:10px 12px;white-space:pre-wrap;font-size:.85rem}video,img{max-width:100%}
@media(max-width:480px){body{padding:14px 10px 32px;font-size:15px}h1{font-size:1.3rem}svg text{font-size:22px}
table{font-size:.8rem}th,td{padding-right:7px}.wide td,.wide th{white-space:normal;overflow-wrap:normal}
.wide td:first-child{overflow-wrap:anywhere;min-width:7em}}
@media print{:root{--ink:#000;--soft:#333;--line:#bbb;--back:#fff;--panel:#fff}
body{max-width:none;font-size:11pt;padding:0}
.wide{overflow:visible}.wide td,.wide th{white-space:normal}
h2{break-after:avoid}tr{break-inside:avoid}}
"""


def html_page(of: Contents) -> str:
    """Return the page."""
    found = of.found
    names = list(found.aggregates)
    score = "normalised score" if of.of.references else of.of.metric
    parts = [
        f"<h1>{_text(of.title)}</h1>",
        f'<p class="asked">{_text(of.asked)}</p>',
        f'<div class="answer">{"".join(f"<p>{_text(each)}.</p>" for each in of.answers)}</div>',
        "<h2>Results</h2>",
        _table(of.aggregates),
        *(f'<p class="note">{_text(each)}</p>' for each in of.meaning),
        _figure(intervals(found.aggregates, f"IQM, {score}"), "The line is the IQM, the bar its 95 % interval."),
        _table(of.tasks) if len(of.of.tasks) > 1 else "",
        "<h2>Performance profiles</h2>",
        _figure(
            bands(found.profiles, score, "share of runs above it") + legend(names),
            "For each score the share of runs above it, of each task the same weight. A higher curve is better.",
        ),
        *_curves(of, names, score),
        "<h2>Design</h2>",
        _facts(of.design),
        _settings(of.settings),
        *(f'<p class="note">{_text(each)}.</p>' for each in of.notes),
        "<h2>The best policy</h2>",
        _facts(of.best),
        _film(of),
        "<h2>How to repeat it</h2>",
        f"<pre>{escape(chr(10).join(printable(each) for each in of.commands))}</pre>",
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(of.title)}</title><style>{_STYLE}{_colours()}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _curves(of: Contents, names: Sequence[str], score: str) -> list[str]:
    if not of.found.curves:
        return [f'<p class="note">There are no curves: {_text(of.found.no_curves)}.</p>']
    x_title = "share of each task's steps" if of.found.share else "environment steps"
    drawn = bands(of.found.curves, x_title, f"IQM, {score}") + legend(names)
    said = "The IQM of the scores that the runs had by then, with pointwise 95 % intervals."
    return ["<h2>Learning curves</h2>", _figure(drawn, said)]


def _figure(drawn: str, said: str) -> str:
    return f"<figure>{drawn}<figcaption>{escape(said)}</figcaption></figure>"


def _table(table: Table) -> str:
    headers, rows = table
    head = "".join(f"<th>{_text(each)}</th>" for each in headers)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
    return f"<table><tbody>{body}</tbody></table>"


def _settings(table: Table) -> str:
    if not table[1]:
        return ""
    return f"<p>Settings that differ; several values are those of several tasks:</p>{_table(table)}"


def _film(of: Contents) -> str:
    if of.film is None:
        return ""
    try:
        data = b64encode(read_bytes(of.film, _MOST_FILM)).decode()
    except OSError:
        return ""
    if of.film.suffix.lower() == ".gif":
        return f'<img alt="An episode of the policy" src="data:image/gif;base64,{data}">'
    kind = _KINDS[of.film.suffix.lower()]
    return f'<video controls muted loop src="data:{kind};base64,{data}"></video>'


def _text(value: str) -> str:
    return escape(printable(value, 600), quote=True)


def _colours() -> str:
    def rules(colours: Sequence[str]) -> str:
        return "".join(
            f".s{place}{{stroke:{each};stroke-width:2.2;fill:none}}.f{place}{{fill:{each};fill-opacity:.2}}"
            f".k{place}{{border-top:4px {'dashed' if place % 2 else 'solid'} {each}}}"
            for place, each in enumerate(colours)
        )

    # Every second line is dashed: they are told apart in grey, too.
    dashed = f".line:is({','.join(f'.s{place}' for place in range(1, len(_LIGHT), 2))}){{stroke-dasharray:7 4}}"
    return f"{rules(_LIGHT)}{dashed}@media screen and (prefers-color-scheme:dark){{{rules(_DARK)}}}"
