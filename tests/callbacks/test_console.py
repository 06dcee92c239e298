from __future__ import annotations

import io
import math
import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from maze_core.cli.console import Console, ConsoleConfig, PlainOutput, is_terminal
from maze_core.cli.console_status import Status, fit
from maze_core.cli.console_table import EpochTable, columns_for, duration, loss, score
from maze_core.run.report import RunSummary

METRICS = {
    "train__return_mean": 20.0,
    "eval__return_mean": 487.3,
    "eval__return_std": 12.0,
    "loss__policy": -0.0123,
    "loss__value": 41.23,
    "loss__entropy": 0.691,
    "time__env_steps_per_second": 12140.4,
}


def summary(outcome="finished", **final):
    return RunSummary(outcome, "all 1,000 steps are done", 2, 200, 50, 65.0, final, 487.3, 2)


def text(lines):
    return ["".join(piece for piece, _ in line) for line in lines]


def play(run, epochs, end, style="auto"):
    console = Console(ConsoleConfig(style=style))
    console.on_run_start(run)
    for epoch in epochs:
        console.on_epoch_end(run, epoch)
    console.on_run_end(run, end)


# Numbers


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (487.34, "487.3"),
        (0.745, "0.74"),
        (-12345.6, "-12,346"),
        (math.nan, "-"),
        (-math.inf, "-inf"),
        (-1e-9, "0.00"),
    ],
)
def test_score(value, written):
    assert score(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0123, "0.0123"),
        (41.23, "41.23"),
        (1.2e-5, "1.2e-5"),
        (-0.5, "-0.500"),
        (1e30, "1.0e30"),
        (0.0, "0.0000"),
    ],
)
def test_loss(value, written):
    assert loss(value) == written


@pytest.mark.parametrize("value", [1e300, -1e300, 1e-300, -123456.789, 999.95, math.inf, math.nan, -9.999999])
def test_no_number_breaks_the_columns(value):
    assert len(loss(value)) <= 8
    assert len(score(value)) <= 8


@pytest.mark.parametrize(
    ("seconds", "written"), [(5, "0:05"), (750.9, "12:30"), (3723, "1:02:03"), (360000, "100:00:00")]
)
def test_duration(seconds, written):
    assert duration(seconds) == written


# The table


@pytest.mark.parametrize("width", [59, 79, 99, 119, 200])
@pytest.mark.parametrize("mean", [487.3, -1234.5, math.nan, 1e12])
def test_rows_align_with_their_header_and_fit(make_epoch, width, mean):
    table = EpochTable(100_000, unicode=True)
    metrics = {**METRICS, "eval__return_mean": mean, "loss__my_own_term": math.nan}
    header, row = text(table.lines(make_epoch(1, True, **metrics), width))
    assert len(row) <= width
    assert "eval return" in header
    for title in header.split("eval return")[1].split():
        end = header.index(title) + len(title)
        assert row[end - 1] != " ", title
        assert row[end : end + 1] in ("", " "), title


def test_a_narrow_terminal_keeps_what_matters_most():
    metrics = {name.replace("__", "/") for name in METRICS} | {"loss/zzz"}
    assert [column.title for column in columns_for(metrics, 9)] == ["train"]
    assert [column.title for column in columns_for(metrics, 18)] == ["train", "steps/s"]
    own = {"loss/policy": "policy", "loss/value": "value", "loss/entropy": "entropy"}
    assert [column.title for column in columns_for(metrics, 200, own)] == [
        "train",
        "policy",
        "value",
        "entropy",
        "steps/s",
        "zzz",
    ]


def test_header_returns_every_twenty_rows(make_epoch):
    table = EpochTable(None, unicode=True)
    counts = [len(table.lines(make_epoch(n, **METRICS), 119)) for n in range(1, 43)]
    assert [n for n, count in enumerate(counts) if count == 2] == [0, 20, 40]


def test_a_metric_that_comes_later_gets_its_column_and_keeps_it(make_epoch):
    table = EpochTable(None, unicode=True)
    assert len(table.lines(make_epoch(1, loss__value=1.0), 119)) == 2
    header, _ = text(table.lines(make_epoch(2, loss__value=1.0, loss__policy=2.0), 119))
    assert "policy" in header
    (row,) = text(table.lines(make_epoch(3, loss__value=1.0), 119))
    assert row.split()[-2:] == ["-", "1.000"]


def test_new_best_is_announced_with_its_value(make_epoch):
    table = EpochTable(None, unicode=True)
    best, other = (text(table.lines(make_epoch(n, n == 1, **METRICS), 119))[-1] for n in (1, 2))
    assert best.endswith("★ new best 487.3")
    assert "best" not in other


# Plain output


def test_plain_output_has_no_escapes_and_aligned_lines(make_run, make_epoch, capsys):
    run = make_run()
    play(
        run,
        [make_epoch(1, True, **METRICS), make_epoch(2, **METRICS)],
        summary(**{"eval/return_mean": 480.0}),
    )
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "ppo on CartPole-v1" in out
    assert "mlp, 9,155 parameters" in out
    assert str(run.run_dir) in out
    assert "preset  CartPole-v1" in out
    assert "finished  all 1,000 steps are done" in out
    assert "return 480.0" in out
    assert "in 1:05" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_every_plain_line_is_flushed(monkeypatch):
    flushed = []

    class Stream(io.StringIO):
        encoding = "ascii"

        def flush(self):
            flushed.append(self.getvalue())

    monkeypatch.setattr(sys, "stdout", Stream())
    output = PlainOutput()
    output.write([("one", "bold")])
    output.write([("two", "")])
    assert flushed == ["one\n", "one\ntwo\n"]


def test_an_ascii_output_gets_ascii(make_run, make_epoch, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", errors="strict"))
    play(make_run(), [make_epoch(1, True, **METRICS)], summary(**{"eval/return_mean": 480.0}))
    sys.stdout.flush()
    assert b"* new best 487.3" in raw.getvalue()


def test_quiet_says_nothing(make_run, make_epoch, capsys):
    play(make_run(), [make_epoch(1, True, **METRICS)], summary(), style="quiet")
    assert capsys.readouterr().out == ""


def test_force_color_does_not_make_a_pipe_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not is_terminal()


@pytest.mark.parametrize(
    ("outcome", "saved", "commands"),
    [
        ("finished", True, ["eval", "logdir"]),
        ("stopped", True, ["eval", "logdir"]),
        ("interrupted", True, ["eval", "resume", "logdir"]),
        ("interrupted", False, ["eval", "logdir"]),
        ("failed", True, ["logdir"]),  # the error says how to go on
        ("failed", False, []),  # the folder is about to be removed
    ],
)
def test_what_to_type_next(make_run, capsys, tmp_path, outcome, saved, commands):
    run = make_run(run_dir=tmp_path / "my run")
    if saved:
        (run.run_dir / "checkpoints" / "last").mkdir(parents=True)
    run.saving = SimpleNamespace(has_progress=saved)
    play(run, [], summary(outcome))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "my run'" in line]
    assert [next(word for word in ("eval", "resume", "logdir") if word in line) for line in lines] == commands


def test_the_outcome_is_not_said_twice(make_run, capsys):
    play(make_run(), [], RunSummary("interrupted", "interrupted by Ctrl-C", 1, 1, 1, 1.0))
    assert "interrupted  by Ctrl-C\n" in capsys.readouterr().out
    play(make_run(), [], summary("failed"))
    assert "\nfailed\n" in capsys.readouterr().out  # the error follows


def test_a_total_is_not_counted_as_a_part(make_run, capsys):
    play(make_run(parameter_counts={"policy": 3, "critic": 4, "total": 7}), [], summary())
    assert "mlp, 7 parameters" in capsys.readouterr().out


def test_without_a_run_directory_there_is_nothing_to_type(make_run, capsys):
    play(make_run(run_dir=None), [], summary())
    assert "maze eval" not in capsys.readouterr().out


# The live status


def test_fraction_is_of_whatever_ends_first(make_run):
    run = make_run(steps=1000)
    status = Status(run, "·")
    run.progress.env_steps = 250
    assert status.fraction() == 0.25
    run = make_run(steps=1000, n_epochs=2)
    status = Status(run, "·")
    run.progress.env_steps, run.state.updates_in_epoch = 250, 20
    assert status.fraction() == pytest.approx(0.4)
    assert Status(make_run(steps=None), "·").fraction() is None


def test_time_left_counts_only_this_process(make_run, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("maze_core.cli.console_status.time.monotonic", lambda: now[0])
    run = make_run(steps=1000, resumed=True, env_steps=500)
    run.progress.env_steps = 500
    status = Status(run, "·")
    assert status.seconds_left() is None
    now[0], run.progress.env_steps = 110.0, 600
    assert status.seconds_left() == pytest.approx(40.0)


def test_fit_drops_the_least_wanted_and_keeps_the_order():
    items = [(0, "aa"), (2, "bb"), (1, "cc")]
    assert [fit(items, "-", width) for width in (8, 7, 5, 2, 1, -3)] == [
        "aa-bb-cc",
        "aa-cc",
        "aa-cc",
        "aa",
        "",
        "",
    ]


SCRIPT = """
    import sys, time
    sys.path.insert(0, {folder!r})
    from pathlib import Path
    from tests.observed import build_epoch, build_run
    from maze_core.cli.console import Console, ConsoleConfig
    from maze_core.run.report import RunSummary
    run, console = build_run(Path("runs/x")), Console(ConsoleConfig())
    console.on_run_start(run)
    run.progress.env_steps = 420
    time.sleep(0.6)
    console.on_epoch_end(run, build_epoch(1, True, eval__return_mean=487.3, loss__value=float("nan")))
    print("a line of somebody else")
    console.on_run_end(run, RunSummary("finished", "done", 1, 100, 25, 1.0))
"""


@pytest.mark.parametrize("columns", [60, 120])
def test_on_a_terminal_the_status_moves_and_goes_away(columns):
    primary, secondary = pty.openpty()
    script = textwrap.dedent(SCRIPT).format(folder=str(Path(__file__).parents[2]))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "20"}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=secondary, stderr=secondary, env=environment)
    os.close(secondary)
    output = b""
    try:
        while chunk := os.read(primary, 4096):
            output += chunk
    except OSError:  # Linux: the other end is closed.
        pass
    os.close(primary)
    assert process.wait() == 0
    screen = output.decode()
    assert " 42%" in screen
    assert "★ new best 487.3" in screen
    assert "a line of somebody else" in screen
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h") == 1, "the cursor comes back"
    assert "maze eval runs/x" in screen.split("\x1b[?25h")[1]


def test_importing_the_console_loads_neither_torch_nor_rich():
    script = "import maze_core.cli.console, sys; print(sorted({'torch', 'rich'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"


def test_metrics_that_are_asked_for_are_columns(make_run, make_epoch, capsys):
    console = Console(Console.Config(name="console", style="plain", metrics=("eval/kpi/waste", "train/kpi/\x1b[2J")))
    run = make_run()
    console.on_run_start(run)
    console.on_epoch_end(run, make_epoch(1, **{"eval/kpi/waste": 0.25, "train/kpi/\x1b[2J": 3.0}))
    header, row = capsys.readouterr().out.splitlines()[-2:]
    assert "eval/kpi/waste" in header
    assert "\x1b" not in header
    assert "0.250" in row


def test_a_metric_that_nothing_records_is_said_once_when_the_names_are_known(make_run, make_epoch, capsys):
    asked = ("eval/kpi/wast", "train/retrun_mean", "loss/entorpy", "eval/qwertz", "eval/return_mean")
    console, run = Console(Console.Config(name="console", style="plain", metrics=asked)), make_run()

    def notes(**metrics):
        capsys.readouterr()
        console.on_epoch_end(run, make_epoch(1, **metrics))
        lines = capsys.readouterr().out.splitlines()
        prefix = "  note    callbacks.console.metrics: nothing has recorded "
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]

    console.on_run_start(run)
    assert notes(**{"loss/entropy": 1.0}) == ["loss/entorpy so far; did you mean loss/entropy?"]
    assert notes(**{"train/return_mean": 2.0}) == ["train/retrun_mean so far; did you mean train/return_mean?"]
    evaluated = {"eval/return_mean": 1.0, "eval/kpi/waste": 0.5}
    known = "known: eval/kpi/waste, eval/return_mean, loss/entropy, train/return_mean"
    assert notes(**evaluated) == ["eval/kpi/wast so far; did you mean eval/kpi/waste?", f"eval/qwertz so far; {known}"]
    assert notes(**evaluated) == []


@pytest.mark.parametrize("own", [{}, {"loss/policy": "policy", "loss/value": "value", "loss/entropy": "entropy"}])
@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_metric_that_is_asked_for_has_a_column_or_a_note(make_run, make_epoch, monkeypatch, capsys, width, own):
    asked = ("eval/kpi/waste", "train/kpi/" + "long" * 9, "loss/value")
    console, run = Console(Console.Config(name="console", style="plain", metrics=asked)), make_run()
    run.algorithm.columns = own
    monkeypatch.setattr(PlainOutput, "width", lambda self: width)
    console.on_run_start(run)
    metrics = dict.fromkeys((*asked, *own, "train/return_mean", "time/env_steps_per_second"), 0.25)
    for epoch in (1, 2):
        console.on_epoch_end(run, make_epoch(epoch, **metrics))
    lines = capsys.readouterr().out.splitlines()
    header = next(line for line in lines if line.startswith("epoch"))
    notes = [line for line in lines if "have no room for" in line]
    for name in asked:
        assert (name.removeprefix("train/")[:40] in header) != any(name in note for note in notes)
    assert len(notes) == (0 if width == 200 else 1)
