"""What is printed may be lost: on a full disk, in a pipe that nobody reads, on a terminal that is gone."""

import errno
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from maze_devkit.envs import SeededWalk

from maze_core.base.tolerant_output import TolerantStream, to_stderr, tolerant_output


class Broken(io.StringIO):
    """A stream of someone's own that takes nothing, such as a terminal that was hung up."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


def full():
    return Path("/dev/full").open("w", encoding="utf-8")


def unread_pipe():
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w", encoding="utf-8")


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


def closed_below():
    """Its descriptor was closed."""
    stream = unread_pipe()
    os.close(stream.fileno())
    return stream


def ascii_only():
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii")


KINDS = {
    "full disk": full,
    "pipe that nobody reads": unread_pipe,
    "closed": closed,
    "ASCII": ascii_only,
    "hung up": lambda: Broken(terminal=True),
    "another's": Broken,
}


class Talkative(SeededWalk):
    """Prints and warns in all its methods."""

    def __init__(self):
        super().__init__()
        print("built ★", flush=True)

    def step(self, action):
        print("stepped ★", flush=True)
        sys.stderr.write("stepped ★\n")
        warnings.warn("stepped ★", stacklevel=1)
        return super().step(action)


@pytest.fixture
def replaced(monkeypatch):
    """`replaced(kind)`: both streams are of that kind."""
    opened = []

    def replace(kind):
        opened.extend([KINDS[kind](), KINDS[kind]()])
        monkeypatch.setattr(sys, "stdout", opened[-2])
        monkeypatch.setattr(sys, "stderr", opened[-1])

    yield replace
    for stream in opened:
        with_nothing_left(stream)


def with_nothing_left(stream):
    """Close a stream; its buffer holds nothing that would fail now, as it would when Python exits."""
    if not isinstance(stream, Broken):
        stream.close()


@pytest.mark.filterwarnings("always::UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on(quick, replaced, kind, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    replaced(kind)
    before = sys.stdout, sys.stderr
    context = quick(Talkative, silent=False)
    assert context.train().outcome == "finished"
    assert (sys.stdout, sys.stderr) == before
    overrides = {"algorithm.n_epochs": 3}
    assert quick(Talkative, silent=False, overrides=overrides).resume(context.run_dir).epochs == 3
    assert len((context.run_dir / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("kind", ["full disk", "another's"])
def test_episodes_are_played_to_their_end(quick, replaced, kind, tmp_path):
    context = quick(Talkative)
    context.train()
    replaced(kind)
    assert len(context.rollout(3, record=tmp_path / "demos")) == 3
    assert any((tmp_path / "demos").iterdir())


def test_it_is_said_once_and_what_can_be_written_is_written(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", stream := full())
    with tolerant_output(), stream:
        for _ in range(3):
            print("x" * 10_000, flush=True)
    assert capsys.readouterr().err.splitlines() == [
        "warning: the output cannot be written (No space left on device) and is dropped; the run goes on"
    ]


def test_a_disk_with_room_again_receives_the_next_lines(tmp_path):
    with (tmp_path / "log").open("w") as file:
        number = os.dup(file.fileno())
        stream = TolerantStream(file)
        with full() as nowhere:
            os.dup2(nowhere.fileno(), file.fileno())
        print("lost", file=stream, flush=True)
        os.dup2(number, file.fileno())
        print("written", file=stream, flush=True)
        os.close(number)
    assert (tmp_path / "log").read_text() == "written\n"


def test_characters_that_an_encoding_lacks_are_escaped():
    stream = ascii_only()
    TolerantStream(stream).writelines(["a★\n", "b\n"])
    stream.flush()
    assert stream.buffer.getvalue() == b"a\\u2605\nb\n"


def test_streams_that_others_replace_stay_theirs(monkeypatch):
    theirs = io.StringIO()
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    with tolerant_output():
        sys.stdout = theirs
        print("kept")
    assert sys.stdout is theirs
    assert theirs.getvalue() == "kept\n"


@pytest.mark.parametrize("stream", [None, closed(), Broken()])
def test_messages_outside_of_runs_end_nothing(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", stream)
    to_stderr("note")
    with tolerant_output():
        print("nowhere", flush=True)
        assert not sys.stdout.isatty() or stream is not None


SMALL = "ppo --env CartPole-v1 --steps 100 --num-envs 2 --n-rollout-steps 25 --set evaluation.n_episodes=1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "redirected", "code"),
    [
        (f"train {SMALL}", ">&- 2>/dev/full", 0),
        (f"sweep {SMALL} --over algorithm.lr=1e-3", ">/dev/full 2>&1", 1),  # the table is lost
    ],
)
def test_exit_codes(tmp_path, command, redirected, code):
    line = f'("$0" -m maze_core.cli.main {command}; echo $? > code) {redirected}'
    subprocess.run(["sh", "-c", line, sys.executable], cwd=tmp_path, timeout=120, check=False)
    assert int((tmp_path / "code").read_text()) == code
    finished = [record for record in tmp_path.rglob("run.json") if '"finished"' in record.read_text()]
    assert len(finished) == (not command.startswith("envs"))
