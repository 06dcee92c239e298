"""Commands are plugins: listed without being imported, and a bad one breaks itself alone."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.plugins import discovery

PLAIN = '''
"""A module."""
import typer

def shout(word: str, times: int = 1) -> None:
    """Print a word in capitals.

    At length.
    """
    typer.echo(" ".join([word.upper()] * times))
'''
APP = '''
"""Words, many of them."""
import typer

app = typer.Typer()

@app.command()
def first(word: str) -> None:
    """The first letter."""
    typer.echo(word[0])

@app.command()
def last(word: str) -> None:
    """The last letter."""
    typer.echo(word[-1])
'''


@pytest.fixture
def maze(installation, monkeypatch):
    """Types a command beside the fake distributions, in this process."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(installation.site)
    monkeypatch.setenv("XDG_CACHE_HOME", str(installation.cache))

    def run(*arguments, **environment):
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", **environment})
        return SimpleNamespace(returncode=result.exit_code, stdout=result.stdout, stderr=result.stderr)

    yield run
    for name in {path.stem for path in installation.site.glob("*.py")} - before:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("shout", "hey", "--times", "2"), "HEY HEY"),
        (("words", "last", "hey"), "y"),
        (("words", "sub", "hey"), "HEY"),
        (("deep", "down", "below", "hey"), "HEY"),
    ],
)
def test_functions_apps_and_what_stands_below_them(installation, maze, arguments, printed):
    entries = ("shout", "words.sub", "deep.down.below")
    installation.add("plain", PLAIN, "command:" + "\n".join(f"{name} = {{module}}:shout" for name in entries))
    installation.add("letters", APP, "command:words = {module}:app")
    done = maze(*arguments)
    assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr


def test_help_and_list_import_no_command_and_say_what_each_is_for(installation, maze):
    installation.add("plain", PLAIN + "raise SystemExit('imported')", "command:shout = {module}:shout")
    installation.add("letters", APP, "command:words = {module}:app\nlone.letter = {module}:app")
    done = maze("--help")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.partition("Commands:\n")[2].splitlines()}
    assert "Print a word in capitals." in lines["shout"]
    assert "Words, many of them." in lines["words"]
    assert "Commands: letter." in lines["lone"]
    assert list(lines)[:4] == ["train", "resume", "fork", "eval"]
    assert "words" not in maze("words", "--help").stderr
    listed = json.loads(maze("plugins", "list", "--kind", "command", "--json").stdout)
    states = {each["name"]: each["state"] for each in listed}
    assert (states["shout"], states["words"], states["lone.letter"], states["train"]) == ("broken", "ok", "ok", "ok")


def test_starting_up_imports_nothing_heavy():
    code = (
        "import sys, runpy; sys.argv = ['maze', '--help']\n"
        "try: runpy.run_module('maze_core.cli.main', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "cli = {name for name in sys.modules if name.startswith('maze_core.cli.')}\n"
        "heavy = {'torch', 'gymnasium', 'stevedore', 'numpy'} & set(sys.modules)\n"
        "print(sorted(cli | heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "['maze_core.cli.group']"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('not today')", "cannot be imported: RuntimeError: not today"),
        ("shout = 3", "not a plugin: the entry point refers to int 3, not a Typer app or a function"),
        ("class shout: pass", "not a plugin: the entry point refers to type"),
        ("def shout(word: 'Missing'): ...", "Typer cannot make a command of it: NameError: name 'Missing'"),
    ],
)
def test_a_broken_command_breaks_only_itself(installation, maze, source, reason):
    installation.add("plain", source, "command:shout = {module}:shout")
    for arguments in (["shout", "hey"], ["shout", "--help"]):
        done = maze(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: command plugin 'shout' of plain 1.0")
        assert reason in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert maze("--help").returncode == maze("envs", "--help").returncode == 0


def test_a_command_of_the_core_cannot_be_replaced(installation, maze):
    entries = ("config", "plugins.info", "sweep")
    installation.add("plain", PLAIN, "command:" + "\n".join(f"{name} = {{module}}:shout" for name in entries))
    done = maze("config", "--help")
    assert "Show configurations." in done.stdout
    assert done.stderr.count("warning: the command 'config' of plain 1.0 is not used: Maze has one of that name") == 1
    listed = json.loads(maze("plugins", "list", "--kind", "command", "--json").stdout)
    found = {(each["name"], each["distribution"]): each["state"] for each in listed}
    assert found["config", "maze-core"] == found["plugins.info", "maze-core"] == "ok"
    assert found["config", "plain"] == found["plugins.info", "plain"] == found["sweep", "plain"] == "clash"
    assert found["sweep", "maze-sweep"] == "ok"
    assert "Train with many configurations" in maze("sweep", "--help").stdout
    assert maze("plugins", "info", "random", "--kind", "policy").returncode == 0


def test_two_that_claim_a_name_are_both_out(installation, maze):
    for name in ("one", "two"):
        installation.add(name, PLAIN, "command:shout = {module}:shout")
    done = maze("shout", "hey")
    assert done.returncode == 2
    assert "claimed by one 1.0 and two 1.0" in done.stderr
    assert maze("shout", "hey", MAZE_DISABLE_PLUGINS="two").stdout.strip() == "HEY"


def test_an_error_in_a_command_names_the_file(installation):
    installation.add("plain", PLAIN.replace("typer.echo(", "print(1 / 0, "), "command:shout = {module}:shout")
    done = installation.maze("shout", "hey")
    assert done.returncode == 1
    assert "error: plain.py, line 10 raised ZeroDivisionError" in done.stderr


def test_an_unknown_command_is_answered_with_what_may_be_meant():
    for name, answer in (("resum", "Did you mean resume?"), ("qqq", "`maze --help` lists")):
        result = CliRunner().invoke(app, [name])
        assert result.exit_code == 2
        assert f"error: unknown command '{name}'" in result.stderr
        assert answer in result.stderr


def test_the_help_in_the_source_is_what_typer_shows():
    """The lines of `maze --help` are read from the source; whoever runs the command reads the same."""
    from maze_core.cli.group import command, deferred

    for name in discovery.names("command"):
        summary = deferred(name).get_short_help_str()
        assert summary
        assert (command(name).help or "").startswith(summary), name


def test_what_cannot_be_reached_is_told(installation, maze):
    installation.add("plain", PLAIN, "command:shout = {module}:shout\nshout.more = {module}:shout")
    installation.add("letters", APP, "command:words = {module}:app\nwords.first = {module}:app")
    done = maze("shout", "hey")
    assert (done.returncode, done.stdout.strip()) == (0, "HEY")
    assert "warning: the command shout.more is not used: `maze shout` has no commands below it" in done.stderr
    done = maze("words", "first", "hey")
    assert (done.returncode, done.stdout.strip()) == (0, "h")
    assert "warning: the command words.first is not used: `maze words` has one of that name" in done.stderr


@pytest.mark.parametrize("command", [["sweep"], ["plugins", "new"]])
def test_a_command_that_is_turned_off_says_so(maze, command):
    done = maze(*command, MAZE_DISABLE_PLUGINS="maze-devkit,maze-sweep")
    assert done.returncode == 2
    assert "It is installed, but MAZE_DISABLE_PLUGINS turns it off" in done.stderr


def test_without_metadata_of_the_core_it_says_so(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # metadata of the core in the current folder would be named instead
    monkeypatch.setattr(discovery, "declared", tuple)
    result = CliRunner().invoke(app, ["train"])
    assert result.exit_code == 2
    assert "maze-core is not installed" in result.stderr


def test_names_that_cannot_be_typed_are_no_commands(installation, maze):
    names = ("lost..found", "-x", ".y", "z.", "shout.-more", "shout")
    installation.add("plain", PLAIN, "command:" + "\n".join(f"{name} = {{module}}:shout" for name in names))
    listed = maze("--help").stdout
    assert "shout" in listed
    assert not any(name in listed for name in ("lost", "-x", "  y ", "  z "))
    assert maze("shout", "hey").stdout.strip() == "HEY"
