"""Presets and experiments of the current folder, and of packages that the group `maze.presets` names."""

import json
import os
import sys

import pytest
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import INSTALLED, assemble
from maze_core.plugins.config.experiments import experiment, experiment_algorithm, experiments
from maze_core.plugins.config.presets import named_presets, package_folder, preset_paths
from maze_core.run.context import RunContext


@pytest.fixture
def project(tmp_path, monkeypatch):
    """`project(path, text)` writes a file of the project in the current folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def write(path, text):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install(name, files, value)`: a distribution whose entry point `name` refers to the package of that name."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def add(name, files, value=None):
        for path, text in files.items():
            file = site / f"maze_{name}" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (site / f"maze_{name}" / "__init__.py").write_text("raise SystemExit('imported')")
        info = site / f"maze_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: maze-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[maze.presets]\n{name} = {value or f'maze_{name}'}\n")

    return add


def lr(env="CartPole-v1", preset="auto", **more):
    config, title = INSTALLED.assemble_with_preset("ppo", env, preset, **more)
    return config.algorithm.lr, title


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def test_presets_of_the_project_come_first_and_say_where_they_are(project):
    tuned, title = lr()
    assert title == "CartPole-v1"
    project("presets/ppo/CartPole-v1.yaml", "algorithm: {lr: 0.5}")
    project("presets/own.yaml", "algorithm: {name: ppo, lr: 0.25}")
    project("presets/others.yaml", "algorithm: {name: a2c, lr: 0.25}")
    project("presets/nobodys.yaml", "algorithm: {lr: 0.25}")
    project("presets/a2c/theirs.yaml", "algorithm: {lr: 0.25}")
    assert lr() == (0.5, "CartPole-v1 (presets/ppo/CartPole-v1.yaml)")
    assert lr(preset="own") == (0.25, "own (presets/own.yaml)")
    assert lr(preset="classic")[1] == "classic"
    for name in ("others", "nobodys", "theirs"):
        with pytest.raises(ConfigError, match=f"no preset '{name}'"):
            lr(preset=name)
    listed = named_presets("ppo", preset_paths("ppo", "maze_ppo", None))
    assert [each.title for each in listed.values() if not each.preset_folder.trusted] == [
        "CartPole-v1 (presets/ppo/CartPole-v1.yaml)",
        "own (presets/own.yaml)",
    ]
    assert tuned not in (0.5, 0.25)


def test_a_preset_is_named_like_the_environment_without_its_module(project):
    project("presets/ppo/Mine-v0.yaml", "algorithm: {lr: 0.5}")
    project("presets/ppo/ALE-Mine-v5.yaml", "algorithm: {lr: 0.125}")
    assert lr("my_envs:Mine-v0")[0] == 0.5
    assert lr("my_envs:ALE/Mine-v5")[0] == 0.125
    assert lr("my_envs:Other-v0")[0] not in (0.5, 0.125)


def test_a_broken_preset_disturbs_only_those_who_ask_for_it(project):
    project("presets/ppo/CartPole-v1.yaml", "algorithm: [")
    assert lr("Acrobot-v1")[1] == "Acrobot-v1"
    with pytest.raises(ConfigError, match=r"presets/ppo/CartPole-v1.yaml: not valid YAML"):
        lr()
    with pytest.raises(ConfigError, match=r"ppo has no preset 'Acrobat-v1'; did you mean Acrobot-v1\?"):
        lr(preset="Acrobat-v1")
    described = maze("plugins", "info", "ppo", "--json")
    assert "Acrobot-v1" in json.loads(described.stdout)[0]["presets"]
    assert "presets/ppo/CartPole-v1.yaml: not valid YAML" in described.stderr


@pytest.mark.slow  # it asks every env source what it offers
def test_a_broken_preset_hides_no_others_in_the_list_of_environments(project):
    project("presets/ppo/CartPole-v1.yaml", "algorithm: [")
    listed = maze("envs", "list", "Acrobot-v1", "--json")
    assert "Acrobot-v1" in json.loads(listed.stdout)[0]["presets"]["ppo"]
    assert "presets/ppo/CartPole-v1.yaml: not valid YAML" in listed.stderr


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("wrappers: ['gymnasium.wrappers:NormalizeReward']", "wrappers.0.id", "gymnasium.wrappers:NormalizeReward"),
        ("wrappers: [{name: record, folder: /tmp}]", "wrappers.0.folder", "/tmp"),
    ],
)
def test_a_preset_of_the_current_folder_reaches_outside_only_with_permission(project, text, path, value):
    project("presets/ppo/CartPole-v1.yaml", text)
    with pytest.raises(ConfigError, match="needs your permission"):
        lr()
    assert "presets" in lr(overrides=[f"{path}={value}"])[1]


def test_installed_packages_offer_presets_for_the_algorithms_of_others(project, install):
    before = lr()
    install(
        "foo",
        {"presets/ppo/CartPole-v1.yaml": "algorithm: {lr: 0.5}", "presets/mine.yaml": "algorithm: {name: ppo, lr: 0.5}"}
        | {"presets/ppo/Mine-v0.yaml": "algorithm: {lr: 0.5}", "experiments/long.yaml": "algorithm: ppo\nenv: X-v0"},
    )
    install("bar", {"presets/ppo/Mine-v0.yaml": "algorithm: {lr: 0.25}"})
    assert lr() == before  # the algorithm's own comes first
    assert lr(preset="mine") == (0.5, "mine (maze-foo 1.0)")
    assert lr("Mine-v0") == (0.25, "Mine-v0 (maze-bar 1.0)")  # the first by name
    assert experiments()["long"].name == "long.yaml"
    assert assemble(files=[experiment("long")]).env.id == "X-v0"
    assert "maze_foo" not in sys.modules


def test_packages_of_presets_are_listed(install, monkeypatch):
    install("foo", {"presets/ppo/Mine-v0.yaml": "steps: 3", "experiments/long.yaml": "algorithm: ppo"})
    install("bare", {"data.txt": ""})
    fine = {"presets/ppo/Its-v0.yaml": "steps: 3", "experiments/short.yaml": "algorithm: ppo"}
    install("torn", {"presets/x.yaml": "[", "presets/sac/y.yaml": "[", "experiments/z.yaml": "[", **fine})
    install("gone", {"data.txt": ""}, value="maze_elsewhere")
    install("odd", {"data.txt": ""}, value="../..")
    listed = {each["name"]: each for each in json.loads(maze("plugins", "list", "--kind", "presets", "--json").stdout)}
    assert {name: each["state"] for name, each in listed.items()} == {
        "foo": "ok", "bare": "broken", "torn": "broken", "gone": "broken", "odd": "broken",
    }  # fmt: skip
    assert listed["foo"]["summary"] == "Mine-v0 (ppo), long (experiment)"
    assert "neither presets nor experiments" in listed["bare"]["detail"]
    assert listed["torn"]["summary"] == "Its-v0 (ppo), short (experiment)"
    assert all(f"{name}.yaml: not valid YAML" in listed["torn"]["detail"] for name in "xyz")
    assert "maze-foo 1.0" in maze("plugins", "list", "--kind", "presets").stdout
    assert "Mine-v0 (ppo)" in maze("plugins", "info", "foo", "--kind", "presets").stdout
    assert "did you mean foo" in maze("plugins", "info", "fooo", "--kind", "presets", code=2).stderr
    assert "X" not in experiments()  # broken ones do no harm
    monkeypatch.setenv(discovery.DISABLE, "maze-foo")
    assert "long" not in experiments()


def test_an_experiment_names_everything_and_flags_win(project):
    project("experiments/first.yaml", "algorithm: {name: ppo, lr: 0.5}\nenv: CartPole-v1\nsteps: 70\npreset: none")
    shown = maze("config", "show", "--experiment", "first", "--json").stdout
    config = json.loads(shown)
    assert (config["algorithm"]["name"], config["env"]["id"], config["steps"]) == ("ppo", "CartPole-v1", 70)
    assert config["algorithm"]["lr"] == 0.5
    run = ["--run-dir", "run", "--num-envs", "2", "--n-rollout-steps", "8", "--set", "evaluation.n_episodes=1", "-q"]
    maze("train", "--seed", "3", "--experiment=first", "--steps", "16", *run)
    saved = json.loads(maze("config", "show", "run", "--json").stdout)
    assert (saved["steps"], saved["seed"], saved["algorithm"]["lr"]) == (16, 3, 0.5)
    context = RunContext(experiment="first", overrides={"algorithm.lr": 0.25})
    assert (context.config.algorithm.lr, context.config.steps) == (0.25, 70)
    assert RunContext("Acrobot-v1", experiment="first").config.env.id == "Acrobot-v1"


def test_an_experiment_chooses_its_preset_and_the_command_line_another(project):
    project("experiments/first.yaml", "algorithm: ppo\nenv: CartPole-v1\npreset: small")
    project("presets/ppo/small.yaml", "algorithm: {lr: 0.5}")
    file = experiment("first")
    assert assemble(files=[file]).algorithm.lr == 0.5
    assert assemble(files=[file], preset="none").algorithm.lr != 0.5
    project("experiments/first.yaml", "algorithm: ppo\nenv: CartPole-v1\npreset: 3")
    with pytest.raises(ConfigError, match="preset: must be the name of a preset"):
        assemble(files=[file])


@pytest.mark.parametrize("where", ["first", "last", "between"])
def test_the_option_may_be_anywhere(project, where):
    project("experiments/a2c.yaml", "algorithm: ppo\nenv: Nowhere-v0")
    typed = ["--steps", "5", "--seed", "1"]
    place = {"first": 0, "last": 4, "between": 2}[where]
    said = maze("train", *typed[:place], "--experiment", "a2c", *typed[place:], code=2).stderr
    assert "Nowhere" in said


def test_wrong_experiments_are_one_clear_error(project):
    def said(*arguments):
        return maze("train", *arguments, code=2).stderr

    assert "there are none\nLooked in" in said("--experiment", "x")
    assert "experiments (there is no such folder)" in said("--experiment", "x")
    project("experiments/walk.yaml", "algorithm: ppo\nenv: CartPole-v1")
    project("experiments/bare.yaml", "env: CartPole-v1")
    project("experiments/wrong.yaml", "algorithm: ppoo\nenv: CartPole-v1")
    project("experiments/torn.yaml", "algorithm: [")
    project("experiments/keys.yaml", "algorithm: {name: ppo, lrr: 1}\nenv: CartPole-v1")
    assert "'wolk'; did you mean walk?" in said("--experiment", "wolk")
    assert "Did you mean --experiment walk?" in said("--experiment", "experiments/walk.yaml")
    assert "is not the name of an experiment, but of a file" in said("--experiment", "../../etc/passwd")
    assert "there is no experiment ''" in said("--experiment", "")
    assert "--experiment: needs a name" in said("--experiment")
    with pytest.raises(ConfigError, match="experiment: must be the name"):
        RunContext(experiment=3)
    assert "experiments/bare.yaml: names no algorithm\nNext: maze train ALGORITHM" in said("--experiment", "bare")
    assert "experiments/wrong.yaml: algorithm: unknown algorithm 'ppoo'" in said("--experiment", "wrong")
    assert "experiments/torn.yaml: not valid YAML" in said("--experiment", "torn")
    assert "algorithm.lrr: unknown key; did you mean lr?" in said("--experiment", "keys")
    assert "walk.yaml: is for the algorithm ppo, not for a2c" in said("a2c", "--experiment", "walk")
    assert "name the algorithm first" in said("--steps", "3", "ppo", "--experiment", "walk")
    assert experiment_algorithm("walk", "maze train") == "ppo"
    assert "walk  " in maze("train", "--help").stdout


def test_names_of_files_are_shown_and_never_obeyed(project):
    project("experiments/\x1b[31m.yaml", "algorithm: ppo")
    for said in (maze("train", "--help").output, maze("train", "--experiment", "\x1b[32", code=2).stderr):
        assert "\\x1b[3" in said
        assert "\x1b" not in said


def test_what_is_no_file_is_one_clear_error(project):
    os.mkfifo(project("presets/ppo/x.yaml", "").with_name("CartPole-v1.yaml"))
    os.mkfifo(project("experiments/x.yaml", "").with_name("pipe.yaml"))
    with pytest.raises(ConfigError, match="it is not a regular file"):
        lr()
    assert "it is not a regular file" in maze("train", "--experiment", "pipe", code=2).stderr


def test_folders_of_packages_are_found_without_importing_them(install):
    install("deep", {"inner/presets/x.yaml": ""})
    assert package_folder("maze_deep.inner").name == "inner"
    assert package_folder("maze_deep.other") is None
    assert package_folder("json.decoder") is None
    assert package_folder("__main__") is None
    assert package_folder("no_such_package_anywhere") is None
