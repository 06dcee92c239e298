"""What RLlib reads can be set, where it has an effect; the rest is refused with what to use instead."""

from importlib.metadata import version

import pytest

pytest.importorskip("ray")

from maze_rllib.base import RLlib
from maze_rllib.config import config_of
from maze_rllib.offered import other_version, traced
from maze_rllib.parameters import data, named
from maze_rllib.refused import REFUSED, WITHOUT_EFFECT

from maze_core.base.errors import ConfigError
from maze_core.learn.checks import check_run
from maze_core.plugins.config.assembly import assemble

TITLES = sorted(named().values())
OTHER = {
    "bool": True,
    "int": 7,
    "float": 0.25,
    "str": "other",
    "list": [1],
    "dict": {"key": 1},
    "schedule": [[0, 1], [9, 2]],
}


def configured(title, *texts, runner="dev"):
    overrides = [f"algorithm.{text}" for text in texts] + [f"runner={{name: {runner}}}"]
    config = assemble(f"rllib-{title.lower()}", "CartPole-v1", "none", overrides=overrides)
    algorithm = object.__new__(RLlib)
    algorithm.config = config.algorithm
    check_run(algorithm, config)
    algorithm.check_effects(config.runner)
    return config.algorithm


def test_the_traces_are_those_of_the_installed_rllib():
    assert traced()["ray"] == version("ray"), "python -m maze_rllib.tracing"
    assert sorted(traced()) == sorted([*TITLES, "ray"])


def test_another_ray_is_told_of(monkeypatch):
    assert other_version() == ""
    monkeypatch.setattr("maze_rllib.offered.version", lambda name: "9.9")
    assert "and this is 9.9: a parameter that is set may have no effect" in other_version()


@pytest.mark.parametrize("title", TITLES)
def test_every_parameter_of_rllib_is_offered_or_answered(title):
    facts = {**data()["any"], **data()[title]}
    config = config_of(title)
    assert {*config.theirs, *config.refused} >= facts.keys()
    for name, (words, default) in facts.items():
        if name in config.theirs:
            continue
        value = not default if isinstance(default, bool) else OTHER[words.split("|")[0]] if words != "object" else "x.y"
        with pytest.raises(ConfigError, match=rf"^algorithm\.{name}: ") as caught:
            config.model_validate({"name": f"rllib-{title.lower()}", name: value})
        assert any(words in str(caught.value) for words in ("cannot be set", "does not read it", "has no effect in"))


@pytest.mark.parametrize(
    ("title", "text", "instead"),
    [
        ("PPO", "observation_filter=MeanStdFilter", "--wrappers normalize_observations"),
        ("SAC", "clip_rewards=true", "--wrappers clip_reward"),
        ("DQN", "optimizer={eps: 1e-6}", "lr and grad_clip"),
        ("DQN", "adam_epsilon=1e-5", "lr and grad_clip"),
        ("BC", "minibatch_size=64", "--train-batch-size-per-learner and --epoch-length"),
        ("MARWIL", "num_epochs=4", "--train-batch-size-per-learner and --epoch-length"),
        ("SAC", "minibatch_size=64", "--train-batch-size-per-learner"),
        ("BC", "shuffle_buffer_size=10", "--dataset"),
        ("BC", "input_read_episodes=true", "--dataset"),
        ("CQL", "prelearner_buffer_kwargs={a: 1}", "--dataset"),
        ("PPO", "max_num_env_runner_restarts=3", "maze resume RUN"),
        ("IMPALA", "ignore_env_runner_failures=true", "maze resume RUN"),
        ("PPO", "use_gae=false", "--gae-lambda 1"),
        ("APPO", "remote_worker_envs=true", "--runner local"),
        ("PPO", "lr_schedule=[[0, 0.1], [9, 0.2]]", "--lr '[[0, 1e-3], [100000, 0]]'"),
        ("IMPALA", "entropy_coeff_schedule=[[0, 0.1], [9, 0.2]]", "--entropy-coeff '[["),
        ("PPO", "num_cpus_for_main_process=3", "_per_learner"),
        ("PPO", "render_env=true", "maze view RUN"),
        ("PPO", "metrics_num_episodes_for_smoothing=5", "--epoch-length"),
        ("PPO", "algorithm_config_overrides_per_module={default_policy: {lr: 1}}", "the parameters themselves"),
        ("DQN", "noisy=true", "algorithm.epsilon"),
        ("PPO", "use_lstm=true", "--rllib-model, and set it in algorithm.model_config"),
        ("DreamerV3", "model_config={fcnet_hiddens: [7]}", "--model-size"),
        ("DreamerV3", "report_images_and_videos=true", "maze view RUN"),
        ("BC", "gamma=0.9", "rllib-marwil"),
        ("MARWIL", "min_sample_timesteps_per_iteration=9", "--epoch-length"),
    ],
)
def test_what_has_no_effect_is_answered_with_what_has(title, text, instead):
    with pytest.raises(ConfigError, match=rf"^algorithm\.{text.partition('=')[0]}: ") as caught:
        configured(title, text)
    assert instead in str(caught.value).partition("\nNext: ")[2]
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("title", "texts", "runner", "words"),
    [
        ("PPO", ["sample_timeout_s=9"], "dev", "environments are stepped in this process"),
        ("IMPALA", ["timeout_s_sampler_manager=0.5"], "dev", "environments are stepped in this process"),
        ("PPO", ["num_gpus_per_env_runner=1"], "dev", "environments are stepped in this process"),
        ("PPO", ["num_cpus_per_env_runner=2"], "local", "on one machine"),
        ("DQN", ["num_learners=1", "num_cpus_per_learner=2"], "local", "on one machine"),
        ("PPO", ["num_learners=1", "custom_resources_per_learner={tpu: 1}"], "dev", "on one machine"),
        ("PPO", ["custom_resources_per_learner={tpu: 1}"], "ray", "algorithm.num_learners is 0"),
        ("APPO", ["max_requests_in_flight_per_learner=9"], "local", "algorithm.num_learners is 0"),
        ("PPO", ["model_config={fcnet_hiddens: [7]}"], "dev", "--rllib-model"),
        ("DQN", ["rllib_model=true", "v_min=-3"], "dev", "algorithm.num_atoms is 1"),
        ("PPO", ["use_kl_loss=false", "kl_target=0.5"], "dev", "algorithm.use_kl_loss is false"),
        ("APPO", ["kl_coeff=0.5"], "dev", "algorithm.use_kl_loss is false"),
        ("APPO", ["simple_queue_size=5"], "dev", "algorithm.use_circular_buffer is true"),
        ("PPO", ["grad_clip_by=norm"], "dev", "algorithm.grad_clip is null"),
    ],
)
def test_what_has_no_effect_in_this_run_is_refused(title, texts, runner, words, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match=rf"^algorithm\.{texts[-1].partition('=')[0]}: .*(?s:.*){words}"):
        configured(title, *texts, runner=runner)


@pytest.mark.parametrize(
    ("title", "texts", "runner"),
    [
        ("PPO", ["sample_timeout_s=9"], "local"),
        ("PPO", ["sample_timeout_s=60"], "dev"),  # RLlib's default
        ("DQN", ["rllib_model=true", "num_atoms=5", "v_min=-3"], "dev"),
        ("PPO", ["grad_clip=0.5", "grad_clip_by=norm"], "dev"),
        ("APPO", ["use_circular_buffer=false", "simple_queue_size=5"], "dev"),
        ("APPO", ["num_learners=1", "max_requests_in_flight_per_learner=9"], "dev"),
    ],
)
def test_what_has_an_effect_in_this_run_is_accepted(title, texts, runner):
    assert configured(title, *texts, runner=runner)


def test_resources_of_the_users_own_are_for_clusters(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert configured("PPO", "custom_resources_per_env_runner={tpu: 1}", runner="ray")


def test_an_lstm_is_complete_with_rllibs_length_and_refused_where_rllib_fails():
    network = configured("PPO", "rllib_model=true", "model_config.use_lstm=true").model_config_
    assert network == {"use_lstm": True, "max_seq_len": 20}
    for title in ("DQN", "SAC", "TQC"):
        with pytest.raises(ConfigError, match="fails with networks that remember"):
            configured(title, "rllib_model=true", "model_config.use_lstm=true")


@pytest.mark.slow
@pytest.mark.parametrize("title", ["PPO", "BC", "DQN", "IMPALA"])
def test_a_run_reads_what_the_traces_say(ray_session, tmp_path, title):
    from maze_rllib.tracing import Traces

    known = config_of(title, whole=True).theirs.keys() - REFUSED.keys() - WITHOUT_EFFECT.get(title, {}).keys()
    read = Traces(title, tmp_path).read({}) & known
    always = {name for name, needed in traced()[title].items() if not needed and name in config_of(title).theirs}
    assert read <= always, "python -m maze_rllib.tracing"
    assert len(read) > 0.6 * len(always)  # the others are read when a parameter has another value
