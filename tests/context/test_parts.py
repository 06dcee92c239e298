"""The Python API: a part is a name, a mapping, a config, a class or a ready object."""

import gymnasium
import pytest
import torch
from gymnasium import spaces
from maze_a2c.config import A2CConfig
from maze_devkit.envs import SeededWalk
from maze_local.runner import LocalConfig
from maze_models.template import TemplateModel
from maze_ppo.config import PPOConfig
from maze_ppo.ppo import PPO
from torch import nn

from maze_core import RunContext
from maze_core.base.errors import ConfigError
from maze_core.collect.pools.dev import DevRunner
from maze_core.envs.sources.gymnasium import GymnasiumConfig
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.callbacks import EarlyStoppingConfig
from tests.context.parts import Doubled, Encoder, OwnCritic


def cartpole():
    return gymnasium.make("CartPole-v1")


ENVS = {
    "name": "CartPole-v1",
    "mapping": {"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": False}},
    "config": GymnasiumConfig(id="CartPole-v1"),
    "function": cartpole,
    "class": SeededWalk,
    "lambda": lambda: SeededWalk(),
}
ALGORITHMS = {
    "name": "a2c",
    "mapping": {"name": "a2c", "lr": 0.5},
    "config": A2CConfig(name="a2c", lr=0.5),
    "config without its name": A2CConfig(lr=0.5),
}
MODELS = {
    "name": "mlp",
    "mapping": {"name": "mlp", "hidden": [7]},
    "config": MlpConfig(hidden=(7,)),
    "template's": TemplateModel.Config(),
    "class": Encoder,
    "function": lambda observation_space: Encoder(observation_space),
}


@pytest.mark.parametrize("env", ENVS)
def test_an_environment_by_name_mapping_config_or_callable(quick, env):
    assert quick(ENVS[env]).train().epochs == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_by_name_mapping_or_config(quick, algorithm):
    context = quick(SeededWalk, ALGORITHMS[algorithm])
    assert context.config.algorithm.name == "a2c"
    assert context.config.algorithm.lr == (A2CConfig().lr if algorithm == "name" else 0.5)
    # Of the overrides, which know the name: configs hold what was set, no more.
    assert context.config.algorithm.n_rollout_steps == (4 if algorithm == "name" else 8)
    assert context.train().epochs == 2


@pytest.mark.parametrize("model", MODELS)
def test_a_model_by_name_mapping_config_or_class(quick, model):
    context = quick(SeededWalk, "a2c", model=MODELS[model])
    wanted = {"class": "custom", "function": "custom", "template's": "template"}.get(model, "mlp")
    assert context.config.model.name == wanted
    if model in ("mapping", "config"):
        assert context.config.model.hidden == (7,)
    assert context.train().epochs == 2


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_a_ready_module_is_copied_so_that_each_run_starts_from_it(quick, critic):
    encoder = Encoder(spaces.Box(-1, 1, (2,)))
    before = encoder.layer.weight.clone()
    contexts = [quick(SeededWalk, "a2c", model=encoder, overrides={"model.critic": critic}) for _ in range(2)]
    for context in contexts:
        context.train()
        assert not torch.equal(context.policy.encoder.layer.weight, before)
    assert torch.equal(encoder.layer.weight, before)
    first, second = (context.policy.state_dict() for context in contexts)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_module_that_cannot_be_copied_is_refused(quick):
    encoder = Encoder(spaces.Box(-1, 1, (2,)))
    encoder.seen = encoder.layer.weight * 2
    with pytest.raises(ConfigError, match=r"Encoder cannot be copied .*; pass its class instead"):
        _ = quick(SeededWalk, "a2c", model=encoder).run


@pytest.mark.parametrize("model", ["mlp", Encoder])
def test_a_critic_of_ones_own(quick, model):
    """It replaces the model's, learns, and leaves the policy's own network as it was."""
    context = quick(SeededWalk, "a2c", model=model, critic=OwnCritic)
    before = {name: tensor.clone() for name, tensor in context.policy.critic_encoder.state_dict().items()}
    assert isinstance(context.policy.critic_encoder, OwnCritic)
    assert not isinstance(context.policy.encoder, OwnCritic)
    context.train()
    for name, tensor in context.policy.critic_encoder.state_dict().items():
        assert not torch.equal(tensor, before[name]), name
    with pytest.raises(ConfigError, match=r"custom_critic: this run's critic was .*OwnCritic"):
        quick(SeededWalk, "a2c", model=model).load(context.run_dir)


def test_a_critic_by_name(quick):
    assert quick(critic="shared").policy.critic_encoder is None
    assert RunContext(SeededWalk, "ppo", critic="none").config.model.critic == "none"
    with pytest.raises(ConfigError, match=r"^critic: must be separate, shared, none or a class, got int"):
        quick(critic=3)
    with pytest.raises(ConfigError, match="no state critic to replace"):
        _ = RunContext(SeededWalk, "es", critic=OwnCritic, silent=True).run


def test_wrappers_by_function_class_and_plugin(quick):
    class AddOne(Plugin):
        @hookimpl(wrapper=True)
        def make_env(self, config, seed, index):
            env = yield
            return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 1)

    def returns(*wrappers):
        context = quick(SeededWalk, wrappers=wrappers)
        return [sum(t.wrapped_rewards) for t in context.rollout(1, seed=3, wrapped_rewards=True)]

    plain, doubled, both, turned = (
        returns(*w) for w in ((), (Doubled,), (AddOne, lambda env: Doubled(env)), (Doubled, AddOne))
    )
    length = len(quick(SeededWalk).rollout(1, seed=3)[0].rewards)
    assert doubled[0] == pytest.approx(2 * plain[0])
    assert both[0] == pytest.approx(2 * (plain[0] + length))
    assert turned[0] == pytest.approx(2 * plain[0] + length)


def test_two_functions_of_one_name_are_two_wrappers(quick):
    context = quick(SeededWalk, wrappers=[lambda env: Doubled(env), lambda env: Doubled(Doubled(env))])
    assert [wrapper.name for wrapper in context.config.wrappers] == ["lambda", "lambda_2"]


def test_wrapper_functions_go_to_workers(quick):
    context = quick(SeededWalk, wrappers=[Doubled], runner="local")
    plain = quick(SeededWalk, wrappers=[Doubled])
    results = [each.train().final_evaluation["eval/return_mean"] for each in (context, plain)]
    assert results[0] == results[1]


def test_plugin_classes_for_every_part(quick):
    class Mine(PPO):
        """PPO under a name of one's own."""

    class Source(Plugin):
        @hookimpl
        def make_env(self, config, seed, index):
            return SeededWalk()

    class Alone(DevRunner):
        pass

    class Net(MlpModel):
        pass

    context = quick(Source, Mine, model=Net, runner=Alone)
    config = context.config
    assert [part.name for part in (config.env, config.algorithm, config.model, config.runner)] == [
        "Source",
        "Mine",
        "Net",
        "Alone",
    ]
    assert context.train().epochs == 2


def test_runners_and_callbacks_as_parts(quick):
    told = []

    class Watch(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            told.append(epoch.epoch)

    callbacks = {
        "watch": Watch,
        "jsonl": None,
        "early_stopping": EarlyStoppingConfig(target_return=1e9),
        "best": {"name": "best_checkpoint"},
    }
    context = quick(runner=LocalConfig(workers=5), callbacks=callbacks, overrides={"runner.workers": 2})
    context.train()
    assert told == [1, 2]
    assert not (context.run_dir / "metrics.jsonl").exists()
    assert context.config.callbacks["early_stopping"].target_return == 1e9
    assert context.config.runner.workers == 2


def test_overrides_win_and_may_be_none(quick, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("algorithm: {lr: 0.1, target_kl: 0.5}\nsteps: 100\nseed: 9")
    config = quick(
        algorithm=PPOConfig(lr=0.2),
        config=[file],
        overrides={"algorithm.lr": 0.3, "algorithm.target_kl": None, "steps": None},
        seed=None,
    ).config
    assert (config.algorithm.lr, config.algorithm.target_kl, config.steps, config.seed) == (0.3, None, None, 9)


class Unmarked:
    """No plugin: it has no Config."""

    def on_epoch_end(self, run, epoch): ...


class Observer(Plugin):
    """A callback, and nothing else."""


def test_overrides_of_a_whole_part_keep_its_name(quick):
    assert quick(algorithm="a2c", overrides={"algorithm": {"lr": 0.5}}).config.algorithm.lr == 0.5


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"env": 3}, "env: must be an id, a mapping, a config or a callable, got int"),
        ({"model": 3}, "model: must be a name, a mapping, a config or a class, got int"),
        ({"env": "CartPol-v1"}, "CartPole-v1"),
        (
            {"callbacks": [Observer]},
            r'^callbacks: must be a mapping, got list\nGive each a name: callbacks={"mine": …}',
        ),
        ({"callbacks": {1: Observer}}, "^callbacks: has the key 1, which is no text"),
        ({"callbacks": {"mine": Unmarked}}, r"^callbacks.mine: must be .* derives from Plugin, got the class Unmarked"),
        ({"callbacks": {"mine": Observer(None)}}, r"^callbacks.mine: must be .*, got Observer"),
        ({"wrappers": Observer}, "^wrappers: must be a list of wrappers, the first innermost, got the class Observer"),
        ({"wrappers": "record"}, "^wrappers: must be a list .*, got str"),
        ({"algorithm": Observer}, "^algorithm: Observer is no algorithm plugin: .* derives from AlgorithmConfig"),
        ({"runner": Observer}, r"^runner: .* has no vector_env, workers: it must derive from .*runner\.Runner"),
        ({"run_dir": 3}, "^run_dir: must be a path, got int"),
        ({"preset": None}, "^preset: must be the name of a preset, auto or none"),
        ({"algorithm": "pppo"}, "unknown algorithm 'pppo'"),
        ({"overrides": {"algorithm.lrr": 1}}, "did you mean lr"),
        ({"env": lambda size: None}, "env|argument"),
        ({"env": lambda: 3}, "make_env returned int instead of gymnasium.Env"),
        ({"model": lambda: None}, "model"),
        ({"model": lambda observation_space: nn.Linear(2, 1)}, "Linear"),
    ],
)
def test_wrong_parts_are_said_so(quick, parts, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Exception, match=message) as caught:
        _ = quick(**parts).run
    assert isinstance(caught.value, ConfigError) or "env" in parts
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("overrides", [["algorithm.lr=1"], {1: 2}])
def test_overrides_that_are_no_mapping_of_paths_are_refused(overrides):
    with pytest.raises(ConfigError, match=r"^overrides: .*\nWrite overrides="):
        RunContext(SeededWalk, "ppo", overrides=overrides)
    with pytest.raises(ConfigError, match=r"^overrides: "):
        RunContext.open("nowhere", overrides=overrides)
