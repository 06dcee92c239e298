"""Names of strangers are printed as they are written: no command to the terminal, no further line, no markup."""

import json

import pytest
import yaml
from maze_recordings.progress import progress_bar
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.base.plain_json import checksummed, unsealed
from maze_core.cli.console import LiveOutput, PlainOutput
from maze_core.cli.main import app
from maze_core.cli.output import print_json, print_table
from tests.maze_compare.made_runs import make_run

__all__ = ["make_run"]
NAME = "\x1b]0;owned\x07[red]x[/red]\nfaked line\r\u202e\x9b31m\ud800"
PLAIN = "\\x1b]0;owned\\x07[red]x[/red]\\nfaked line\\r\\u202e\\x9b31m\\ud800"


def maze(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "400"})
    assert not any(character in result.output for character in "\x1b\x07\r\u202e\x9b\ud800")
    assert not any(line.startswith("faked line") for line in result.output.splitlines())
    return result


@pytest.fixture
def hostile(make_run, tmp_path, monkeypatch):
    """Two runs that a stranger named."""
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        folder = make_run(f"a{seed}\x1b[2J\nfaked line", [1.0], lr=float(seed))
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config["env"]["id"] = config["algorithm"]["name"] = NAME.replace("\ud800", "")
        config["algorithm"][f"{seed}\x1b[2J"] = f"{seed}\x1b[2J"
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "runs" / "bad\x1b[2J\nfaked line").mkdir()
    (tmp_path / "runs" / "bad\x1b[2J\nfaked line" / "config.yaml").write_text(f'"{NAME[2:4]}\\e\\nfaked line": 1')
    return tmp_path


@pytest.mark.parametrize("command", ["list", "compare"])
def test_tables_of_runs(hostile, command):
    shown = maze("runs", command, "runs")
    assert shown.exit_code == 0
    assert (PLAIN.removesuffix("\\ud800") if command == "list" else "0\\x1b[2J") in shown.stdout
    assert "bad\\x1b[2J\\nfaked line" in shown.stderr
    assert json.loads(maze("runs", command, "runs", "--json").stdout)


def test_errors(hostile, known_plugins):
    folder = hostile / "runs" / "bad\x1b[2J\nfaked line"
    for command in ("eval", "resume", "rollout"):
        assert maze(command, folder).exit_code == 2
    shown = maze("train", "ppo", "--config", folder / "config.yaml")
    assert "\\x1b\\nfaked line: unknown key" in shown.stderr
    assert "\\x1b" in maze("config", "show", folder).stderr
    assert maze("config", "show", "--algorithm", "ppo", "--env", NAME[:5]).exit_code == 0
    assert "a\\nb: " in str(ConfigError("is wrong", "a\nb"))


def test_a_recording(tmp_path, known_plugins):
    maze("rollout", "--policy", "random", "--env", "CartPole-v1", "-n", "1", "--record", tmp_path / "demos")
    path = tmp_path / "demos" / "trajectories.json"
    description = unsealed(json.loads(path.read_text()))
    path.write_text(json.dumps(checksummed(description | {"source": {NAME: {NAME: NAME}, "deep": [[NAME]]}})))
    shown = maze("trajectories", "info", tmp_path / "demos")
    assert shown.exit_code == 0
    assert f"{PLAIN}  {PLAIN} {PLAIN}" in shown.stdout


def test_a_console(capsys, monkeypatch):
    PlainOutput().write([(NAME, "")])
    assert capsys.readouterr().out == f"{PLAIN}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    LiveOutput().write([(NAME, "bold")])
    assert PLAIN in capsys.readouterr().out


def test_tables_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "300")
    print_table(["[bold]head[/]", "second"], [[NAME, "[link=https://example.org]here[/link]"]])
    shown = capsys.readouterr().out
    assert PLAIN in shown
    assert "[bold]head[/]" in shown
    assert "[link=https://example.org]here[/link]" in shown


def test_json_is_valid_whatever_the_numbers(capsys):
    data = {"a": float("nan"), "b": [1.5, float("inf")], "c": (-float("inf"), {"d": float("nan")}), "e": "NaN"}
    print_json(data)

    def refuse(name):
        raise ValueError(f"{name} is no JSON")

    expected = {"a": None, "b": [1.5, None], "c": [None, {"d": None}], "e": "NaN"}
    assert json.loads(capsys.readouterr().out, parse_constant=refuse) == expected


def test_titles_of_progress_bars(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    with progress_bar("loading [red]x[/red]\x07") as report:
        report(1, 2)
    assert "\x07" not in capsys.readouterr().err


def test_what_to_type_next_is_quoted(quick, tmp_path, monkeypatch):
    folder = tmp_path / "a run; $(touch owned)"
    context = quick("CartPole-v1", run_dir=folder)
    context.train()
    context.close()
    quoted = f"'{folder}'"
    monkeypatch.chdir(tmp_path)
    assert f"maze resume {quoted} --set algorithm.n_epochs=4" in maze("resume", folder).stderr
    assert f"--init-from {quoted}" in maze("resume", folder, "--set", "algorithm.name=a2c").stderr
    assert f"maze resume {quoted}" in maze("train", "ppo", "--env", "CartPole-v1", "--run-dir", folder).stderr
    arguments = ["rollout", folder, "-n", "1", "--record", "de mos"]
    assert "Next: maze trajectories info 'de mos'" in maze(*arguments).stdout
    assert "--record 'no thing'" in maze("trajectories", "info", "no thing").stderr
