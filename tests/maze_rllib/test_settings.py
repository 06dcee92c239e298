"""RLlib's parameters: the data are those of the installed RLlib, and each is set by its path, checked and shown."""

import json
from functools import cache

import pytest
import yaml

pytest.importorskip("ray")

from maze_rllib.config import config_of
from maze_rllib.families import family
from maze_rllib.parameters import FILE, installed, rllib_config, titles
from maze_rllib.settings import apply, check_model_config

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble, dump, load_run_config
from maze_core.plugins.config.flags import flags

COMMON = ("PPO", "DQN", "SAC", "APPO")
SPECIAL = {
    "batch_mode": "complete_episodes",
    "grad_clip_by": "norm",
    "merge_env_runner_states": False,
    "model_config": {"fcnet_hiddens": [7]},
    "n_step": 3,
    "optimizer": {"eps": 1e-6},
    "rollout_fragment_length": 33,
    "tau": 0.25,
}
"""Values of parameters that RLlib checks when they are set, or that Maze bounds."""
TITLES = [name for name in json.loads(FILE.read_text()) if name not in ("any", "others", "former")]
"""RLlib's algorithms, as in the data: to ask the installed RLlib would import it wherever tests are collected."""
BY_KIND = {"bool": True, "int": 7, "float": 0.25, "str": "other", "list": [1, "two"], "dict": {"key": [1, 2.5]}}


def algorithm(title, *overrides):
    return assemble(f"rllib-{title.lower()}", "CartPole-v1", "none", overrides=overrides).algorithm


@cache
def facts(title):
    data = json.loads(FILE.read_text())
    return {name: fact for name, fact in {**data["any"], **data[title]}.items() if name in config_of(title).theirs}


def other(name, kind, default):
    """A value that is not the default."""
    if name in SPECIAL:
        return SPECIAL[name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, dict) and default:
        changed = next((key for key, value in default.items() if isinstance(value, int | float)), None)
        return {**default, changed: 5} if changed else {**default, next(iter(default)): [5]}
    return next((BY_KIND[word] for word in kind.split("|") if word in BY_KIND), None)


def test_the_data_are_those_of_the_installed_rllib():
    assert json.loads(FILE.read_text()) == json.loads(json.dumps(installed())), "python -m maze_rllib.parameters"


def test_every_algorithm_of_the_installed_rllib_has_a_name():
    ours = {name for name in discovery.names("algorithm") if name.startswith("rllib-")}
    assert ours == {f"rllib-{title.lower()}" for title in titles()}
    assert sorted(TITLES) == sorted(titles())


@pytest.mark.parametrize("title", TITLES)
def test_the_defaults_are_those_of_rllib_but_for_those_that_the_page_names(title):
    assert config_of(title)().settings() == family(title).values


@pytest.mark.parametrize("title", COMMON)
def test_every_parameter_goes_from_the_command_line_to_rllib(title):
    wanted = {name: other(name, *fact) for name, fact in facts(title).items()}
    wanted |= {name: [[0, 0.01], [1000, 0.0]] for name, (kind, _) in facts(title).items() if "schedule" in kind}
    texts = [f"algorithm.{name}={json.dumps(value)}" for name, value in wanted.items()]
    run = assemble(f"rllib-{title.lower()}", "CartPole-v1", "none", overrides=texts)
    shown = yaml.safe_load(dump(run))["algorithm"]
    assert {name: shown["gae_lambda" if name == "lambda_" else name] for name in wanted} == wanted
    again = load_run_config(yaml.safe_load(dump(run))).algorithm
    assert again == run.algorithm
    config = rllib_config(title)
    apply(config, again.settings())
    attributes = {"framework": "framework_str", "model_config": "_model_config", "is_atari": "_is_atari"}
    unread = {"optimization_config"}  # of RLlib's old interface
    found = {name: getattr(config, attributes.get(name, name)) for name in wanted if name not in unread}
    found["model_config"] = {"fcnet_hiddens": found["model_config"]["fcnet_hiddens"]}
    assert {name: as_json(value) for name, value in found.items()} == {n: wanted[n] for n in found}


@pytest.mark.parametrize("title", ["DQN", "SAC", "TQC"])
def test_a_range_arrives_as_the_tuple_that_rllib_looks_for(title):
    config = rllib_config(title)
    apply(config, algorithm(title, "algorithm.n_step=[2, 5]").settings())
    assert config.n_step == (2, 5)


def as_json(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("title", TITLES)
def test_rllibs_own_defaults_are_accepted(title):
    overrides = [f"algorithm.{name}={json.dumps(default)}" for name, (_, default) in facts(title).items()]
    settings = algorithm(title, *overrides).settings()
    assert settings == ({"lr": None} if title == "CQL" else {})  # RLlib itself refuses CQL's


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clip_parm=0.2", ["algorithm.clip_parm: unknown key; did you mean clip_param"]),
        ("num_epochs=many", ["algorithm.num_epochs: must be a whole number", "'many'"]),
        ("entropy_coeff=[[0, 0.1]]", ["algorithm.entropy_coeff: must be a number", "at least 2 items"]),
        ("num_env_runners=3", ["algorithm.num_env_runners: cannot be set", "runner.workers"]),
        ("num_rollout_workers=3", ["algorithm.num_rollout_workers: RLlib calls it num_env_runners now", "runner"]),
        ("num_sgd_iter=3", ["algorithm.num_sgd_iter: RLlib calls it num_epochs now"]),
        ("env=CartPole-v1", ["algorithm.env: cannot be set", "--env"]),
        ("learner_class=a.b.C", ["algorithm.learner_class: cannot be set", "Python"]),
        ("evaluation_interval=3", ["algorithm.evaluation_interval: cannot be set", "Maze evaluates"]),
        ("extra_python_environs_for_worker={LD_PRELOAD: x.so}", ["cannot be set", "environment variables belong"]),
        ("rllib={clip_parm: 1}", ["algorithm.clip_parm: unknown key"]),
    ],
)
def test_a_mistake_is_answered(text, words):
    with pytest.raises(ConfigError) as caught:
        algorithm("PPO", f"algorithm.{text}")
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.exit_code == 2


def test_parameters_of_earlier_runs_are_still_read():
    config = algorithm("PPO", "algorithm.rllib={sample_timeout_s: 7, lambda_: 0.5, model_config: {fcnet_hiddens: [3]}}")
    assert (config.sample_timeout_s, config.gae_lambda, config.rllib) == (7.0, 0.5, {})
    assert config.model_config_ == {"fcnet_hiddens": [3]}


def test_a_mapping_keeps_the_keys_that_are_not_given_unless_it_names_another_type():
    config = algorithm("DQN", "algorithm.replay_buffer_config.capacity=77")
    assert config.replay_buffer_config["capacity"] == 77
    assert config.replay_buffer_config["type"] == "PrioritizedEpisodeReplayBuffer"
    other_type = algorithm("DQN", "algorithm.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 77}")
    assert other_type.replay_buffer_config == {"type": "EpisodeReplayBuffer", "capacity": 77}


@pytest.mark.parametrize("path", ["os.abort", "subprocess:getoutput", "ray.rllib.utils.from_config.from_config"])
@pytest.mark.parametrize("name", ["replay_buffer_config", "exploration_config"])
def test_no_class_is_named_by_its_path(name, path):
    with pytest.raises(ConfigError, match=rf"{name}: type: .* own classes"):
        algorithm("DQN", f"algorithm.{name}={{type: {path}}}")


def test_a_misspelt_key_of_a_mapping_is_answered():
    with pytest.raises(ConfigError, match=r"replay_buffer_config: capasity: unknown key; did you mean capacity"):
        algorithm("DQN", "algorithm.replay_buffer_config={capasity: 77}")


def test_a_misspelt_key_of_the_default_network_is_answered():
    with pytest.raises(ConfigError, match=r"fcnet_hidens: unknown key; did you mean fcnet_hiddens"):
        check_model_config({"fcnet_hidens": [8]})


def test_a_parameter_is_suggested_by_the_name_that_can_be_set():
    with pytest.raises(ConfigError, match="did you mean model_config or"):
        algorithm("DQN", "algorithm.model_config_={}")


def test_the_common_parameters_are_flags():
    known = {flag.field: flag for flag in flags(config_of("PPO"))}
    assert {"lr", "gae_lambda", "clip_param", "num_envs_per_env_runner", "num_learners"} <= known.keys()
    assert "sample_timeout_s" not in known
    assert known["lr"].parse("[[0, 1e-3], [100, 0]]") == [[0, 1e-3], [100, 0]]
