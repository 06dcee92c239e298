import pickle
import sys
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, PositiveFloat, ValidationError, model_validator

from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import DEFAULTS, Assembly, dump
from maze_core.plugins.config.base import ConfigModel, PluginConfig
from maze_core.plugins.config.explain import explain
from maze_core.plugins.config.presets import Preset, PresetFolder, presets
from maze_core.plugins.config.run import AlgorithmConfig
from maze_core.plugins.discovery import overlay
from maze_core.run.callbacks import EarlyStopping


class Inner(ConfigModel):
    depth: int = 1


class LearnerConfig(AlgorithmConfig):
    lr: PositiveFloat = 0.5
    """Learning rate."""
    clip: float | None = None
    layers: tuple[int, ...] = (64,)
    target: Literal["auto"] | float = "auto"
    inner: Inner = Inner()
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def _ordered(self):
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


class SourceConfig(PluginConfig):
    id: str
    """Environment id."""
    kwargs: dict[str, object] = Field(default_factory=dict)


class StackConfig(PluginConfig):
    size: Annotated[int, Field(ge=1)] = 4


def plugin(config):
    return type("Fake", (Plugin,), {"Config": config})


PLAIN = plugin(PluginConfig)
LOAD = overlay(
    {
        ("algorithm", "learner"): plugin(LearnerConfig),
        ("algorithm", "other"): plugin(AlgorithmConfig),
        ("env", "gymnasium"): plugin(SourceConfig),
        ("env", "empty"): PLAIN,
        ("model", "mlp"): PLAIN,
        ("model", "deep"): plugin(type("Deep", (StackConfig,), {})),
        ("runner", "dev"): PLAIN,
        ("wrapper", "stack"): plugin(StackConfig),
        ("wrapper", "plain"): PLAIN,
        ("callback", "mylogger"): plugin(StackConfig),
        **{("callback", name): PLAIN for name in DEFAULTS["callbacks"]},
        ("callback", "early_stopping"): EarlyStopping,
    }
)
ASSEMBLY = Assembly(LOAD)


def build(*overrides, algorithm="learner", env="CartPole-v1", **more):
    return ASSEMBLY.assemble(algorithm, env, overrides=overrides, **more)


def problems(*overrides, **more):
    with pytest.raises(ConfigError) as caught:
        build(*overrides, **more)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_the_defaults():
    config = build()
    assert (config.env.name, config.env.id) == ("gymnasium", "CartPole-v1")
    assert (config.model.name, config.runner.name, config.algorithm.name) == ("mlp", "dev", "learner")
    assert list(config.callbacks) == ["console", "tensorboard", "jsonl", "best_checkpoint", "early_stopping"]
    assert config.wrappers == ()
    assert isinstance(config.algorithm, LearnerConfig)


def test_later_layers_win(tmp_path):
    first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
    first.write_text("algorithm: {lr: 1.0, clip: 1.0, n_epochs: 1, epoch_length: 1}\nseed: 1")
    second.write_text("algorithm: {clip: 2.0, n_epochs: 2, epoch_length: 2}")
    config = build("algorithm.n_epochs=3", files=[first, second], flags={"algorithm.epoch_length": 4})
    algorithm = config.algorithm
    assert (algorithm.lr, algorithm.clip, algorithm.n_epochs, algorithm.epoch_length) == (1.0, 2.0, 3, 4)
    assert config.seed == 1


END = [
    {"overrides": ["steps=100"]},
    {"overrides": ["algorithm.n_epochs=10"]},
    {"flags": {"steps": 100}},
    {"flags": {"algorithm.n_epochs": 10}},
    {"files": [{"steps": 100}]},
    {"files": [{"algorithm": {"n_epochs": 10}}]},
    {"files": [{"algorithm": {"name": "other", "n_epochs": 10}}, {"algorithm": "learner", "steps": 100}]},
]
NO_END = [{}, {"overrides": ["steps=null"]}, {"flags": {"algorithm.n_epochs": 0}}, {"files": [{"seed": 1}]}]


@pytest.mark.parametrize("more", END)
def test_an_end_that_the_user_gives_is_not_cut_short_by_patience(more, monkeypatch, tmp_path):
    """Unless she asks for that too. What a preset says does not count, neither as an end nor as patience."""
    assert patience_of(assembled(**more)) == 0
    preset = {"callbacks": {"early_stopping": {"patience": 7}}}
    monkeypatch.setattr(
        "maze_core.plugins.config.assembly.choose", lambda *_: Preset(Path("tuned.yaml"), preset, PresetFolder(Path()))
    )
    config = assembled(**more)
    assert patience_of(config) == 0
    assert patience_of(ASSEMBLY.load_run_config(config.model_dump(mode="json"))) == 0
    for asked in (["callbacks.early_stopping.patience=3"], ["callbacks.early_stopping.patience=15"]):
        patience = int(asked[0].partition("=")[2])
        both = {**more, "overrides": [*more.get("overrides", ()), *asked]}
        assert patience_of(assembled(**both)) == patience
    file = {"callbacks": {"early_stopping": {"patience": 4}}}
    assert patience_of(assembled(**{**more, "files": [*more.get("files", ()), file]})) == 4


@pytest.mark.parametrize("more", NO_END)
def test_without_an_end_of_the_users_patience_is_as_preset_or_by_default(more, monkeypatch):
    assert patience_of(assembled(**more)) == 15
    preset = {"algorithm": {"n_epochs": 50}, "callbacks": {"early_stopping": {"patience": 7}}, "steps": 1000}
    monkeypatch.setattr(
        "maze_core.plugins.config.assembly.choose", lambda *_: Preset(Path("tuned.yaml"), preset, PresetFolder(Path()))
    )
    assert patience_of(assembled(**more)) == 7


def patience_of(config):
    return config.callbacks["early_stopping"].patience


def assembled(flags=None, **more):
    return ASSEMBLY.assemble(None, "CartPole-v1", flags={"algorithm.name": "learner", **(flags or {})}, **more)


def test_callbacks_are_added_and_removed():
    config = build(
        "callbacks.tensorboard=null", "callbacks.mylogger={size: 7}", "callbacks.second={name: mylogger, size: 8}"
    )
    assert list(config.callbacks)[-2:] == ["mylogger", "second"]
    assert "tensorboard" not in config.callbacks
    assert [config.callbacks[key].size for key in ("mylogger", "second")] == [7, 8]


def test_wrappers_by_name_and_position():
    config = build("wrappers=[stack, {name: stack, size: 2}]", "wrappers.0.size=3")
    assert [(wrapper.name, wrapper.size) for wrapper in config.wrappers] == [("stack", 3), ("stack", 2)]


def test_another_model_drops_the_parameters_of_the_first(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("model: {name: deep, size: 9}")
    assert build(files=[file]).model.size == 9
    assert build(files=[file], flags={"model.name": "mlp"}).model == PluginConfig(name="mlp")


def test_a_file_for_another_algorithm_is_refused(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("algorithm: {name: other}")
    (line,) = problems(files=[file])
    assert line == f"{file}: is for the algorithm other, not for learner"
    assert build(files=[file], algorithm=None).algorithm.name == "other"


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("algorithm.lrr=1", "algorithm.lrr: unknown key; did you mean lr?"),
        ("algorithm.zzzzzz=1", "algorithm.zzzzzz: unknown key; known: name, n_epochs"),
        ("algorithm.lr=-1", "algorithm.lr: must be greater than 0, got -1"),
        ("algorithm.lr=.inf", "algorithm.lr: must be a finite number, got inf"),
        ("algorithm.lr=fast", "algorithm.lr: must be a number, got 'fast'"),
        ("algorithm.lr=null", "algorithm.lr: must be a number, got null"),
        ("algorithm.n_epochs=1.5", "algorithm.n_epochs: must be a whole number, got 1.5"),
        ("algorithm.device=tpu", "algorithm.device: must be 'cpu', 'cuda' or 'auto', got 'tpu'"),
        ("algorithm.layers=3", "algorithm.layers: must be a list, got 3"),
        ("algorithm.layers=[1, x]", "algorithm.layers.1: must be a whole number, got 'x'"),
        ("algorithm.target=often", "algorithm.target: must be 'auto' or be a number, got 'often'"),
        ("algorithm.inner.dept=1", "algorithm.inner.dept: unknown key; did you mean depth?"),
        ("algorithm.inner.depth=x", "algorithm.inner.depth: must be a whole number, got 'x'"),
        ("algorithm.low=99", "algorithm: low must not be above high"),
        ("evaluation.deterministic=perhaps", "evaluation.deterministic: must be true or false, got 'perhaps'"),
        ("evaluation.n_episode=3", "evaluation.n_episode: unknown key; did you mean n_episodes or max_episode_steps?"),
        ("evaluation=3", "evaluation: must be a"),
        ("wrapers=[]", "wrapers: unknown key; did you mean wrappers?"),
        ("wrappers=stack", "wrappers: must be a list of wrappers, the first innermost"),
        ("wrappers=[stak]", "wrappers.0.name: unknown wrapper 'stak'"),
        ("wrappers=[{name: stack, size: 0}]", "wrappers.0.size: must be greater than or equal to 1, got 0"),
        ("wrappers=[3]", "wrappers.0: must be a mapping with the wrapper's name and parameters"),
        ("callbacks=[console]", "callbacks: must be a mapping from names to parameters"),
        ("callbacks.console=3", "callbacks.console: must be a mapping"),
        ("callbacks.nope={}", "callbacks.nope.name: unknown callback 'nope'"),
        ("model=mpl", "model.name: unknown model 'mpl'"),
        ("model=3", "model: must be a mapping with the model's name and parameters"),
        ("model.name=3", "model.name: must be the name of an installed model"),
        ("model.name=os.path", "model.name: unknown model 'os.path'"),
        ("seed=-1", "seed: must be greater than or equal to 0, got -1"),
        ("steps=0", "steps: must be greater than 0, got 0"),
        ("env.name=empty", "env.id: unknown key; known: name"),
        ("env.kwargs=3", "env.kwargs: must be a mapping, got 3"),
    ],
)
def test_one_wrong_value_is_one_plain_line(override, line):
    first, *hints = problems(override)
    assert first.startswith(line)
    assert not hints or "wn" in first


def test_all_problems_are_told_at_once():
    lines = problems("algorithm.lrr=1", "algorithm.lr=-1", "seed=x", "model=mpl", "wrappers=[stak]", "stepz=1")
    wheres = sorted(line.partition(":")[0] for line in lines)
    assert wheres == ["algorithm.lr", "algorithm.lrr", "model.name", "seed", "stepz", "wrappers.0.name"]


def test_what_is_missing():
    assert problems(env=None) == ["env.id: is required (Environment id)"]
    assert problems(algorithm=None) == ["algorithm: is required (The learning algorithm)"]
    assert problems(algorithm="lerner")[0] == "algorithm.name: unknown algorithm 'lerner'"


def test_a_broken_plugin_is_a_plugin_error():
    def load(kind, name):
        if name == "broken":
            raise PluginError("model plugin 'broken' cannot be imported")
        return LOAD(kind, name)

    with pytest.raises(PluginError, match="cannot be imported"):
        Assembly(load).assemble("learner", "X", overrides=["model=broken"])


def test_the_dump_reads_back_equal_and_whole(tmp_path):
    config = build(
        "wrappers=[stack, plain]", "algorithm.clip=1e-7", "env.kwargs={a: [1, x], b: 1e-3, c: 'no'}", "seed=3"
    )
    text = dump(config)
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert ASSEMBLY.load_run_config(path) == config
    assert ASSEMBLY.load_run_config(config.model_dump(mode="json")) == config
    assert dump(ASSEMBLY.load_run_config(path)) == text
    assert ASSEMBLY.load_run_config(path, ["algorithm.lr=2", "callbacks.console=null"]).algorithm.lr == 2
    for key in ("patience: 15", "num_envs: 16", "depth: 1"):
        assert key in text


def test_one_part_alone():
    config = ASSEMBLY.part_config("env", {"name": "gymnasium", "id": "X"}, ["env.kwargs.size=5"])
    assert config.kwargs == {"size": 5}
    with pytest.raises(ConfigError, match="model: only env can be set here"):
        ASSEMBLY.part_config("env", {"name": "gymnasium", "id": "X"}, ["model=mlp"])


@pytest.fixture
def with_presets(tmp_path, monkeypatch):
    """An assembly whose algorithm `learner` lives in a package with presets."""
    package = tmp_path / "preset_package"
    (package / "presets").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "presets" / "CartPole-v1.yaml").write_text("algorithm: {lr: 7.0, clip: 7.0}\nsteps: 77")
    (package / "presets" / "ALE-Pong-v5.yaml").write_text("algorithm: {name: learner, lr: 8.0}\nenv: ALE/Pong-v5")
    (package / "presets" / "Acrobot-v1.yaml").write_text("algorithm: {name: other}")
    (package / "presets" / "README.md").write_text("no preset")
    other = tmp_path / "preset_source"
    (other / "presets").mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "presets" / "maze.yaml").write_text("algorithm: {name: learner, lr: 9.0}")
    (other / "presets" / "CartPole-v1.yaml").write_text("algorithm: {name: learner, lr: 1.0}")
    (other / "presets" / "nobodys.yaml").write_text("algorithm: {lr: 2.0}")
    (other / "presets" / "others.yaml").write_text("algorithm: {name: other, lr: 2.0}")
    monkeypatch.syspath_prepend(tmp_path)
    learner = type("L", (Plugin,), {"Config": LearnerConfig, "__module__": "preset_package.deep"})
    source = type("S", (Plugin,), {"Config": SourceConfig, "__module__": "preset_source.deep"})
    yield Assembly(overlay({("algorithm", "learner"): learner, ("env", "mazes"): source}, LOAD))
    sys.modules.pop("preset_package", None)
    sys.modules.pop("preset_source", None)


def test_presets(with_presets):
    def lr(env, preset="auto", *overrides):
        config, name = with_presets.assemble_with_preset("learner", env, preset, overrides=overrides)
        return config.algorithm.lr, name

    assert lr("CartPole-v1") == (7.0, "CartPole-v1")
    assert lr("ALE/Pong-v5") == (8.0, "ALE-Pong-v5")
    assert lr("registering.module:CartPole-v1") == (7.0, "CartPole-v1")
    assert lr("CartPole-v1", "auto", "algorithm.lr=1") == (1.0, "CartPole-v1")
    assert lr("CartPole-v1", "none") == (0.5, "")
    assert lr("Acrobot-v1") == (0.5, "")
    assert lr("Mine-v0") == (0.5, "")
    assert lr("Mine-v0", "CartPole-v1") == (7.0, "CartPole-v1")
    assert lr(None, "ALE-Pong-v5") == (8.0, "ALE-Pong-v5")
    with pytest.raises(ConfigError, match="did you mean CartPole-v1"):
        lr("X", "CartPol-v1")
    with pytest.raises(ConfigError, match=r"no preset 'zzz'; known: ALE-Pong-v5, CartPole-v1"):
        lr("X", "zzz")


def test_presets_of_an_env_source_name_their_algorithm(with_presets):
    def lr(preset, source="mazes"):
        config, name = with_presets.assemble_with_preset(
            "learner", "CartPole-v1", preset, overrides=[f"env.name={source}"]
        )
        return config.algorithm.lr, name

    assert lr("maze") == (9.0, "maze")
    assert lr("auto") == (7.0, "CartPole-v1")  # the algorithm's own comes first
    for preset, source in [("nobodys", "mazes"), ("others", "mazes"), ("maze", "gymnasium")]:
        with pytest.raises(ConfigError, match=f"no preset '{preset}'"):
            lr(preset, source)


def test_an_env_source_that_is_unknown_is_reported_with_all_other_problems(with_presets):
    with pytest.raises(ConfigError, match=r"(?s)zzz.*lr"):
        with_presets.assemble("learner", overrides=["env.name=zzz", "algorithm.lr=x"])


def test_an_algorithms_own_presets_come_before_its_packages(with_presets, tmp_path):
    folder = tmp_path / "preset_package" / "presets"
    for owner, env in (("learner", "CartPole-v1"), ("learner", "Acrobot-v1"), ("another", "Mine-v0")):
        (folder / owner).mkdir(exist_ok=True)
        (folder / owner / f"{env}.yaml").write_text("algorithm: {lr: 9.0}")

    def lr(env, preset="auto"):
        return with_presets.assemble("learner", env, preset).algorithm.lr

    assert [lr(env) for env in ("CartPole-v1", "Acrobot-v1", "ALE/Pong-v5", "Mine-v0")] == [9.0, 9.0, 8.0, 0.5]
    with pytest.raises(ConfigError, match=r"no preset 'zzz'; known: ALE-Pong-v5, Acrobot-v1, CartPole-v1$"):
        lr("X", "zzz")
    found = presets(with_presets.load("algorithm", "learner"), "learner")
    assert {name: layer["algorithm"]["lr"] for name, layer in found.items()} == {
        "ALE-Pong-v5": 8.0,
        "Acrobot-v1": 9.0,
        "CartPole-v1": 9.0,
    }


def test_a_preset_stands_below_the_files(with_presets, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("env: CartPole-v1\nalgorithm: {clip: 1.0}")
    config = with_presets.assemble("learner", files=[file])
    assert (config.algorithm.lr, config.algorithm.clip, config.steps) == (7.0, 1.0, 77)


class Numbers(ConfigModel):
    one: int | Literal["auto"] = "auto"
    many: tuple[Annotated[int, Field(gt=0)], ...] = ()
    schedule: float | list[list[float]] = 0.0
    named: dict[str, tuple[float, ...]] | None = None
    pair: tuple[bool, int] = (True, 1)
    either: bool | int = 0
    free: dict[str, Any] | None = None


@pytest.mark.parametrize(
    "wrong",
    [{"one": True}, {"many": [1, True]}, {"schedule": [[0, 1], [5, False]]}, {"named": {"a": [True]}}],
)  # fmt: skip
def test_true_is_no_number_wherever_it_is(wrong):
    with pytest.raises(ValidationError, match=r"must (be a number|hold numbers)"):
        Numbers.model_validate(wrong)


def test_true_stays_where_it_may_be():
    right = {"pair": (True, 1), "either": True, "free": {"a": [True]}, "named": {"a": (0.0,)}}
    assert {key: getattr(Numbers.model_validate(right), key) for key in right} == right


def test_the_texts_below_fields_are_found_without_a_look_through_all_modules(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("inspect.ismodule", lambda each: asked.append(each) or isinstance(each, ModuleType))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("fields_of_one", "fields_of_two"):
        text = f"from maze_core import PluginConfig\nclass Mine(PluginConfig):\n    size: int = 3\n    'In {name}.'\n"
        (tmp_path / f"{name}.py").write_text(text)
        assert import_module(name).Mine.model_fields["size"].description == f"In {name}."
        del sys.modules[name]
    assert len(asked) < len(sys.modules) / 10


def test_a_required_value_is_described_by_a_whole_sentence_however_it_is_broken():
    class Described(PluginConfig):
        place: str
        """Where the walk begins: `here`, at a house, or at a
        place of the map. Another sentence."""
        short: int
        """How far, e.g. 5 Steps"""

    with pytest.raises(ValidationError) as raised:
        Described.model_validate({"name": "x"})
    told = [str(each) for each in explain(raised.value, Described, "env", {"name": "x"})]
    assert told == [
        "env.place: is required (Where the walk begins: `here`, at a house, or at a place of the map)",
        "env.short: is required (How far, e.g. 5 Steps)",
    ]


def test_a_part_is_bound_to_its_class_wherever_it_goes():
    assembly = Assembly(overlay({("callback", "mine"): EarlyStopping}))
    part = assembly.part_config("callback", {"name": "mine", "patience": 3})
    assert part == EarlyStopping.Config(name="mine", patience=3)
    for each in (part, part.model_copy(update={"patience": 4}), deepcopy(part), pickle.loads(pickle.dumps(part))):
        assert each.plugin_class("callback") is EarlyStopping
    with pytest.raises(ConfigError, match="unknown callback 'mine'"):
        part.bound_to(None).plugin_class("callback")
