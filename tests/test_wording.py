"""Numbers with nouns, and texts of strangers as a terminal may show them."""

import os
import subprocess

import pytest

from maze_core.base.terminal_text import argument, counted, plain, printable, printable_lines, shown


def test_one_and_more():
    assert [counted(n, "epoch") for n in (0, 1, 1200)] == ["0 epochs", "1 epoch", "1,200 epochs"]


HOSTILE = {
    "a\x1b[31mred": "a\\x1b[31mred",
    "one\ntwo\rthree\tfour": "one\\ntwo\\rthree\\tfour",
    "\x07\x00\x7f": "\\x07\\x00\\x7f",
    "\x9b31m\x85": "\\x9b31m\\x85",
    "\u202eevil\u2066\u200f\u061c": "\\u202eevil\\u2066\\u200f\\u061c",
    "\u2028\u2029\ufeff": "\\u2028\\u2029\\ufeff",
    "\ud800": "\\ud800",
    "\U000e0041": "\\U000e0041",
    "plain é 日本 ✓ [red]x[/] ± ★": "plain é 日本 ✓ [red]x[/] ± ★",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_terminal_would_obey_is_shown_instead(text):
    assert printable(text) == HOSTILE[text]
    assert printable_lines(f"a\n{text}") == "\n".join(
        ["a", *(printable(each) for each in text.replace("\t", "    ").split("\n"))]
    )


def test_the_colours_of_other_code_are_left_out():
    assert plain(ValueError("\x1b[1;31mred\x1b[0m \x1b[38;5;9mtext\x1b[K")) == "red text"
    assert printable(plain("\x1b[2J\x1b]0;title\x07 \x1b[96m")) == "\\x1b[2J\\x1b]0;title\\x07 "


def test_long_texts_are_cut():
    assert printable("x" * 1000, 50) == "x" * 49 + "…"
    assert printable("x" * 50, 50) == "x" * 50
    assert len(printable("\x1b" * 10**6)) == 2000
    assert shown("x" * 10**6) == "'" + "x" * 78 + "…"
    assert shown([1.5, None]) == "[1.5, None]"


@pytest.mark.parametrize("text", ["plain", "two words", "it's", "$(touch x)", "a\nb", "\x1b[31m", "\udcff", "\u202e"])
def test_an_argument_is_what_the_shell_reads(text):
    written = argument(text)
    assert written.isprintable()
    read = subprocess.run(["bash", "-c", f"printf %s {written}"], capture_output=True)
    assert read.stdout == os.fsencode(text)


def test_a_text_that_is_no_file_name_is_an_argument_all_the_same():
    assert argument("\ud800") == "$'?'"
