"""Values that nobody means: each ends in one clear line and exit code 2, before anything is allocated."""

import copy
import json
import random
import re
import shutil
import sys
from hashlib import sha256

import gymnasium
import pytest
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.base.local_modules import allow_local_modules
from maze_core.base.plain_json import checksummed, unsealed
from maze_core.cli.main import app
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble, part_config
from maze_core.run import api
from tests.run_records import record_of

pytestmark = pytest.mark.usefixtures("known_plugins")
SMALL = {"algorithm.n_epochs": 1, "algorithm.epoch_length": 1, "algorithm.n_rollout_steps": 4, "seed": 1}
SMALL |= {
    "algorithm.n_optimization_epochs": 2,
    "evaluation.n_episodes": 1,
    "callbacks.console": None,
    "callbacks.tensorboard": None,
    "algorithm.num_envs": 2,
}


def maze(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def check(result, *parts, code=2):
    """One message, no traceback, nothing of a terminal's; no line is longer than a screen's paragraph."""
    assert result.exit_code == code, (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert len(re.findall(r"(?m)^error:", result.stderr)) == 1, result.stderr
    assert max(map(len, result.stderr.splitlines())) < 700
    assert "\x1b" not in result.output
    for part in parts:
        assert part in result.stderr, result.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    api.train(assemble("ppo", "CartPole-v1", "none", flags=SMALL), folder)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


SETTINGS = {
    "wrappers=[{name: stack, size: 1e9}]": "wrappers.0.size: must be less than or equal to 1000",
    "threads=1e20": "threads: must be",
    "threads=100000": "threads: must be less than or equal to 1024",
    "algorithm.batch_size=1e12": "algorithm.batch_size: must be less than or equal to 10000000",
    "model.hidden=[1e9]": "model.hidden.0: must be less than or equal to 100000",
    "model.hidden=[100000,100000]": "model: a layer of 10,000,000,000 parameters needs",
    "algorithm.num_envs=1e9": "algorithm.num_envs: must be less than or equal to 100000",
    "evaluation.num_envs=1e9": "evaluation.num_envs: must be less than or equal to 100000",
    "steps=" + "9" * 400: "steps: must be a number that fits into 64 bits",
    "env.kwargs={a: [{b: " + "9" * 400 + "}]}": "env.kwargs: must be a number that fits into 64 bits",
    "model.name=5": "model.name: must be the name",
    "env.name=[]": "env.name: must be the name",
    "algorithm.lr=" + "x" * 5000: "algorithm.lr: must be a number, got 'xxx",
    "algorithm." + "x" * 5000 + "=1": "unknown key",
    "wrappers=[" + "y" * 5000 + "]": "unknown wrapper 'yyy",
}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda text: text[:40])
def test_values(setting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "ppo", "--env", "CartPole-v1", "--preset", "none", "-q", "--epochs", "1", "--set", setting]
    check(maze(*arguments), SETTINGS[setting])
    assert not list(tmp_path.iterdir())


IDS = {
    ".:X": "'.' is not a module name",
    ":X": "'' is not a module name",
    "a:b:X": "'a:b' is not a module name",
    "z" * 5000: "no environment 'zzz",
}


@pytest.mark.parametrize("env_id", IDS, ids=lambda text: text[:40])
def test_ids(env_id):
    check(maze("train", "ppo", "--env", env_id), f"env.id: {IDS[env_id]}")


def test_sizes_of_sac_and_names_that_are_numbers():
    sac = ("config", "show", "--algorithm", "sac", "--env", "CartPole-v1", "--set")
    check(maze(*sac, "algorithm.critic_hidden=[1e9]"), "algorithm.critic_hidden.0: must be less than")
    for part in ("model", "env", "runner"):
        check(maze(*sac, f"{part}.name=5"), f"{part}.name: must be the name of an installed {part}")
    check(maze(*sac, f"model.hidden=[{'1,' * 200}]"), "model.hidden: must have at most 100 items")


VALUES = ["-1", "1e300", "-.inf", ".nan", "9" * 30, "null", "[]", "{}", "[[1]]", "{a: {b: 1}}", "true", "0.5", "-0.0"]
VALUES += ["'" + "x" * 3000 + "'", "'\\e[31m'", '"\\e[31m\\n\\u202e"', "'../../x'", "'\u0660'", "1_000", "''"]


@pytest.mark.parametrize(
    "kind", ["algorithm", "model", "memory", "runner", "wrapper", "callback", "searcher", "policy"]
)
def test_every_field_of_every_plugin_takes_any_value_well(kind):
    """Either the configuration is valid, or short lines say what is not.

    The thousand fields of RLlib's algorithms have few types: of all but one algorithm each field takes one value, in
    turn. A field that another plugin has declared alike takes some.
    """
    seen: set[tuple[str, str]] = set()
    for name in discovery.names(kind):
        some = name.startswith("rllib-") and name != "rllib-ppo"
        step = len(VALUES) if some else 7
        required = {"id": "CartPole-v1", "initial_demonstrations": "x"}
        fields = discovery.load(kind, name).Config.model_fields
        given = {"name": name, **{key: value for key, value in required.items() if key in fields}}
        alike = {field for field, info in fields.items() if (field, repr(info)) in seen}
        seen |= {(field, repr(info)) for field, info in fields.items()}
        tried = [
            (field, VALUES[n % step :: step] if some or field in alike else VALUES)
            for n, field in enumerate(fields)
            if field != "name"
        ]
        for setting in (f"{kind}.{field}={value}" for field, values in tried for value in values):
            try:
                part_config(kind, given, [setting])
            except ConfigError as error:
                lines = str(error).splitlines()
                hints = ("Installed: ", "Did you mean ", "Next: ")  # of a plugin that a parameter names, and of RLlib's
                assert all(line.startswith((kind, *hints)) for line in lines), (setting[:100], lines)
                assert max(map(len, lines)) < 300, setting[:100]


SPACES = {
    "many choices": (spaces.Box(-1, 1, (2,)), spaces.Discrete(10**9)),
    "many symbols": (spaces.Discrete(10**9), spaces.Discrete(2)),
    "many bits": (spaces.Box(-1, 1, (2,)), spaces.MultiBinary(10**9)),
    "many bits seen": (spaces.MultiBinary(10**9), spaces.Discrete(2)),
    "many choices each": (spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([10**9, 10**9])),
}


@pytest.mark.parametrize(
    ("name", "algorithm"), [(name, ("ppo", "sac")[number % 2]) for number, name in enumerate(SPACES)]
)
def test_spaces_of_a_billion_entries(name, algorithm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gymnasium.register("Huge-v0", lambda: SpacesEnv(*SPACES[name]))
    try:
        check(
            maze(
                "train",
                algorithm,
                "--env",
                "Huge-v0",
                "--preset",
                "none",
                "--steps",
                "8",
                "--set",
                "evaluation.num_envs=1",
            )
        )
    finally:
        gymnasium.registry.pop("Huge-v0")
    assert not list(tmp_path.iterdir())


MODULES = {
    "x = (\n": "SyntaxError: '(' was never closed",
    "import sys; sys.exit(0)": "SystemExit: 0 (odd_module.py, line 1)",
    "raise SystemExit('\\x1b[31mred\\x1b[2J')": "SystemExit: red\\x1b[2J",
    "1/0": "ZeroDivisionError: division by zero (odd_module.py, line 1)",
    "def f(): f()\nf()": "RecursionError",
    "import no_such_thing": "No module named 'no_such_thing'",
    "raise BaseException": "BaseException (odd_module.py, line 1)",
    "\0": "null bytes",
}


@pytest.mark.parametrize("source", MODULES)
def test_modules_that_cannot_be_imported(source, run, tmp_path, monkeypatch):
    (tmp_path / "odd_module.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    allow_local_modules()
    said = "env.id: the module 'odd_module' cannot be imported: "
    for command in (["train", "ppo", "--env", "odd_module:X-v0"], ["eval", run]):
        sys.modules.pop("odd_module", None)
        config = run / "config.yaml"
        text = config.read_text().replace("id: CartPole-v1", "id: odd_module:X-v0")
        config.write_text("".join(line for line in text.splitlines(True) if not line.startswith("# sha256")))
        check(maze(*command), said, MODULES[source])


@pytest.mark.parametrize("when", ["init", "reset", "step"])
def test_an_environment_that_exits(when, tmp_path, monkeypatch):
    """With 0, as if all were well: the run has failed, and says where."""

    class Exits(SpacesEnv):
        def __init__(self):
            super().__init__(spaces.Box(-1, 1, (2,)), spaces.Discrete(2))
            if when == "init":
                sys.exit(0)

        def reset(self, **arguments):
            return sys.exit(0) if when == "reset" else super().reset(**arguments)

        def step(self, action):
            return sys.exit(0) if when == "step" else super().step(action)

    monkeypatch.chdir(tmp_path)
    gymnasium.register("Exits-v0", Exits)
    try:
        result = maze("train", "ppo", "--env", "Exits-v0", "--preset", "none", "-q", "--steps", "8", "--run-dir", "run")
    finally:
        gymnasium.registry.pop("Exits-v0")
    check(result, "SystemExit: 0", code=1)
    assert not (tmp_path / "run").exists()


def test_a_plugin_that_exits_anywhere_else_ends_with_1(monkeypatch):
    monkeypatch.setattr("maze_core.run.episodes.saved_evaluation.evaluate_saved", lambda *_, **__: sys.exit(0))
    check(maze("eval", "anything"), "sys.exit was called: SystemExit: 0", code=1)


DEEP = "[" * 100_000 + "]" * 100_000
RECORDS = [
    "[]",
    "null",
    "3",
    "",
    "{",
    DEEP,
    "{}",
    *(
        json.dumps(checksummed({"format": 2, **record_of(**{name: value})}))
        for name, value in [("summary", 3), ("summary", []), ("preset", []), ("action_space", 3), ("observers", None)]
    ),
]
MANIFESTS = [
    "[]",
    "3",
    DEEP,
    "{}",
    '{"format": []}',
    '{"format": 2}',
    '{"format": 2, "files": {"../x": 1}, "sequence": 1, "beside": {}, "run": null}',
    *(
        json.dumps(checksummed({"format": 2, "files": files, "sequence": 1, "beside": {}, "run": None}))
        for files in ({"../x": 1}, [], {"model.safetensors": 3})
    ),
]


@pytest.mark.parametrize("text", RECORDS, ids=lambda text: text[-30:])
def test_a_damaged_record(run, text):
    (run / "run.json").write_text(text)
    for command in ("resume", "eval"):
        check(maze(command, run), "run.json is damaged: ")


@pytest.mark.parametrize("text", MANIFESTS, ids=lambda text: text[:60])
def test_a_manifest_of_nothing(run, text):
    for name in ("last", "best", "previous"):
        (run / "checkpoints" / name / "manifest.json").write_text(text)
    for command in ("resume", "eval"):
        check(maze(command, run), "cannot be used: ", "This run has no other intact checkpoint.")


def places(tree, place=()):
    yield place
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from places(value, (*place, key))


def changed(tree, place, value):
    if not place:
        return value
    tree = copy.deepcopy(tree)
    owner = tree
    for key in place[:-1]:
        owner = owner[key]
    owner[place[-1]] = value
    return tree


WRONG = [
    None,
    True,
    -1,
    2**70,
    10**400,
    1e308,
    "\x1b[31m\n",
    [],
    {},
    [[[]]],
    float("nan"),
    {"$tensor": "x"},
    {"$array": 3},
]
WRONG += [{"$pairs": [1]}, {"$pairs": [[[1], 2]]}]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(6))
def test_states_with_a_manifest_that_fits(run, seed):
    """Someone made the checksum right: whatever the values are, a command works or says in one line what does not."""
    rng = random.Random(seed)
    for name in ("last", "best"):
        folder = run / "checkpoints" / name
        state, manifest = (json.loads((folder / f"{each}.json").read_text()) for each in ("state", "manifest"))
        place = rng.choice(list(places(state)))
        data = json.dumps(changed(state, place, rng.choice(WRONG))).encode() if seed else DEEP.encode()
        (folder / "state.json").write_bytes(data)
        manifest = unsealed(manifest)
        manifest["files"]["state.json"] = sha256(data).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(checksummed(manifest)))
    for command in (["resume", run, "--set", "algorithm.n_epochs=2"], ["eval", run]):
        result = maze(*command)
        if result.exit_code:  # 1: the run that went on from it failed
            check(result, "checkpoint", code=result.exit_code)
