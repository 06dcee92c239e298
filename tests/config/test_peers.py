"""Names of other libraries, and names without their part: each is answered with Maze's."""

import pytest
from typer.testing import CliRunner

import maze_core
from maze_core import ConfigError, RunContext
from maze_core.cli.main import app
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.peers import PEERS
from maze_core.plugins.config.run import RunConfig

pytestmark = pytest.mark.usefixtures("known_plugins")


def typed_in(*arguments):
    """Exit code and what is printed to stderr."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    return result.exit_code, result.stderr


def known_paths():
    """Every path of a configuration that some bundled plugin has."""
    paths = set(RunConfig.model_fields)
    for kind in ("algorithm", "model", "runner", "env"):
        for name in discovery.names(kind):
            config = getattr(discovery.load(kind, name), "Config", None)
            paths |= {kind, *(f"{kind}.{field}" for field in getattr(config, "model_fields", ()))}
    return paths | {f"evaluation.{field}" for field in RunConfig.model_fields["evaluation"].annotation.model_fields}


def test_every_name_of_the_table_leads_to_a_parameter_that_exists():
    paths = known_paths()
    wrong = {name: ours for name, ours in PEERS.items() if ours not in paths and not ours.startswith("callbacks.")}
    assert not wrong


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("--learning-rate", "In Maze it is --lr"),
        ("--total-timesteps", "In Maze it is --steps"),
        ("--n-envs", "In Maze it is --num-envs"),
        ("--update-epochs", "In Maze it is --n-optimization-epochs"),
        ("--hidden-sizes", "In Maze it is --set model.hidden=VALUE"),
        ("--wandb", "In Maze it is --set callbacks.wandb.project=VALUE"),
        ("--num-env", "Did you mean --env or --num-envs?"),
        ("--zzz", "Next: maze train ppo -h"),
    ],
)
def test_options(typed, answer):
    code, printed = typed_in("train", "ppo", "--env", "CartPole-v1", typed, "1")
    assert (code, printed) == (2, f"error: {typed}: there is no such option\n{answer}\n")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("lr", "lr: is algorithm.lr in Maze"),
        ("learning_rate", "learning_rate: is algorithm.lr in Maze"),
        ("net_arch", "net_arch: is model.hidden in Maze"),
        ("total_timesteps", "total_timesteps: is steps in Maze"),
        ("n_eval_episodes", "n_eval_episodes: is evaluation.n_episodes in Maze"),
        ("algorithm.learning_rate", "algorithm.learning_rate: unknown key; in Maze it is lr"),
        ("model.net_arch", "model.net_arch: unknown key; in Maze it is hidden"),
        ("qwertz", "qwertz: unknown key; known: env, wrappers"),
        ("buffer_size", "buffer_size: unknown key; known: env"),
    ],
)
def test_paths(path, answer):
    with pytest.raises(ConfigError) as caught:
        assemble("ppo", "CartPole-v1", preset="none", flags={path: 1})
    assert str(caught.value).startswith(answer)


@pytest.mark.parametrize(
    ("algorithm", "name", "answer"),
    [
        (None, "lr", 'overrides={"algorithm.lr": ...}'),
        ("sac", "buffer_size", 'overrides={"algorithm.replay_buffer_size": ...}'),
        ("ppo", "total_timesteps", "steps=..."),
        ("ppo", "net_arch", 'overrides={"model.hidden": ...}'),
        ("ppo", "track", 'overrides={"callbacks.wandb.project": ...}'),
        ("ppo", "qwertz", "help(maze_core.RunContext)"),
    ],
)
def test_arguments(algorithm, name, answer):
    with pytest.raises(ConfigError, match=name) as caught:
        RunContext("CartPole-v1", algorithm, **{name: 1})
    assert answer in str(caught.value)


def test_other_wrong_usage_has_the_same_form():
    for arguments in (("train", "ppo", "--num-envs"), ("train", "ppo", "more"), ("eval",), ("runs", "plto")):
        code, printed = typed_in(*arguments)
        lines = printed.splitlines()
        assert code == 2, printed
        assert [line.split(" ")[0] for line in lines] == ["error:", "Next:"], printed


def test_the_package_shows_its_names_and_no_other():
    assert set(dir(maze_core)) == {*maze_core.__all__, "__version__"}
    assert maze_core.__version__
