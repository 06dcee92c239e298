"""RLlib's hyperparameters: found by name, checked, coerced; and our fields have RLlib's defaults."""

from importlib import import_module

import pytest

pytest.importorskip("ray")

from maze_rllib import algorithms
from maze_rllib.settings import apply, check_model_config, parameters

from maze_core.base.errors import ConfigError

CLASSES = [
    algorithms.RLlibPPO,
    algorithms.RLlibAPPO,
    algorithms.RLlibIMPALA,
    algorithms.RLlibDQN,
    algorithms.RLlibSAC,
    algorithms.RLlibBC,
    algorithms.RLlibMARWIL,
]
OTHERS_HERE = {"num_envs_per_env_runner"}
"""What Maze prefers to be other than in RLlib."""


def rllib_config(title):
    return getattr(import_module(f"ray.rllib.algorithms.{title.lower()}"), f"{title}Config")()


@pytest.fixture
def ppo():
    return rllib_config("PPO")


@pytest.mark.parametrize("algorithm", CLASSES, ids=lambda each: each.title)
def test_the_defaults_are_those_of_rllib(algorithm):
    theirs = rllib_config(algorithm.title)
    ours = algorithm.Config(**({"dataset": "x"} if "dataset" in algorithm.Config.model_fields else {})).settings()
    assert {name for name, value in ours.items() if getattr(theirs, name) != value} <= OTHERS_HERE


@pytest.mark.parametrize("algorithm", CLASSES, ids=lambda each: each.title)
def test_every_field_is_a_parameter_of_rllib(algorithm):
    config = rllib_config(algorithm.title)
    apply(config, algorithm.Config().settings())


def test_a_value_reaches_the_method_that_takes_it(ppo):
    apply(ppo, {"clip_param": 0.17, "rollout_fragment_length": 33, "sample_timeout_s": 7})
    assert (ppo.clip_param, ppo.rollout_fragment_length, ppo.sample_timeout_s) == (0.17, 33, 7.0)


def test_values_are_coerced(ppo):
    apply(ppo, {"lr": "1e-3", "num_epochs": "4", "use_gae": "false"})
    assert (ppo.lr, ppo.num_epochs, ppo.use_gae) == (1e-3, 4, False)
    assert isinstance(ppo.num_epochs, int)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clip_parm": 0.2}, ["algorithm.rllib.clip_parm", "did you mean clip_param"]),
        ({"zzz": 0.2}, ["algorithm.rllib.zzz", "no such parameter"]),
        ({"num_epochs": "many"}, ["algorithm.rllib.num_epochs", "integer", "'many'"]),
        ({"num_env_runners": 3}, ["algorithm.rllib.num_env_runners", "cannot be set", "--runner"]),
        (
            {"extra_python_environs_for_worker": {"LD_PRELOAD": "x.so"}},
            ["cannot be set", "environment variables belong"],
        ),
        ({"clip_parm": 1, "lmbda": 2}, ["clip_parm", "lmbda"]),
        ({"env": "CartPole-v1"}, ["algorithm.rllib.env"]),
    ],
)
def test_a_mistake_is_answered(ppo, settings, words):
    with pytest.raises(ConfigError) as caught:
        apply(ppo, settings)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.exit_code == 2


def test_a_mapping_keeps_the_keys_that_are_not_given():
    config = rllib_config("DQN")
    apply(config, {"replay_buffer_config": {"capacity": 77}})
    assert config.replay_buffer_config["capacity"] == 77
    assert config.replay_buffer_config["type"] == "PrioritizedEpisodeReplayBuffer"


@pytest.mark.parametrize("path", ["os.abort", "subprocess:getoutput", "ray.rllib.utils.from_config.from_config"])
@pytest.mark.parametrize("name", ["replay_buffer_config", "exploration_config"])
def test_no_class_is_named_by_its_path(name, path):
    with pytest.raises(ConfigError, match=f"{name}.type: .* own classes"):
        apply(rllib_config("DQN"), {name: {"type": path}})


def test_a_misspelt_key_of_a_mapping_is_answered():
    with pytest.raises(ConfigError, match=r"replay_buffer_config.capasity: unknown key; did you mean capacity"):
        apply(rllib_config("DQN"), {"replay_buffer_config": {"capasity": 77}})


def test_a_misspelt_key_of_the_default_network_is_answered():
    with pytest.raises(ConfigError, match=r"fcnet_hidens: unknown key; did you mean fcnet_hiddens"):
        check_model_config({"fcnet_hidens": [8]})


def test_parameters_of_all_methods_are_known(ppo):
    known = parameters(ppo)
    assert {"clip_param", "lr", "batch_mode", "min_time_s_per_iteration"} <= known.keys()
    assert "self" not in known
