"""`maze runs watch`: what the table says, that it changes with the runs, and that it leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest
import yaml
from maze_compare.table import Runs, progress, runs_table, sparkline
from maze_compare.watching import watch
from rich.console import Console
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.run.saved.run_dir import LOCK
from tests.maze_compare.made_runs import make_run

__all__ = ["make_run"]


def drawn(runs, width=140, height=24, metric="eval/return_mean"):
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(runs_table(runs, metric, width, height))
    return console.file.getvalue().splitlines()


def lock(run):
    """Hold a run as its process does, until the file is closed."""
    file = (run / LOCK).open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def change(run, **values):
    """Give a run's configuration other values."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, **values}))


def test_running_runs_come_first_with_progress_and_curve(make_run, tmp_path):
    make_run("done", [1.0, 3.0], seed=1)
    going = make_run("going", [1.0, 5.0, 2.0], outcome=None)
    change(going, steps=1200)
    os.utime(going / "metrics.jsonl", (1, 1))
    with lock(going):
        runs = Runs([tmp_path / "runs"]).read()
        lines = drawn(runs, 170)
    assert lines[0].strip() == "2 runs: 1 running, 1 finished"
    assert " ".join(lines[1].split()) == "run algorithm env state steps done left steps/s best last curve"
    first, second = lines[2], lines[3]
    assert first.split()[1:] == ["ppo", "CartPole-v1", "running", "300", "25%", "0:04", "-", "5", "2", "▁█▃"]
    assert first.split()[0].endswith("runs/going")
    assert second.split()[3:6] == ["finished", "200", "-"]


def test_a_curve_that_no_run_has_is_said(make_run, tmp_path):
    make_run("one", [1.0, 2.0])
    runs = Runs([tmp_path / "runs"]).read()
    assert (
        "curve: no run has eval/retrun_mean; did you mean eval/return_mean?"
        in drawn(runs, metric="eval/retrun_mean")[-1]
    )
    assert "curve: eval/return_mean  " in drawn(runs)[-1]


def test_a_run_is_read_again_only_when_it_changes_or_its_process_ends(make_run, tmp_path, monkeypatch):
    done, going = make_run("done", [1.0]), make_run("going", [1.0], outcome=None)
    runs, read = Runs([tmp_path / "runs"]), []
    from maze_compare import table as module

    whole = module.read_or_damaged
    monkeypatch.setattr(module, "read_or_damaged", lambda folder: (read.append(folder.name), whole(folder))[1])

    def states():
        read.clear()
        return {run.path.name: run.state for run in runs.read()}

    with lock(going):
        assert states() == {"done": "finished", "going": "running"}
        states()
        assert read == []
        with (going / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"epoch": 2, "eval/return_mean": 9.0}) + "\n")
        states()
        assert read == ["going"]
    assert states() == {"done": "finished", "going": "killed"}
    (done / "config.yaml").unlink()
    assert states() == {"going": "killed"}
    make_run("new", [2.0])
    assert set(states()) == {"going", "new"}


@pytest.mark.parametrize(("width", "height"), [(20, 5), (40, 10), (79, 24), (200, 6), (1, 1)])
def test_it_fits_into_every_terminal(make_run, tmp_path, width, height):
    for number in range(12):
        make_run(f"run-with-a-long-name-{number}", [1.0, 2.0])
    lines = drawn(Runs([tmp_path / "runs"]).read(), width, height)
    assert all(len(line) <= max(width, 22) for line in lines)
    assert len(lines) <= max(height, 5)
    if width >= 40 and height < 17:
        assert any("more runs" in line for line in lines)


def test_hostile_runs_are_shown_safely(make_run, tmp_path):
    evil = "\x1b[2J[bold red]x[/]\u202e"
    run = make_run(f"a{evil}".replace("/", ""), [1e308, -1e308, 1e308], env=evil, algorithm=evil)
    change(run, steps=10**400)
    other = make_run("b", [1.0], outcome=None)
    change(other, steps=[1, 2])
    (other / "metrics.jsonl").write_text('{"epoch": 1, "seconds": 1e300, "env_steps": 1e300, "eval/return_mean": 1}\n')
    third = make_run("c", [1.0])
    (third / "config.yaml").write_text("no: run\x1b[2J\n")
    (tmp_path / "runs" / "loop").symlink_to(tmp_path / "runs")
    runs = Runs([tmp_path / "runs"]).read()
    assert len(runs) == 3
    for width in (60, 140):
        text = "\n".join(drawn(runs, width))
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "[bold red]" in text
    assert "damaged" in text


def test_progress_ends_at_one_and_knows_no_end_without_a_limit(make_run, tmp_path):
    run = make_run("a", [1.0] * 4, n_epochs=2)
    (found,) = Runs([tmp_path / "runs"]).read()
    assert progress(found).fraction == 1.0
    change(run, algorithm={"name": "ppo"})
    (found,) = Runs([tmp_path / "runs"]).read()
    assert progress(found).fraction is None


def test_curves_of_all_lengths_and_sizes():
    assert sparkline([]) == ""
    assert sparkline([math.nan, math.inf]) == ""
    assert sparkline([3.0, 3.0]) == "▄▄"
    assert sparkline([0, 7]) == "▁█"
    assert sparkline([-1.7e308, 1.7e308]) == "▁█"
    assert sparkline(range(8)) == "▁▂▃▄▅▆▇█"
    assert sparkline(range(1000)) == "▁▁▂▂▃▃▄▄▅▅▆▆▇▇██"


def test_the_watch_draws_until_it_is_interrupted_and_restores_signals(make_run, tmp_path):
    make_run("a", [1.0])
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=20)
    waits = []

    def pause(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as ended:
        watch(Runs([tmp_path / "runs"]).read, "eval/return_mean", 0.5, console, pause)
    assert ended.value.exit_code == 143
    assert waits == [0.5] * 3
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    text = console.file.getvalue()
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_ctrl_c_on_a_terminal_ends_it_cleanly(make_run, tmp_path):
    make_run("a", [1.0])
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, b"\x18\x00\x78\x00\x00\x00\x00\x00")
    process = subprocess.Popen(
        [sys.executable, "-m", "maze_core.cli.main", "runs", "watch", "runs", "--every", "0.2"],
        cwd=tmp_path, stdin=secondary, stdout=secondary, stderr=secondary, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(secondary)
    screen = _heard(primary, lambda text: "1 run: 1 finished" in text)
    make_run("b", [2.0])
    screen += _heard(primary, lambda text: "2 runs: 2 finished" in text)
    os.write(primary, b"\x03")
    assert process.wait(30) == 130
    screen += _heard(primary, lambda text: False)
    os.close(primary)
    assert "Traceback" not in screen
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h") == 1, "the cursor comes back"


def _heard(terminal, enough):
    """Read until the text is enough, or the other end is closed."""
    text, end = "", time.monotonic() + 60
    while not enough(text) and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                text += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # Linux: the other end is closed
                return text
    return text


def called(*arguments, code=0):
    result = CliRunner().invoke(app, ["runs", "watch", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_in_a_pipe_it_prints_once_with_filters(make_run, tmp_path):
    make_run("a", [1.0], env="Acrobot-v1")
    make_run("b", [1.0], outcome="failed")
    (make_run("c", [1.0]) / "run.json").write_text("[")
    place = tmp_path / "runs"
    assert called(place).splitlines()[0].startswith("3 runs: ")
    assert called(place, "--state", "failed").splitlines()[0].startswith("1 run: 1 failed")
    assert called(place, "--state", "damaged").splitlines()[0].startswith("1 run: 1 damaged")
    assert re.search(r"1 run: 1 finished", called(place, "--env", "Acrobot-v1", "--state", "finished"))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert called(empty).splitlines()[0].strip() == "0 runs"


def test_wrong_input_is_one_line(tmp_path):
    assert "there is no such folder" in called(tmp_path / "nowhere", code=2)
    assert "--state" in called(tmp_path, "--state", "runing", code=2)
