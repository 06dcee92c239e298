"""What newcomers type and Maze does not have is answered with what works: every answer of the table is tried."""

import re
import shlex
from pathlib import Path

import gymnasium
import pytest
from typer.testing import CliRunner

from maze_core.cli.group import command
from maze_core.cli.main import app
from maze_core.cli.wrong_usage import COMMANDS, OPTIONS, option_instead
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.explain import model_at

pytestmark = pytest.mark.usefixtures("known_plugins")
STANDS_FOR = {
    "RUN": "runs/first", "ID": "CartPole-v1", "NAME": "mlp", "DIR": "films", "N": "5", "ALGORITHM": "ppo",
    "KIND": "env", "PATH=VALUE": "seed=1", "env.kwargs.NAME=VALUE": "env.kwargs.size=5",
}  # fmt: skip
TYPED = {
    "maze train": "maze train ppo", "maze resume": "maze resume", "maze eval": "maze eval",
    "maze rollout": "maze rollout", "maze sweep": "maze sweep", "maze fork": "maze fork",
}  # fmt: skip


def answers():
    """Every answer of the table, by what it answers."""
    yield from ((f"maze {name}", text) for name, text in COMMANDS.items())
    for start, table in OPTIONS.items():
        for name in table:
            option = f"--{name.replace('_', '-')}"
            yield f"{TYPED[start]} {option}", option_instead(option, TYPED[start])


def commands_in(answer):
    """The commands of an answer: each up to the next sign that ends it."""
    text = re.sub(r"`([^`]*)`", r"\1 ,", answer)
    found = re.findall(r"(?:maze|tensorboard) [^,;:]*?(?=,|;|:|$| shows| and | while )", text.replace("Next: ", ""))
    return [each.strip() for each in found]


@pytest.fixture(scope="module")
def answered():
    return dict(answers())


def test_every_answer_can_be_typed(answered):
    """Its commands exist and have the options, and what is set exists; nothing is left that stands for something."""
    loose = [(typed, answer) for typed, answer in answered.items() if not re.search(r"maze|--|tensorboard", answer)]
    assert loose == []
    options = {}
    for typed, answer in answered.items():
        for each in commands_in(answer):
            program, *words = shlex.split(each)
            if program == "tensorboard":
                continue
            words = [STANDS_FOR.get(word, word) for word in words]
            check(words, options, (typed, each))


def check(words, known, where):
    name, rest = words[0], words[1:]
    if name.startswith("--"):
        assert name in ("--help", "--version"), where
        return
    assert name in discovery.names("command") or any(
        each.startswith(f"{name}.") for each in discovery.names("command")
    ), where
    if name == "train" and rest and rest[0] != "--help":
        assert rest[0] in discovery.names("algorithm"), where
    key = (name, rest[0]) if name in ("train", "runs", "plugins", "envs", "config") and rest else (name,)
    if key not in known:
        known[key] = spellings(*key)
    for number, word in enumerate(words):
        if word.startswith("--"):
            assert word in known[key] | {"--help"}, where
        if words[number - 1] == "--set":
            assert is_setting(word.partition("=")[0]), where


def spellings(name, below=None):
    """The options of a command."""
    if below == "--help":
        return {"--help"}
    found = command(name)
    if name == "train":
        with found.make_context(name, ["ppo"]) as context:
            found = found.resolve_command(context, [below])[1]
    elif below is not None and hasattr(found, "commands"):
        found = found.commands[below]
        found = command(found.path) if getattr(found, "path", "") else found
    return {spelling for each in found.params for spelling in (*each.opts, *each.secondary_opts)}


def is_setting(path):
    config = assemble("ppo", "CartPole-v1", "none", flags={"runner.name": "local"})
    part, _, field = path.partition(".")
    value = getattr(config, part, None)
    if field.startswith("kwargs."):
        return part == "env"
    return part in type(config).model_fields and (not field or model_at(type(value), (field,)) or hasattr(value, field))


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("help", "Next: maze --help"),
        ("version", "Next: maze --version"),
        ("test", "maze eval RUN"),
        ("list", "Next: maze runs list"),
        ("LS", "Next: maze runs list"),
        ("sac", "Next: maze train sac --env"),
        ("train ppo CartPole-v1", "Next: maze train ppo --env CartPole-v1"),
        ("train ppo algorithm.lr=3", "Next: maze train ppo --set algorithm.lr=3"),
        ("train --algo ppo --env CartPole-v1", "Next: maze train ppo --env CartPole-v1"),
        ("train --algorithm=ppo --env CartPole-v1", "Next: maze train ppo --env CartPole-v1"),
        ("train crossq --env Pendulum-v1", "maze train sac --preset crossq"),
        ("train ppo --env CartPole-v1 --hidden 64", "--set model.hidden=[64,64]"),
        ("train ppo --env CartPole-v1 --render", "maze view RUN"),
        ("train ppo --env CartPole-v1 --seeds 5", "maze sweep ppo --env ID --seeds 5"),
        ("train ppo --env CartPole-v1 --help-all", "`maze train ppo --help` shows every option"),
        ("train ppo --env CartPole-v1 --gpu", "--device cuda"),
        ("train ppo --env CartPole-v1 -v", "--quiet"),
        ("train ppo --env CartPole-v1 --learning-rate 1", "In Maze it is --lr"),
        ("resume run --steps 100", "maze resume RUN --set steps=N"),
        ("eval one two", "One run at a time"),
        ("eval folder", "It holds 2 runs, the newest folder/b/ppo/2. "),
        ("train ppo --env walks.py:Walk", "Next: --env walks:Walk"),
        ("train ppo --env ./walks.py", "Next: --env walks:NAME"),
        ("train ppo --env folder/walks.py:Walk", "Next: --env walks:Walk, with PYTHONPATH=folder"),
        ("train ppo --env walks.Walk", "Next: --env walks:Walk"),
        ("train ppo --env walks", "It is a module. Next: --env walks:NAME"),
        ("train ppo --env MiniGrid-Empty-5x5-v0", "--env minigrid:MiniGrid-Empty-5x5-v0"),
        ("train ppo --env PongNoFrameskip-v4", "Next: --env ALE/Pong-v5"),
        ("train ppo --env FetchReach-v4", "--env gymnasium_robotics:FetchReach-v4"),
        ("train ppo --env cartpole", "Did you mean CartPole-v1"),
    ],
)
def test_what_a_newcomer_types(tmp_path, monkeypatch, typed, answer):
    monkeypatch.chdir(tmp_path)
    for name, spec in list(gymnasium.registry.items()):  # other tests import packages that register some
        if name in typed and not str(spec.entry_point).startswith("gymnasium."):
            monkeypatch.delitem(gymnasium.registry, name)
    Path("walks.py").touch()
    for name in ("a/ppo/1", "b/ppo/2"):
        Path("folder", name).mkdir(parents=True)
        Path("folder", name, "config.yaml").touch()
    result = CliRunner().invoke(app, typed.split(), env={"COLUMNS": "200"})
    assert (result.exit_code, result.stdout) == (2, "")
    assert answer in result.stderr
    assert not Path("runs").exists()


def test_nothing_that_there_is_has_an_answer_in_the_table():
    assert not COMMANDS.keys() & {name.partition(".")[0] for name in discovery.names("command")}
    for start, typed in TYPED.items():
        key = typed.split()[1:]
        own = {each.lstrip("-").replace("-", "_") for each in spellings(*key) if each.startswith("-")}
        assert not OPTIONS[start].keys() & own, start
