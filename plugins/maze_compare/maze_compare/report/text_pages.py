"""A report as Markdown, for a pull request, and as LaTeX tables, for a paper; everything that was read is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from maze_compare.report.contents import Contents, Table
from maze_core.base.terminal_text import printable

_MARKDOWN = re.compile(r"([\\`*_{}\[\]#!|<>~&@$])")
_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "…": r"\ldots{}", "`": r"\textasciigrave{}",
}  # fmt: skip


def markdown_page(of: Contents) -> str:
    """Return the report as Markdown."""
    parts = [f"# {_md(of.title)}", _md(of.asked), *(f"- **{_md(each)}**" for each in of.answers)]
    parts += ["## Results", _md_table(of.aggregates), *map(_md, of.meaning)]
    if len(of.of.tasks) > 1:
        parts.append(_md_table(of.tasks))
    parts += ["## Design", _md_table((["", ""], [[name, value] for name, value in of.design]))]
    if of.settings[1]:
        parts.append(_md_table(of.settings))
    parts += [*map(_md, of.notes), "## The best policy", _md_table((["", ""], [list(row) for row in of.best]))]
    parts += ["## How to repeat it", _fenced(of.commands)]
    return _joined(parts)


def latex_page(of: Contents) -> str:
    """Return the tables as LaTeX, to be included in a paper; they need the package booktabs."""
    said = " ".join([of.asked, *(f"{each}." for each in of.answers), *of.meaning])
    parts = [
        "% Tables of an experiment; \\usepackage[T1]{fontenc} and \\usepackage{booktabs}.",
        _tex_table(of.aggregates, said, "tab:aggregates"),
    ]
    if len(of.of.tasks) > 1:
        said = f"Scores of each task: {of.of.metric}, mean and standard deviation over the seeds."
        parts.append(_tex_table(of.tasks, said, "tab:tasks"))
    if of.settings[1]:
        parts.append(_tex_table(of.settings, "Settings that differ.", "tab:settings"))
    rows = [[name, value] for name, value in of.design]
    parts.append(_tex_table((["", ""], rows), "Design of the experiment.", "tab:design", "lp{0.7\\linewidth}"))
    return "\n\n".join(parts) + "\n"


def _joined(parts: Sequence[str]) -> str:
    """Return parts with empty lines between them; the lines of one list stay together."""
    text = parts[0]
    for before, part in pairwise(parts):
        text += ("\n" if before.startswith("- ") and part.startswith("- ") else "\n\n") + part
    return text + "\n"


def _md(value: str) -> str:
    """Return text that stays text: neither markup nor an address that becomes a link."""
    text = _MARKDOWN.sub(r"\\\1", printable(value, 600))
    return text.replace("://", ":\\//").replace("www.", "www\\.")


def _md_table(table: Table) -> str:
    headers, rows = table
    lines = [headers, ["---"] * len(headers)]
    text = [f"| {' | '.join(map(_md, lines[0]))} |", f"|{'|'.join(lines[1])}|"]
    return "\n".join([*text, *(f"| {' | '.join(map(_md, row))} |" for row in rows)])


def _fenced(lines: Sequence[str]) -> str:
    text = "\n".join(printable(each) for each in lines)
    longest = max((len(each) for each in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}bash\n{text}\n{fence}"


def _tex(value: str) -> str:
    return "".join(_TEX.get(each, each if each.isascii() else "?") for each in printable(value, 900))


def _tex_table(table: Table, said: str, label: str, columns: str = "") -> str:
    headers, rows = table
    lines = [
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{_tex(said)}}}",
        f"\\label{{{label}}}",
        f"\\begin{{tabular}}{{{columns or 'l' * len(headers)}}}",
        r"\toprule",
    ]
    if any(headers):
        lines += [" & ".join(map(_tex, headers)) + r" \\", r"\midrule"]
    lines += [" & ".join(map(_tex, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])
