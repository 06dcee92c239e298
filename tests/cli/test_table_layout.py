"""Tables on terminals of every width: no key cut, no word broken, everything at hand in a wide one."""

import pytest
from rich.cells import cell_len

from maze_core.cli.table_layout import lay_out

TABLES = {
    "plugins": (
        ("name", "distribution", "state", "summary"),
        [
            ("algorithm:", "", "", ""),
            (
                "  n_optimization_epochs",
                "maze-impala 0.1.0",
                "ok",
                "Importance weighted actor-learner, for all spaces.",
            ),
            ("  sac", "maze-sac 0.1.0", "broken", ""),
        ],
        (1, 2),
    ),
    "numbers": (
        ("rank", "trial", "lr", "gamma", "hidden", "best return", "runs"),
        [
            ("1", "t001", "0.001", "0.99", "[64, 64]", "-121.33 ± 12.5", "3/3"),
            ("", "t000", "1e-05", "0.9", "[]", "-", "0/3"),
        ],
        (4, 3, 2),
    ),
    "two": (("fact", "value"), [("observation space", "Box(-inf, inf, (4,), float32) " * 3), ("a", "b")], ()),
    "wide characters": (("名前", "意味"), [("学習率", "学習 の 速さ を 決める 数 です から 大切 です"), ("x", "")], ()),
    "one": (("run",), [("runs/CartPole-v1/ppo/20261126-114132-s1",)], ()),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("width", [10, 24, 40, 60, 80, 120, 200])
def test_keys_are_whole_and_lines_fit(table, width):
    headers, rows, least = TABLES[table]
    lines, missing = lay_out(headers, rows, width, least)
    keys = [line for line in lines if line[:1].strip() or (line.startswith("  ") and line[2:3].strip())]
    for header, row in zip([headers[0]], rows, strict=False):
        assert any(line.startswith(header) for line in keys)
        assert any(line.startswith(row[0]) for line in keys)
    widest_key = max(cell_len(row[0]) for row in [headers, *rows])
    longest_word = max(cell_len(word) for row in [headers, *rows] for cell in row for word in cell.split() or [""])
    assert max(map(cell_len, lines)) <= max(width, widest_key, longest_word + widest_key + 2)
    shown = "\n".join(lines).split()
    for i, header in enumerate(headers):
        if header not in missing:
            for row in rows:
                assert not set(row[i].split()) - set(shown), (header, row)


def test_what_is_left_out_first():
    headers, rows, least = TABLES["numbers"]
    left_out = [lay_out(headers, rows, width, least)[1] for width in (80, 55, 45, 36, 30, 8)]
    assert left_out == [
        [],
        ["hidden"],
        ["gamma", "hidden"],
        ["lr", "gamma", "hidden"],
        ["lr", "gamma", "hidden", "runs"],
        ["trial", "lr", "gamma", "hidden", "best return", "runs"],
    ]


def test_sentences_are_wrapped_between_words():
    headers, rows, least = TABLES["plugins"]
    lines, missing = lay_out(headers, rows, 60, least)
    assert missing == ["distribution"]
    assert lines == [
        "name                     state   summary",
        "algorithm:",
        "  n_optimization_epochs  ok      Importance weighted",
        "                                 actor-learner, for all",
        "                                 spaces.",
        "  sac                    broken",
    ]


def test_paths_lose_their_beginnings_before_scores_are_left_out():
    headers = ("env", "algorithm", "seed", "steps", "state", "best", "final", "when", "run")
    runs = [
        ("CartPole-v1", "ppo", "1572198191", "100,000", "finished", "500", "499.25", "2026-11-29 14:04", path)
        for path in ("runs/CartPole-v1/ppo/20261129-140439-s1572198191", "runs/short")
    ]
    lines, missing = lay_out(headers, runs, 80, (7, 2, 3, 6, 1, 5, 4), paths=True)
    assert missing == ["seed", "steps", "when"]
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[-2] == "499.25"
    assert lines[1].endswith("/ppo/20261129-140439-s1572198191"[-20:])
    assert lines[2].endswith("runs/short")
    whole, missing = lay_out(headers, runs, 140, (7, 2, 3, 6, 1, 5, 4), paths=True)
    assert missing == []
    assert whole[1].endswith(runs[0][-1])
    narrow, missing = lay_out(headers, runs, 60, (7, 2, 3, 6, 1, 5, 4), paths=True)
    assert "best" not in missing
    assert max(map(len, narrow)) <= 60
