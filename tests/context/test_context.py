"""The Python API: ready parts, runs side by side, and a process that is left as it was."""

import asyncio
import os
import random
import signal
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_a2c.config import A2CConfig
from maze_ppo.config import PPOConfig
from maze_ppo.ppo import PPO
from torch import nn

from maze_core import RunContext
from maze_core.callbacks.early_stopping import EarlyStoppingConfig
from maze_core.envs.gymnasium_source import GymnasiumConfig
from maze_core.errors import ConfigError, RunError
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.models.template import TemplateModel
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_core.runners.dev import DevConfig, DevRunner
from maze_core.testing.envs import SeededWalk, SpacesEnv
from maze_core.testing.probes import Workshop
from maze_core.training.checkpoint import read_checkpoint


class Encoder(nn.Module):
    out_features = 4

    def __init__(self, observation_space):
        super().__init__()
        self.layer = nn.Linear(observation_space.shape[0], 4)

    def forward(self, obs):
        return self.layer(obs["observation"]).tanh()


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
    assert context.config.algorithm.lr == (5e-4 if algorithm == "name" else 0.5)
    assert context.config.algorithm.n_rollout_steps == 8  # of the overrides: configs hold what was set, no more
    assert context.train().epochs == 2


@pytest.mark.parametrize("model", MODELS)
def test_a_model_by_name_mapping_config_or_class(quick, model):
    context = quick(SeededWalk, "a2c", model=MODELS[model])
    wanted = {"class": "custom", "function": "custom", "template's": "template"}.get(model, "mlp")
    assert context.config.model.name == wanted
    if model in ("mapping", "config"):
        assert context.config.model.hidden == (7,)
    assert context.train().epochs == 2


def test_a_ready_module(quick):
    """An instance is used itself, and learns."""
    encoder = Encoder(spaces.Box(-1, 1, (2,)))
    before = encoder.layer.weight.clone()
    context = quick(SeededWalk, "a2c", model=encoder, overrides={"model.critic": "shared"})
    context.train()
    assert context.policy.encoder is encoder
    assert not torch.equal(encoder.layer.weight, before)


class OwnCritic(nn.Module):
    out_features = 3

    def __init__(self, observation_space):
        super().__init__()
        self.layer = nn.Linear(observation_space.shape[0], 3)

    def forward(self, obs):
        return self.layer(obs["observation"]).relu()


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


def test_a_closed_run_says_that_it_is(quick):
    context = quick()
    context.train(1)
    context.close()
    for use in (context.evaluate, context.train):
        with pytest.raises(RunError, match="this run is closed"):
            use()


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def test_wrappers_by_function_class_and_plugin(quick):
    class AddOne(Plugin):
        @hookimpl(wrapper=True)
        def make_env(self, config, seed, index):
            env = yield
            return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 1)

    def returns(*wrappers):
        context = quick(SeededWalk, wrappers=wrappers)
        return [sum(t.rewards) for t in context.rollout(1, seed=3)]

    plain, doubled, both, turned = (
        returns(*w) for w in ((), (Doubled,), (AddOne, lambda env: Doubled(env)), (Doubled, AddOne))
    )
    length = len(quick(SeededWalk).rollout(1, seed=3)[0].rewards)
    assert doubled[0] == pytest.approx(2 * plain[0])
    assert both[0] == pytest.approx(2 * (plain[0] + length))
    assert turned[0] == pytest.approx(2 * plain[0] + length)


def test_make_env_gives_what_compute_action_takes(quick):
    def stacked(env):
        return gymnasium.wrappers.FrameStackObservation(env, 3)

    context = quick(SeededWalk, wrappers=[stacked, Doubled])
    env = context.make_env()
    observation, _ = env.reset(seed=1)
    assert observation.shape == (3, 2)
    action = context.compute_action(observation)
    inner = SeededWalk()
    inner.reset(seed=1)
    assert env.step(action)[1] == 2 * inner.step(action)[1]


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
    context = quick(runner=DevConfig(concurrency=5), callbacks=callbacks, overrides={"runner.concurrency": 2})
    context.train()
    assert told == [1, 2]
    assert not (context.run_dir / "metrics.jsonl").exists()
    assert context.config.callbacks["early_stopping"].target_return == 1e9
    assert context.config.runner.concurrency == 2


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


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"env": 3}, "env: must be an id, a mapping, a config or a callable, got int"),
        ({"model": 3}, "model: must be a name, a mapping, a config or a class, got int"),
        ({"env": "CartPol-v1"}, "CartPole-v1"),
        ({"algorithm": "pppo"}, "unknown algorithm 'pppo'"),
        ({"overrides": {"algorithm.lrr": 1}}, "did you mean lr"),
        ({"env": lambda size: None}, "env|argument"),
        ({"env": lambda: 3}, "make_env gave int instead of gymnasium.Env"),
        ({"model": lambda: None}, "model"),
        ({"model": lambda observation_space: nn.Linear(2, 1)}, "Linear"),
    ],
)
def test_wrong_parts_are_said_so(quick, parts, message):
    with pytest.raises(Exception, match=message) as caught:
        _ = quick(**parts).run
    assert isinstance(caught.value, ConfigError) or "env" in parts
    assert not list(Path.cwd().glob("runs"))


def test_nothing_is_built_before_it_is_needed(quick, tmp_path):
    calls = []

    def env():
        calls.append(1)
        return SeededWalk()

    context = quick(env, run_dir=tmp_path / "later")
    assert context.config.algorithm.name == "ppo"
    assert not calls
    assert not (tmp_path / "later").exists()
    assert isinstance(context.policy, nn.Module)
    assert (tmp_path / "later").is_dir()
    context.close()
    context.close()


def test_training_in_parts_is_training(quick, whole_state, assert_same):
    """train(n) twice = train(2n), also under a schedule."""
    overrides = {"algorithm.n_epochs": 4, "algorithm.lr_schedule": "linear"}
    parts, whole = quick(overrides=overrides), quick(overrides=overrides)
    for _ in range(2):
        summary = parts.train(2)
    whole.train()
    assert (summary.epochs, summary.outcome) == (4, "finished")
    assert_same(whole_state(parts.run_dir), whole_state(whole.run_dir))


def test_without_an_end_train_takes_the_number_of_epochs(quick):
    context = quick(overrides={"algorithm.n_epochs": 0})
    assert [context.train(n).epochs for n in (1, 2)] == [1, 3]


def test_two_contexts_in_turn_do_not_disturb_each_other(quick, whole_state, assert_same):
    """Contract 8: bit-equal to runs that are alone."""

    class Noisy(Encoder):
        def forward(self, obs):
            return super().forward(obs) + 0.1 * torch.rand(())  # draws from torch's global generator

    parts = ((SeededWalk, "ppo", Noisy), (Workshop, "a2c", "template"))
    together = [quick(env, algorithm, model=model) for env, algorithm, model in parts]
    for _ in range(2):
        for context in together:
            context.train(1)
            context.evaluate(deterministic=False)
    for (env, algorithm, model), context in zip(parts, together, strict=True):
        alone = quick(env, algorithm, model=model)
        alone.train()
        assert_same(whole_state(context.run_dir), whole_state(alone.run_dir))


def test_two_contexts_in_threads(quick, whole_state, assert_same):
    """Signals are left to the main thread; runs in two threads end as if alone."""
    contexts = [quick(SeededWalk, "ppo", {"threads": 0}, seed=seed) for seed in (1, 2)]
    for context in contexts:
        _ = context.run
    threads = [threading.Thread(target=context.train) for context in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, context in zip((1, 2), contexts, strict=True):
        alone = quick(SeededWalk, "ppo", {"threads": 0}, seed=seed)
        alone.train()
        # Torch's global generator is one for the process: only models that draw from it notice.
        mine, theirs = whole_state(context.run_dir), whole_state(alone.run_dir)
        mine.pop("torch_rng"), theirs.pop("torch_rng")
        assert_same(mine, theirs)


def test_a_seed_repeats_a_run_and_without_one_runs_differ(quick, whole_state, assert_same):
    first, second = quick(Workshop, model="template"), quick(Workshop, model="template")
    first.train(), second.train()
    assert_same(whole_state(first.run_dir), whole_state(second.run_dir))
    assert quick(seed=None).run.seed != quick(seed=None).run.seed


def process_state():
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),
        "python": random.getstate(),
        "threads": torch.get_num_threads(),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "directory": Path.cwd(),
        "environment": dict(os.environ),
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "running threads": threading.active_count(),
    }


def test_the_process_is_left_as_it_was(quick):
    """Contract 8: random states, threads, signal handlers, directory and environment; also after a failure."""

    class Failing(SeededWalk):
        broken = False

        def step(self, action):
            if Failing.broken:
                raise ZeroDivisionError
            return super().step(action)

    def own_handler(*_):
        pass

    earlier, threads = signal.signal(signal.SIGTERM, own_handler), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        before = process_state()
        context = quick(Failing, model=Encoder, overrides={"threads": 1})
        context.train(1)
        context.evaluate()
        context.compute_action(np.zeros(2))
        Failing.broken = True
        with pytest.raises(RunError):
            context.train(1)
        with pytest.raises(RunError):
            context.evaluate()
        context.close()
        after = process_state()
        assert [name for name in before if before[name] != after[name]] == []
    finally:
        signal.signal(signal.SIGTERM, earlier)
        torch.set_num_threads(threads)


SPACES = {
    "discrete from 5": spaces.Discrete(3, start=5),
    "asymmetric box": spaces.Box(np.array([-3.0, 0.0]), np.array([-1.0, 10.0]), dtype=np.float64),
    "scalar box": spaces.Box(0, 1, ()),
    "integers": spaces.Box(-3, 7, (2,), np.int32),
    "choices": spaces.MultiDiscrete([2, 5]),
    "bits": spaces.MultiBinary(3),
    "dict": spaces.Dict({"a": spaces.Discrete(2, start=-1), "b": spaces.Dict({"c": spaces.Box(-1, 1, (2,))})}),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(5, 6, (1,), np.float32))),
}


@pytest.mark.parametrize("name", SPACES)
def test_actions_are_in_the_action_space(quick, name):
    """Trap 11: what compute_action gives can be given to the environment, whatever the space."""
    space = SPACES[name]
    observation_space = spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float64), "n": spaces.Discrete(4, start=2)})

    def env():
        return SpacesEnv(observation_space, space)

    context = quick(env, "a2c", {"model.log_std_init": 1.5})
    context.train(1)
    observation_space.seed(0)
    for deterministic in (True, False):
        for _ in range(20):
            action = context.compute_action(observation_space.sample(), deterministic)
            assert space.contains(action), action
    observation = observation_space.sample()
    first, second = context.compute_action(observation), context.compute_action(observation)
    assert str(first) == str(second)


def test_a_wrong_observation_is_refused(quick):
    context = quick(Workshop, model="template")
    observation, _ = Workshop().reset(seed=1)
    with pytest.raises(ConfigError, match="observation"):
        context.compute_action({"gauge": observation["gauge"]})
    with pytest.raises(ConfigError, match="mode"):
        context.compute_action({**observation, "mode": 7})


def test_a_saved_run_is_opened_again(quick):
    context = quick("CartPole-v1")
    context.train(1)
    context.close()
    with RunContext.reopen(context.run_dir, {"algorithm.n_epochs": 3, "callbacks.console": None}) as again:
        assert again.run.epoch == 1
        assert again.run_dir == context.run_dir
        assert again.train().epochs == 3
        assert again.evaluate()["eval/episodes"] == 2


def test_a_policy_is_opened_to_act(quick):
    """Neither the last checkpoint nor its optimizer are touched; training is refused."""
    trained = quick("CartPole-v1")
    trained.train()
    expected = trained.evaluate()["eval/return_mean"]
    trained.close()
    with RunContext.open(trained.run_dir, "last") as context:
        for name, tensor in trained.policy.state_dict().items():
            assert torch.equal(context.policy.state_dict()[name], tensor), name
        observation = context.run.observation_space.sample()
        assert context.compute_action(observation) == trained.compute_action(observation)
        assert context.evaluate()["eval/return_mean"] == expected
        assert len(context.rollout(2, seed=1)) == 2
        with pytest.raises(ConfigError, match=r"cannot train\n.*RunContext.reopen"):
            context.train()
    with RunContext.open(trained.run_dir) as context:
        assert context.run.epoch == read_checkpoint(trained.run_dir / "checkpoints" / "best").state["epoch"]


def test_a_policy_of_ready_objects_is_loaded_to_act(quick):
    trained = quick(SeededWalk, model=Encoder)
    expected = trained.train().final_evaluation["eval/return_mean"]
    trained.close()
    again = quick(SeededWalk, model=Encoder).load(trained.run_dir, "last")
    assert again.evaluate()["eval/return_mean"] == expected
    with pytest.raises(ConfigError, match="cannot train"):
        again.train()


def test_it_runs_inside_an_event_loop(quick):
    """As in a notebook, whose cells run in one."""

    async def cell():
        return quick(SeededWalk).train().epochs

    assert asyncio.run(cell()) == 2


def test_a_finished_run_of_ready_objects_is_extended(quick, whole_state, assert_same):
    """What the new context was given replaces what the run was configured with."""
    free = {"algorithm.n_epochs": 0}
    first = quick(SeededWalk, steps=48, overrides=free)
    assert first.train().env_steps == 48
    first.close()
    second = quick(SeededWalk, steps=96, overrides=free)
    assert second.resume(first.run_dir).env_steps == 96
    assert second.config.steps == 96
    whole = quick(SeededWalk, steps=96, overrides=free)
    whole.train()
    assert_same(whole_state(first.run_dir), whole_state(whole.run_dir))
