"""RLlib's parameters: the data are those of the installed RLlib, and each is set by its path, checked and shown."""

import json

import pytest
import yaml

pytest.importorskip("ray")

from maze_rllib.config import config_of
from maze_rllib.families import family
from maze_rllib.offered import LEARNERS, THEIR_NETWORK, needs
from maze_rllib.parameters import FILE, installed, rllib_config, titles
from maze_rllib.settings import apply
from maze_rllib.trial_values import another

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble, dump, load_run_config
from maze_core.plugins.config.flags import flags

TITLES = [name for name in json.loads(FILE.read_text()) if name not in ("any", "others", "former")]
"""RLlib's algorithms, as in the data: to ask the installed RLlib would import it wherever tests are collected."""


def algorithm(title, *overrides):
    return assemble(f"rllib-{title.lower()}", "CartPole-v1", "none", overrides=overrides).algorithm


def facts(title):
    data = json.loads(FILE.read_text())
    return {name: fact for name, fact in {**data["any"], **data[title]}.items() if name in config_of(title).theirs}


def enabled(title, name):
    """Values that set a parameter to another one than its default, and what it needs for an effect."""
    values = another(title, name)
    if LEARNERS in needs(title, name):
        values["num_learners"] = 1
    if THEIR_NETWORK in needs(title, name) and family(title).module is not None:
        values["rllib_model"] = True
    return values


def test_the_data_are_those_of_the_installed_rllib():
    assert json.loads(FILE.read_text()) == json.loads(json.dumps(installed())), "python -m maze_rllib.parameters"


def test_every_algorithm_of_the_installed_rllib_has_a_name():
    ours = {name for name in discovery.names("algorithm") if name.startswith("rllib-")}
    assert ours == {f"rllib-{title.lower()}" for title in titles()}
    assert sorted(TITLES) == sorted(titles())


@pytest.mark.parametrize("title", TITLES)
def test_the_defaults_are_those_of_rllib_but_for_those_that_the_page_names(title):
    config = config_of(title)()
    differing = {
        name: value for name, value in config.settings().items() if value != facts(title).get(name, ("", ""))[1]
    }
    assert differing == {**family(title).values, "num_gpus_per_learner": None}
    assert config.changed() == {}


@pytest.mark.parametrize("title", TITLES)
def test_every_parameter_goes_from_the_command_line_to_rllib(title):
    """Those that need no other one, and that no other one needs, are given together: none of them is a switch."""
    rllib_of = rllib_config(title)
    attributes = {"model_config": "_model_config"}
    values = {name: enabled(title, name) for name in facts(title)}
    alone = [name for name, value in values.items() if value.keys() == {name} and not isinstance(value[name], bool)]
    for names in [alone, *([name] for name in values if name not in alone)]:
        wanted = {each: value for name in names for each, value in values[name].items()}
        texts = [f"algorithm.{each}={json.dumps(value)}" for each, value in wanted.items()]
        run = assemble(f"rllib-{title.lower()}", "CartPole-v1", "none", overrides=texts)
        saved = yaml.safe_load(dump(run))
        assert {each: saved["algorithm"][each] for each in wanted} == wanted
        again = load_run_config(saved).algorithm
        assert again == run.algorithm
        config = rllib_of.copy()
        apply(config, again.settings())
        for name in names:
            given = wanted.get(name, wanted.get("gae_lambda"))
            assert as_json(getattr(config, attributes.get(name, name))) == given, name


BATCHES = {"PPO": 4000, "APPO": 500, "IMPALA": 500, "SAC": 256, "TQC": 256, "DQN": 32}
"""RLlib's defaults of the batch of each learner. RLlib divides them by the learners if nobody sets them."""


@pytest.mark.parametrize(
    ("title", "way"),
    [
        *((title, "saved") for title in BATCHES),
        *((next(iter(BATCHES)), way) for way in ("default", "override", "flag", "file")),
    ],
)
def test_a_value_that_is_rllibs_default_is_passed_too(title, way, tmp_path):
    name, batch = f"rllib-{title.lower()}", BATCHES[title]
    path, learners = "algorithm.train_batch_size_per_learner", {"algorithm.num_learners": 2}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"algorithm": {"name": name, "train_batch_size_per_learner": batch}}))
    given = {
        "default": {},
        "override": {"overrides": [f"{path}={batch}"]},
        "flag": {"flags": {path: batch}},
        "file": {"files": [file]},
        "saved": {"flags": {path: batch}},
    }[way]
    given = {**given, "flags": {**learners, **given.get("flags", {})}}
    run = assemble(name, "CartPole-v1", "none", **given)
    if way == "saved":
        run = load_run_config(yaml.safe_load(dump(run)))
    config = rllib_config(title)
    apply(config, run.algorithm.settings())
    assert run.algorithm.train_batch_size_per_learner == batch == config.train_batch_size_per_learner
    assert config.total_train_batch_size == 2 * batch


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
    assert algorithm(title, *overrides).changed() == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clip_parm=0.2", ["algorithm.clip_parm: unknown key; did you mean clip_param"]),
        ("num_epochs=many", ["algorithm.num_epochs: must be a whole number", "'many'"]),
        ("entropy_coeff=[[0, 0.1]]", ["algorithm.entropy_coeff: must be a number", "at least 2 items"]),
        ("num_env_runners=3", ["algorithm.num_env_runners: cannot be set", "runner.workers"]),
        ("num_env_runners=2", ["algorithm.num_env_runners: cannot be set", "runner.workers"]),
        ("num_workers=3", ["algorithm.num_workers: RLlib calls it num_env_runners now", "runner.workers"]),
        ("train_batch_size=4000", ["algorithm.train_batch_size: cannot be set", "--train-batch-size-per-learner"]),
        ("normalize_actions=true", ["algorithm.normalize_actions: cannot be set", "model.distribution"]),
        ("num_rollout_workers=3", ["algorithm.num_rollout_workers: RLlib calls it num_env_runners now", "runner"]),
        ("num_sgd_iter=3", ["algorithm.num_sgd_iter: RLlib calls it num_epochs now"]),
        ("env=CartPole-v1", ["algorithm.env: cannot be set", "--env"]),
        ("learner_class=a.b.C", ["algorithm.learner_class: cannot be set", "Python"]),
        ("evaluation_interval=3", ["algorithm.evaluation_interval: cannot be set", "Maze evaluates", "evaluation.n_"]),
        ("extra_python_environs_for_worker={LD_PRELOAD: x.so}", ["cannot be set", "environment variables belong"]),
    ],
)
def test_a_mistake_is_answered(text, words):
    with pytest.raises(ConfigError) as caught:
        algorithm("PPO", f"algorithm.{text}")
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.exit_code == 2


def test_a_parameter_with_two_names_is_set_once():
    assert algorithm("PPO", "algorithm.lambda_=0.5").gae_lambda == 0.5
    with pytest.raises(ConfigError, match=r"algorithm.lambda_: is RLlib's name of gae_lambda"):
        algorithm("PPO", "algorithm.lambda_=0.5", "algorithm.gae_lambda=0.9")


def test_a_mapping_keeps_the_keys_that_are_not_given_unless_it_names_another_type():
    config = algorithm("DQN", "algorithm.replay_buffer_config.capacity=77")
    assert config.replay_buffer_config["capacity"] == 77
    assert config.replay_buffer_config["type"] == "PrioritizedEpisodeReplayBuffer"
    other_type = algorithm("DQN", "algorithm.replay_buffer_config={type: EpisodeReplayBuffer, capacity: 77}")
    assert other_type.replay_buffer_config == {"type": "EpisodeReplayBuffer", "capacity": 77}


@pytest.mark.parametrize("path", ["os.abort", "subprocess:getoutput", "ray.rllib.utils.from_config.from_config"])
@pytest.mark.parametrize("name", ["replay_buffer_config"])
def test_no_class_is_named_by_its_path(name, path):
    with pytest.raises(ConfigError, match=rf"{name}: type: .* own classes"):
        algorithm("DQN", f"algorithm.{name}={{type: {path}}}")


def test_a_misspelt_key_of_a_mapping_is_answered():
    with pytest.raises(ConfigError, match=r"replay_buffer_config: capasity: unknown key; did you mean capacity"):
        algorithm("DQN", "algorithm.replay_buffer_config={capasity: 77}")


def test_a_parameter_is_suggested_by_the_name_that_can_be_set():
    with pytest.raises(ConfigError, match=r"did you mean model_config\?"):
        algorithm("DQN", "algorithm.model_config_={}")


def test_the_common_parameters_are_flags():
    known = {flag.field: flag for flag in flags(config_of("PPO"))}
    assert {"lr", "gae_lambda", "clip_param", "num_envs_per_env_runner", "num_learners"} <= known.keys()
    assert "sample_timeout_s" not in known
    assert known["lr"].parse("[[0, 1e-3], [100, 0]]") == [[0, 1e-3], [100, 0]]


def test_a_parameter_that_the_installed_rllib_lacks_is_named_where_it_is_set():
    config = rllib_config("PPO")
    apply(config, {"gamma": 0.5, "of_another_version": 1})
    assert config.gamma == 0.5
    with pytest.raises(ConfigError, match=r"algorithm.of_another_version: the installed RLlib does not have it"):
        apply(config, {"of_another_version": 2}, {"of_another_version": 2})
