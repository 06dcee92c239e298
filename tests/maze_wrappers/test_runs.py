"""Wrappers in whole runs: resume, runners, evaluation, the normaliser, what plugins make of it together."""

import json
import shutil
from functools import partial
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
import torch
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_devkit.probes import Workshop
from maze_recordings.loader import load_trajectories

from maze_core import RunContext
from maze_core.base.errors import ConfigError
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.saved.checkpoint import read_checkpoint

NORMALIZE = {"name": "normalize_observations", "estimate_steps": 60}
MANY = [
    "normalize_reward",
    {"name": "random_reset", "max_steps": 3},
    {"name": "step_skip", "steps": 2},
    "monitor",
    {"name": "stack", "size": 2},
    {"name": "time_limit", "steps": 9},
    {**NORMALIZE, "running": True},
]


def test_a_resumed_run_is_the_uninterrupted_one(quick, whole_state, assert_same):
    algorithm = "ppo"
    whole = quick(SeededWalk, algorithm, wrappers=MANY, overrides={"algorithm.n_epochs": 3})
    whole.train()
    half = quick(SeededWalk, algorithm, wrappers=MANY)
    half.train()
    half.close()
    rest = quick(SeededWalk, algorithm, wrappers=MANY, overrides={"algorithm.n_epochs": 3})
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


class Curriculum(gymnasium.Wrapper):
    """Makes each episode a step longer than the one before, up to seven: memory that shapes episodes."""

    episodes = 0

    def reset(self, **options):
        self.episodes += 1
        self.left = 2 + self.episodes % 6
        return super().reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.left -= 1
        return observation, reward + self.episodes, terminated, truncated or not self.left, info

    def state(self):
        return {"episodes": self.episodes}

    def load_state(self, state):
        self.episodes = state["episodes"]


class CurriculumWrapper(Plugin):
    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        return Curriculum((yield))


SAC = {
    "algorithm.initial_buffer_size": 20,
    "algorithm.batch_size": 8,
    "algorithm.critic_hidden": [8],
    "algorithm.n_rollout_steps": 6,
    "algorithm.replay_buffer_size": 400,
}


def untimed_lines(run_dir):
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if "time" not in k and "seconds" not in k} for line in lines]


def recorded(folder):
    """The episodes in all recordings of a folder, by their lines in the index; each must be there once."""
    lines = [line for path in folder.glob("*/episodes.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines))
    return set(lines)


@pytest.mark.parametrize(
    ("algorithm", "runner", "settings"),
    [
        ("impala", "dev", {}),
        ("sac", "dev", SAC),
        pytest.param("ppo", "local", {}, marks=pytest.mark.slow),
    ],
)
def test_memory_metrics_and_recordings_after_a_kill_are_the_uninterrupted_ones(
    quick, whole_state, assert_same, tmp_path, algorithm, runner, settings
):
    """The killed run goes on for an epoch that no checkpoint holds; the resumed one plays these episodes once more."""

    class Killed(BaseException):
        pass

    class Kill(Plugin):
        """Keeps the run's folder as it is after two epochs, and ends the run an epoch later."""

        @hookimpl
        def on_checkpoint(self, run, path):
            if run.epoch == 2 and path.name == "last" and not run.resumed:
                shutil.copytree(run.run_dir, tmp_path / "saved")
            if run.epoch == 3 and not run.resumed:
                raise Killed

    def begin(name, **parts):
        record = {"name": "record", "folder": str(tmp_path / name / "seen")}
        wrappers = [CurriculumWrapper, "normalize_reward", record, "monitor"]
        parts |= {"run_dir": tmp_path / name / "run", "wrappers": wrappers, "runner": runner}
        return quick(SeededWalk, algorithm, settings | {"algorithm.n_epochs": 5}, **parts)

    whole = begin("whole")
    whole.train()
    whole.close()
    killed = begin("killed", callbacks={"kill": Kill})
    with pytest.raises(Killed):
        killed.train()
    killed.close()
    shutil.rmtree(killed.run_dir)
    shutil.move(tmp_path / "saved", killed.run_dir)
    begin("killed", callbacks={"kill": Kill}).resume(killed.run_dir)

    assert_same(
        {k: v for k, v in whole_state(killed.run_dir).items() if k != "replay"},
        {k: v for k, v in whole_state(whole.run_dir).items() if k != "replay"},
    )
    assert untimed_lines(killed.run_dir) == untimed_lines(whole.run_dir)
    assert recorded(tmp_path / "whole" / "seen")
    assert recorded(tmp_path / "killed" / "seen") == recorded(tmp_path / "whole" / "seen")


def test_an_interrupted_evaluation_leaves_no_trace_in_wrappers(quick, whole_state, assert_same):
    class Interrupts(gymnasium.Wrapper):
        """Interrupts a run in the middle of its second evaluation."""

        run = None

        def step(self, action):
            if self.run and self.run.progress.phase == "evaluating" and self.run.epoch == 1:
                self.run.interrupt("a test")
            return super().step(action)

    class InterruptsWrapper(Plugin):
        @hookimpl(wrapper=True)
        def make_env(self, config, seed, index):
            return Interrupts((yield))

    def begin():
        wrappers = [InterruptsWrapper, CurriculumWrapper, "normalize_reward", "monitor"]
        return quick(SeededWalk, wrappers=wrappers, overrides={"algorithm.n_epochs": 3})

    whole = begin()
    whole.train()
    interrupted = begin()
    Interrupts.run = interrupted.run
    assert interrupted.train().outcome == "interrupted"
    interrupted.close()
    Interrupts.run = None
    begin().resume(interrupted.run_dir)
    assert_same(whole_state(interrupted.run_dir), whole_state(whole.run_dir))
    assert untimed_lines(interrupted.run_dir) == untimed_lines(whole.run_dir)


def test_both_runners_give_the_same_run(quick, whole_state, assert_same):
    contexts = [quick(SeededWalk, wrappers=MANY, runner=runner) for runner in ("dev", "local")]
    ends = [context.train().final_evaluation for context in contexts]
    timeless = [{k: v for k, v in end.items() if not k.startswith("time/")} for end in ends]
    assert timeless[0] == timeless[1]
    assert_same(*(whole_state(context.run_dir)["model"] for context in contexts))


def test_returns_are_raw_and_the_monitor_reports_what_passes(quick):
    context = quick(SeededWalk, wrappers=[{"name": "scale_reward", "factor": 0.0}, "monitor"])
    plain = quick(SeededWalk)
    metrics, expected = context.evaluate(), plain.evaluate()
    assert metrics["eval/return_mean"] == pytest.approx(expected["eval/return_mean"], abs=1e-9)
    assert metrics["eval/monitor/reward_max"] == 0
    assert {"eval/monitor/observation/observation_std", "eval/monitor/action/action_mean"} <= metrics.keys()


@pytest.mark.parametrize("strategy", ["mean_std", "range"])
def test_statistics_are_estimated_frozen_and_part_of_the_policy(quick, strategy):
    context = quick(SeededWalk, wrappers=[{**NORMALIZE, "strategy": strategy}])
    normalizer = context.policy.normalizer
    assert 60 <= normalizer.count.item() < 63  # three environments step together
    assert context.run.env_steps == 0
    before = {name: value.clone() for name, value in normalizer.state_dict().items()}
    context.train()
    context.evaluate()
    saved = read_checkpoint(context.run_dir / "checkpoints" / "last").model
    for name, value in before.items():
        assert torch.equal(normalizer.state_dict()[name], value), name
        assert torch.equal(saved[f"normalizer.{name}"], value), name
    other = quick(SeededWalk, wrappers=[{**NORMALIZE, "strategy": strategy}]).load(context.run_dir, "last")
    rows = np.random.default_rng(0).normal(size=(5, 2))
    assert [other.compute_action(row) for row in rows] == [context.compute_action(row) for row in rows]


def test_the_range_is_what_was_seen(quick):
    context = quick(SeededWalk, wrappers=[{**NORMALIZE, "strategy": "range"}])
    ((low, high),) = context.policy.normalizer.statistics().values()
    ends = torch.stack([low, high]).float()
    torch.testing.assert_close(
        context.policy.normalizer({"observation": ends})["observation"], torch.tensor([[-1.0, -1.0], [1.0, 1.0]])
    )


def test_statistics_may_run_on_and_begin_with_nothing(quick):
    context = quick(SeededWalk, wrappers=[{"name": "normalize_observations", "estimate_steps": 0, "running": True}])
    assert context.policy.normalizer.count.item() == 0
    context.train()
    assert context.policy.normalizer.count.item() == context.run.env_steps


def test_leaves_are_chosen_by_key(quick):
    context = quick(Workshop, wrappers=[NORMALIZE], model="template")
    assert context.policy.normalizer.keys == ("gauge",)
    with pytest.raises(ConfigError, match=r"^wrappers.0.keys: 'mode' .* is not a Box of floats"):
        _ = quick(Workshop, wrappers=[{**NORMALIZE, "keys": ["mode"]}], model="template").run
    with pytest.raises(ConfigError, match=r"^wrappers.0: normalize_observations would change nothing"):
        _ = quick(Workshop, wrappers=[{**NORMALIZE, "exclude": ["gauge"]}], model="template").run


def test_another_run_starts_from_the_statistics(quick):
    parent = quick(SeededWalk, wrappers=[NORMALIZE])
    parent.train()
    child = quick(SeededWalk, "a2c", init_from=parent.run_dir, seed=9, run_dir=parent.run_dir.parent / "child")
    assert torch.equal(child.policy.normalizer.count, parent.policy.normalizer.count)
    assert child.config.wrappers[0].name == "normalize_observations"


def test_names_on_the_command_line_and_parameters_in_a_file(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("wrappers:\n- {name: stack, size: 3}\n- normalize_reward\n")
    config = assemble("ppo", "CartPole-v1", "none", files=[file], flags={"wrappers.1.gamma": 0.9})
    assert [(each.name, getattr(each, "size", None)) for each in config.wrappers] == [
        ("stack", 3),
        ("normalize_reward", None),
    ]
    assert config.wrappers[1].gamma == 0.9
    with pytest.raises(ConfigError, match=r"wrappers.0.sise: unknown key; did you mean size"):
        assemble("ppo", "CartPole-v1", "none", flags={"wrappers": [{"name": "stack", "sise": 3}]})


def test_two_loss_plugins_and_a_wrapper_compose_in_the_configured_order(quick):
    """The earlier callback is the inner one, the wrapper changes what all of them learn from."""
    seen = []

    def loss_plugin(name):
        class Extension(Plugin):
            @hookimpl(wrapper=True)
            def compute_loss(self, policy, batch):
                seen.append(f"{name} begins")
                loss = yield
                seen.append(f"{name} ends")
                return loss.plus(name, (2 * loss.total if name == "double" else torch.tensor(1.0)) - 0 * loss.total)

        return Extension

    class Tenfold(Plugin):
        @hookimpl(wrapper=True)
        def make_env(self, config, seed, index):
            return gymnasium.wrappers.TransformReward((yield), lambda reward: 10 * reward)

    context = quick(
        SeededWalk, callbacks={"double": loss_plugin("double"), "one": loss_plugin("one")}, wrappers=[Tenfold]
    )
    context.train()
    assert seen[:4] == ["one begins", "double begins", "double ends", "one ends"]
    turned = quick(SeededWalk, callbacks={"one": loss_plugin("one"), "double": loss_plugin("double")})
    seen.clear()
    turned.train()
    assert seen[:4] == ["double begins", "one begins", "one ends", "double ends"]
    rewards, raw = (each.rollout(1, seed=2)[0] for each in (context, quick(SeededWalk)))
    assert sum(rewards.wrapped_rewards) == pytest.approx(10 * rewards.episode_return, rel=1e-4)
    assert raw.rewards[0] != 0


@pytest.mark.slow
def test_normalised_rewards_and_observations_learn(tmp_path):
    """CartPole from observations a hundred times too large: hopeless for the network as they come."""

    def huge():
        env = gymnasium.make("CartPole-v1")
        space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        return gymnasium.wrappers.TransformObservation(env, lambda obs: 1000 + 100 * obs, space)

    with RunContext(
        huge,
        "ppo",
        wrappers=["normalize_reward", {"name": "normalize_observations", "estimate_steps": 2000}],
        steps=25_000,
        seed=1,
        silent=True,
        preset="none",
        run_dir=tmp_path / "run",
        overrides={"algorithm.lr": 1e-3, "callbacks.tensorboard": None},
    ) as context:
        assert context.train().final_evaluation["eval/return_mean"] > 150


def test_es_refuses_what_outlasts_an_episode(tmp_path):
    def train(*wrappers):
        overrides = {"algorithm.n_rollouts_per_update": 4, "algorithm.n_epochs": 1, "algorithm.epoch_length": 1}
        parts = {"silent": True, "preset": "none", "seed": 1, "overrides": overrides}
        with RunContext(SeededWalk, "es", wrappers=wrappers, run_dir=tmp_path / str(len(wrappers)), **parts) as context:
            context.train()
            return context.policy.normalizer.count.item()

    assert train("clip_reward", NORMALIZE) == 60
    with pytest.raises(ConfigError, match=r"^wrappers: NormalizedReward keeps state from earlier episodes"):
        train("normalize_reward")


@pytest.mark.parametrize("folder", ["file", "file/below", "/dev/null"])
def test_a_folder_that_cannot_be_recorded_to_is_refused_before_the_run_begins(quick, tmp_path, folder):
    (tmp_path / "file").touch()
    context = quick(SeededWalk, wrappers=[{"name": "record", "folder": str(tmp_path / folder)}])
    with pytest.raises(ConfigError, match=r"^wrappers.0.folder: .* is not a folder"):
        _ = context.run
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("runner", "wrapped"), [("dev", True), ("dev", False), ("local", True)])
def test_episodes_are_recorded_as_they_pass(quick, tmp_path, runner, wrapped):
    """Each environment has a recording of its own, which playing the recorded actions again confirms."""
    longer = {"algorithm.n_rollout_steps": 64, "evaluation.n_episodes": 2}
    wrappers = [
        {"name": "scale_reward", "factor": 2.0},
        {"name": "record", "folder": str(tmp_path / "seen"), "every": 2, "wrapped_rewards": wrapped},
    ]
    context = quick(
        SeededWalk,
        wrappers=wrappers,
        runner=runner,
        overrides=longer,
    )
    context.train()
    context.close()
    folders = sorted((tmp_path / "seen").iterdir())
    assert [folder.name for folder in folders] == [f"{number:04}" for number in range(len(folders))]
    assert len(folders) >= 3 + 2  # of training and of evaluation
    for folder in folders:
        for episode in load_trajectories(folder):
            env = SeededWalk()
            observation, _ = env.reset(seed=episode.seed)
            for step, action in enumerate(episode.actions["action"]):
                np.testing.assert_array_equal(episode.obs["observation"][step], observation.astype(np.float32))
                observation, reward, terminated, truncated, _ = env.step(action)
                assert episode.rewards[step] == pytest.approx(reward)
                assert not wrapped or episode.wrapped_rewards[step] == pytest.approx(2 * reward)
            assert (episode.terminated, episode.truncated) == (terminated, truncated and not terminated)
            assert episode.terminated or episode.truncated
            assert wrapped or episode.wrapped_rewards is None


def test_a_recording_of_skipped_steps_adds_up_the_rewards_of_the_environment(quick, tmp_path):
    """Random steps before the episode do not count, whatever rewards become of them."""
    wrappers = [
        {"name": "random_reset", "max_steps": 3},
        {"name": "step_skip", "steps": 2},
        {"name": "clip_reward", "low": 0.5, "high": 0.6},
        {"name": "record", "folder": str(tmp_path / "seen"), "wrapped_rewards": True},
    ]
    with quick(CountingEnv, wrappers=wrappers) as context:
        context.train()
    for folder in (tmp_path / "seen").iterdir():
        for episode in load_trajectories(folder):
            assert 0.5 <= episode.wrapped_rewards.min() <= episode.wrapped_rewards.max() <= 0.6
            counted = episode.obs["observation"][:, 2]
            paid = [sum(k / 100 for k in range(int(a) + 1, int(b) + 1)) for a, b in pairwise(counted)]
            np.testing.assert_allclose(episode.rewards, paid, atol=1e-6)


class GoesOn(gymnasium.Wrapper):
    """Plays on after the end that the environment tells."""

    def reset(self, **options):
        self.left = 9
        return super().reset(**options)

    def step(self, action):
        observation, reward, _, _, info = super().step(action)
        self.left -= 1
        return observation, reward, not self.left, False, info


def test_no_episode_has_what_a_wrapper_does_after_its_end(quick, tmp_path):
    record = {"name": "record", "folder": str(tmp_path / "seen")}
    with quick(CountingEnv, wrappers=[record, GoesOn]) as context:
        context.train()
    for folder in (tmp_path / "seen").iterdir():
        assert {len(episode) for episode in load_trajectories(folder)} == {3}


class TwoAims(CountingEnv):
    """Pays each step in one coin and takes it in another."""

    reward_space = gymnasium.spaces.Box(-1, 1, (2,))

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, np.array([1.0, -1.0]), *rest


class Linear(gymnasium.Wrapper):
    """The weighted sum of the coins."""

    def __init__(self, env, weight: np.ndarray = None):
        super().__init__(env)
        self.weight = weight

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, self.weight.dot(reward), *rest


@pytest.mark.parametrize("more", [(), ("monitor",)])
def test_a_vector_reward_is_refused_with_the_wrapper_that_weighs_it(quick, more):
    with pytest.raises(ConfigError, match=r'2 numbers.*\n.*wrappers=\["scalarize"\] .*"wrappers.0.weights": \[1,1\]'):
        quick(TwoAims, wrappers=list(more)).train()


@pytest.mark.parametrize(
    "wrapper",
    [
        {"name": "scalarize", "weights": [1.0, 0.5]},
        {"name": "gymnasium", "id": f"{__name__}:Linear", "kwargs": {"weight": [1.0, 0.5]}},
    ],
)
def test_a_weighed_reward_is_learned_from_and_reported(quick, wrapper):
    run = quick(partial(TwoAims, 4), wrappers=[wrapper, {"name": "scale_reward", "factor": 10.0}])
    run.train()
    found = run.evaluate()
    assert found["eval/return_mean"] == 2.0  # four steps of 1 - 0.5, whatever scale_reward makes of it
    if wrapper["name"] == "scalarize":
        assert [found[f"eval/objective_{number}"] for number in (0, 1)] == [4.0, -4.0]


def test_the_weights_fit_the_reward(quick):
    with pytest.raises(ConfigError, match="has 3 numbers, and the rewards have 2"):
        quick(TwoAims, wrappers=[{"name": "scalarize", "weights": [1.0, 1.0, 1.0]}]).train()
