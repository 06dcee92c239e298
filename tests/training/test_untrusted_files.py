"""A run directory from elsewhere is data; nothing in it is executed."""

import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError, MazeError
from maze_core.cli.main import app
from maze_core.plugins.config.assembly import load_run_config
from maze_core.run import api
from maze_core.run.saved import saved_run

pytestmark = pytest.mark.usefixtures("known_plugins")


class Malice:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from maze_core.plugins.config.assembly import assemble

    folder = tmp_path_factory.mktemp("trained") / "run"
    flags = {"algorithm.n_epochs": 2, "algorithm.epoch_length": 1, "algorithm.n_rollout_steps": 4, "seed": 1}
    flags |= {"evaluation.n_episodes": 1, "callbacks.console": None}
    api.train(assemble("ppo", "CartPole-v1", "none", flags=flags), folder)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def victim(tmp_path):
    """The file whose existence proves that something was executed."""
    return tmp_path / "executed"


def plain_pickle(victim):
    return pickle.dumps(Malice(victim))


def torch_file(victim):
    path = victim.with_name("malice.pt")
    torch.save({"weight": Malice(victim)}, path)
    data = path.read_bytes()
    path.unlink()
    return data


def commands(run):
    return (
        ["resume", run, "--set", "algorithm.n_epochs=3"],
        ["resume", run, "--checkpoint", "previous", "--set", "algorithm.n_epochs=3"],
        ["eval", run, "-n", "1"],
        ["eval", run, "-n", "1", "--checkpoint", "last"],
        ["config", "show", run],
        [
            "train",
            "ppo",
            "--env",
            "CartPole-v1",
            "--init-from",
            run,
            "--run-dir",
            run.parent / "new",
            "--steps",
            "1",
            "--set",
            "evaluation.n_episodes=1",
        ],
    )


def all_files(run):
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())


def test_the_trap_works(victim):
    pickle.loads(plain_pickle(victim))
    assert victim.exists()


def test_a_pickle_in_place_of_every_file_is_not_executed(trained, tmp_path, victim):
    assert len(all_files(trained)) > 14
    for number, name in enumerate(all_files(trained)):
        run = tmp_path / str(number)
        shutil.copytree(trained, run)
        (run / name).write_bytes((plain_pickle, torch_file)[number % 2](victim))
        for command in commands(run)[number % 3 :: 3]:
            result = CliRunner().invoke(app, [str(each) for each in command])
            assert result.exit_code in (0, 2), (name, command, result.output)
        assert not victim.exists(), name
        shutil.rmtree(run)
        shutil.rmtree(run.parent / "new", ignore_errors=True)


def test_a_pickle_beside_the_files_is_not_executed(run, victim):
    """Under names that other frameworks load."""
    names = ["model.pt", "model.pth", "policy.pkl", "state.pkl", "state_dict.pt", "checkpoint.pt", "data.pkl"]
    names += ["model.bin", "env_args.pkl", "normalizer.pkl", "state.npz", "state.npy", "__init__.py", "conftest.py"]
    for folder in (run, run / "checkpoints", *(run / "checkpoints").iterdir()):
        for name in names:
            source = f"open({str(victim)!r}, 'w')".encode()
            (folder / name).write_bytes(source if name.endswith(".py") else plain_pickle(victim))
    with zipfile.ZipFile(run / "model.zip", "w") as archive:
        archive.writestr("data.pkl", plain_pickle(victim))
    for command in commands(run)[:5:2]:
        assert CliRunner().invoke(app, [str(each) for each in command]).exit_code == 0
    assert not victim.exists()


TAGS = (
    "!!python/object/apply:os.system ['touch {victim}']",
    "!!python/object/apply:subprocess.check_output [[touch, {victim}]]",
    "!!python/object/new:type {{args: [x, !!python/tuple [], {{}}]}}",
    "!!python/name:os.system",
    "!!python/module:os",
    "!!python/tuple [1, 2]",
    "!!binary gASVKQ==",
    "!!set {{a, b}}",
    "!own tag",
)


@pytest.mark.parametrize("tag", TAGS)
def test_yaml_tags_are_refused_everywhere(run, victim, tag):
    """In a run's configuration, in a file, and on the command line."""
    value = tag.format(victim=victim)
    path = run / "config.yaml"
    _checksum, _, text = path.read_text().partition("\n")
    path.write_text(text + f"extra: {value}\n")
    with pytest.raises(ConfigError):
        load_run_config(path)
    with pytest.raises(ConfigError):
        saved_run.resume(run)
    result = CliRunner().invoke(app, ["train", "ppo", "--env", "CartPole-v1", "--set", f"algorithm.lr={value}"])
    assert result.exit_code == 2
    assert not victim.exists()


@pytest.mark.parametrize("name", ["os:system", "os.system", "maze_devkit.envs:FailingEnv", "../../evil", "eval"])
@pytest.mark.parametrize("part", ["algorithm", "model", "runner", "env", "callbacks.x"])
def test_plugins_are_named_not_imported_by_path(run, part, name):
    with pytest.raises(MazeError, match=r"unknown|no such"):
        load_run_config(run / "config.yaml", [f"{part}.name={name}"])


def test_strings_are_not_evaluated(run, victim):
    for value in (f"__import__('pathlib').Path({str(victim)!r}).touch()", f"$(touch {victim})", f"`touch {victim}`"):
        for path in ("algorithm.lr", "env.id", "model.hidden", "evaluation.num_envs"):
            with pytest.raises(MazeError):
                api.start(load_run_config(run / "config.yaml", [f'{path}="{value}"']), run.parent / "new")
    assert not victim.exists()


def test_recorded_factories_are_not_imported(run, victim, tmp_path, monkeypatch):
    """The place where a function was defined is a record: opening the run does not import it."""
    (tmp_path / "evil_module.py").write_text(f"open({str(victim)!r}, 'w')\ndef make(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    for override in (
        "env={name: factory, factory: 'evil_module:make'}",
        "model={name: custom, source: 'evil_module:make'}",
    ):
        result = CliRunner().invoke(app, ["eval", str(run)])
        assert result.exit_code == 0
        with pytest.raises(ConfigError, match=r"'evil_module:make', which cannot be saved in a file"):
            saved_run.open_policy(run, overrides=[override])
    assert not victim.exists()
    assert Path(run).exists()
