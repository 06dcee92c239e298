"""A run that was stopped in any way and resumed equals the uninterrupted run bit by bit."""

import json
import os
import random
import signal
from contextlib import closing

import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Workshop
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from maze_core.base.errors import ConfigError, RunError
from maze_core.cli.console import next_commands
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import assemble, load_run_config
from maze_core.plugins.config.record import read_record, write_record
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run import api
from maze_core.run.context import RunContext
from maze_core.run.episodes import run_evaluation
from maze_core.run.saved import saved_run
from tests.bomb import bomb
from tests.interrupted import interrupted
from tests.killed import kill_after, wait_for

EPOCHS = {"ppo": 10}
"""Of an algorithm that is killed twice; others train for six."""


def settings(algorithm, env, memory="none"):
    values = {
        "model.memory": memory,
        "algorithm.n_epochs": EPOCHS.get(algorithm, 6),
        "algorithm.epoch_length": {"ppo": 2, "a2c": 5}.get(algorithm, 3),
        "algorithm.n_rollout_steps": 11,
        "algorithm.lr_schedule": "linear",
        "evaluation.n_episodes": 1,
        "callbacks.console": None,
        "seed": 5,
        "model.normalize_observations": True,
    }
    if algorithm in ("impala", "appo"):
        values |= {"algorithm.num_actors": 3, "algorithm.actors_batch_size": 4}
    else:
        values["algorithm.num_envs"] = 3
    if algorithm == "ppo":
        values["algorithm.n_optimization_epochs"] = 3
    return values | ({"model.name": "template", "model.image_features": 16} if "Workshop" in env else {})


def texts(values):
    return [
        part for path, value in values.items() for part in ("--set", f"{path}={'null' if value is None else value}")
    ]


@pytest.mark.parametrize(
    ("algorithm", "env", "memory"),
    [
        ("a2c", "CartPole-v1", "none"),
        pytest.param("ppo", "Carousel-v0", "gru", marks=pytest.mark.slow),
        pytest.param("impala", "Carousel-v0", "lstm", marks=pytest.mark.slow),
    ],
)
def test_kill_at_a_random_moment(tmp_path, maze, probes, whole_state, assert_same, metrics, algorithm, env, memory):
    """Kill -9 of a training and of its resumption, with sub-environments in the middle of episodes."""
    env = env if env == "CartPole-v1" else f"{probes}:{env}"
    values = settings(algorithm, env, memory)
    run_dir = tmp_path / "killed"
    chance = random.Random()
    start = ["train", algorithm, "--env", env, "--run-dir", run_dir, "--preset", "none", *texts(values)]
    kills = [(start, 0), (["resume", run_dir], 3)]
    for command, first in kills if algorithm == "ppo" else kills[:1]:
        process = maze(*command, wait=False)
        number, pause = chance.randint(first, first + 3), chance.random() / 20
        print("killed after epoch", number, "and", pause, "seconds")
        kill_after(process, run_dir, number, pause)
    saved_run.resume(run_dir)
    whole = tmp_path / "whole"
    api.train(assemble(algorithm, env, "none", flags=values), whole)
    assert_same(whole_state(run_dir), whole_state(whole))
    assert_same(whole_state(run_dir, "best"), whole_state(whole, "best"))
    assert metrics(run_dir) == metrics(whole)
    assert [each["epoch"] for each in metrics(run_dir)] == list(range(1, EPOCHS.get(algorithm, 6) + 1))
    assert points(run_dir, "train/return_mean") == points(whole, "train/return_mean")


def points(run_dir, tag):
    """(step, value) of a TensorBoard curve as TensorBoard shows it."""
    events = EventAccumulator(str(run_dir / "tensorboard"))
    events.Reload()
    return [(each.step, each.value) for each in events.Scalars(tag)]


LONG = {"algorithm.epoch_length": 5, "model.name": "template", "model.normalize_observations": True}
ODD = {
    "ppo": {"algorithm.batch_size": 10, "algorithm.n_optimization_epochs": 2, "algorithm.lr_schedule": "linear"},
    "a2c": {},
}


@pytest.mark.parametrize(
    ("algorithm", "at", "number"),
    [("ppo", 34, signal.SIGTERM), ("a2c", 1, signal.SIGINT)],
)
def test_stop_in_the_middle_of_an_epoch(quick, whole_state, assert_same, metrics, algorithm, at, number):
    """Ctrl-C and SIGTERM end the update and save, Ctrl-C also evaluates; the resumed run equals the whole one."""
    parts = {"env": Workshop, "algorithm": algorithm, "overrides": LONG | ODD[algorithm]}
    stopped = quick(**parts, callbacks={"bomb": bomb(at, number)})
    summary = interrupted(stopped.train)
    assert summary.outcome == "interrupted"
    assert signal.Signals(number).name in summary.reason or "Ctrl-C" in summary.reason
    assert 0 < stopped.run.state.updates_in_epoch < 5
    assert summary.final_evaluation.get("eval/episodes", 0) == (1 if number == signal.SIGINT else 0)
    stopped.close()
    second = quick(**parts, callbacks={"bomb": bomb(at=0)})
    assert second.resume(stopped.run_dir).outcome == "finished"
    whole = quick(**parts, callbacks={"bomb": bomb(at=0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
    assert metrics(stopped.run_dir) == metrics(whole.run_dir)


@pytest.mark.parametrize(("number", "done"), [(signal.SIGINT, (2, 0)), (signal.SIGTERM, (1, 2))])
def test_stop_in_the_last_update_of_an_epoch(quick, whole_state, assert_same, number, done):
    """After SIGTERM a resumed run makes up for the evaluation."""
    parts = {"algorithm": "a2c", "overrides": {"algorithm.n_epochs": 3}}
    stopped = quick(**parts, callbacks={"bomb": bomb(4, number)})
    interrupted(stopped.train)
    assert (stopped.run.epoch, stopped.run.state.updates_in_epoch) == done
    quick(**parts, callbacks={"bomb": bomb(at=0)}).resume(stopped.run_dir)
    whole = quick(**parts, callbacks={"bomb": bomb(at=0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))


def test_a_second_signal_stops_at_once_and_loses_only_the_epoch(quick, whole_state, assert_same):
    ends = []

    class Watch(Plugin):
        @hookimpl
        def on_run_end(self, run, summary):
            ends.append(summary.outcome)

    stopped = quick(callbacks={"bomb": bomb(3, signal.SIGINT, signal.SIGINT), "watch": Watch})
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    assert ends == ["interrupted"]
    quick(callbacks={"bomb": bomb(at=0), "watch": Watch}).resume(stopped.run_dir)
    whole = quick(callbacks={"bomb": bomb(at=0), "watch": Watch})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))


def interrupt_in_evaluation(monkeypatch, number):
    """Send Ctrl-C when evaluation `number` of this process, from 1, takes its first step."""
    calls, play = [], run_evaluation.evaluate_policy

    def evaluate(*arguments, stopped, **options):
        calls.append(0)

        def asked():
            calls[-1] += 1
            if (len(calls), calls[-1]) == (number, 1):
                os.kill(os.getpid(), signal.SIGINT)
            return stopped()

        return play(*arguments, stopped=asked, **options)

    monkeypatch.setattr(run_evaluation, "evaluate_policy", evaluate)


@pytest.mark.parametrize(("number", "steps"), [(1, None), (2, 36)])
def test_an_epoch_whose_evaluation_is_interrupted_stays_open(
    quick, monkeypatch, whole_state, assert_same, metrics, number, steps
):
    """Nothing of the epoch is lost, also where its training came to the run's very end."""
    stopped = quick(steps=steps)
    with monkeypatch.context() as patch:
        interrupt_in_evaluation(patch, number)
        summary = interrupted(stopped.train)
    assert (summary.outcome, summary.epochs, summary.final_evaluation) == ("interrupted", number - 1, {})
    assert stopped.run.state.updates_in_epoch == (1 if number == 2 and steps else 2)
    assert stopped.run.progress.phase == "training"
    stopped.close()
    assert quick().resume(stopped.run_dir).outcome == "finished"
    whole = quick(steps=steps)
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
    assert metrics(stopped.run_dir) == metrics(whole.run_dir)


def test_the_final_evaluation_can_be_interrupted_too(quick, monkeypatch):
    stopped = quick()
    interrupt_in_evaluation(monkeypatch, 3)
    summary = interrupted(stopped.train)
    assert (summary.outcome, summary.epochs, summary.final_evaluation) == ("interrupted", 2, {})
    assert not any("resume" in text for line in next_commands(stopped.run, summary) for text, _ in line)
    stopped.close()
    again = quick().resume(stopped.run_dir)  # nothing but that evaluation was missing
    assert (again.outcome, again.epochs) == ("finished", 2)
    assert again.final_evaluation
    with pytest.raises(ConfigError, match="is finished"):
        quick().resume(stopped.run_dir)


def test_an_early_stop_is_the_end_of_a_run(quick, whole_state, assert_same):
    """Without a change a stopped run is refused; one that was killed before its final evaluation only gets that."""
    options = {"callbacks.early_stopping": {"name": "early_stopping", "target_return": -1e9}, "algorithm.n_epochs": 5}
    stopped = quick("CartPole-v1", overrides=options)
    assert stopped.train().outcome == "stopped"
    stopped.close()
    before = whole_state(stopped.run_dir)
    with pytest.raises(ConfigError, match=r"has stopped: the evaluation return .* reached the target"):
        RunContext.reopen(stopped.run_dir)
    write_record(stopped.run_dir, {**read_record(stopped.run_dir), "summary": None})  # as a kill leaves it
    with RunContext.reopen(stopped.run_dir) as again:
        summary = again.train()
    assert (summary.outcome, summary.epochs) == ("stopped", 1)
    assert summary.final_evaluation
    assert_same(whole_state(stopped.run_dir), before)
    with RunContext.reopen(stopped.run_dir, {"callbacks.early_stopping.target_return": None}) as further:
        summary = further.train()
    assert (summary.outcome, summary.epochs) == ("finished", 5)


def test_the_record_says_how_a_run_ended_and_nothing_while_it_trains(quick):
    class Watch(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            seen.append(json.loads((run.run_dir / "run.json").read_text())["summary"])
            if epoch.epoch == 3:
                raise RunError("enough")

    seen: list = []
    context = quick(callbacks={"watch": Watch})
    context.train(2)
    assert seen == [None, None]
    with pytest.raises(RunError, match="enough"):
        context.train(1)
    assert seen == [None] * 3
    summary = json.loads((context.run_dir / "run.json").read_text())["summary"]
    assert (summary["outcome"], summary["reason"]) == ("failed", "enough")


class Endless(SeededWalk):
    """Never ends; the 100th step interrupts the process."""

    steps = 0

    def step(self, action):
        observation, reward, *_ = super().step(action)
        Endless.steps += 1
        if Endless.steps == 100:
            os.kill(os.getpid(), signal.SIGTERM)
        return observation, reward, False, False, {}


def test_episodes_that_never_end_can_be_interrupted(quick, whole_state):
    stopped = quick(Endless)
    assert interrupted(stopped.train).reason == "interrupted by SIGTERM"
    state = whole_state(stopped.run_dir)
    assert (state["epoch"], state["updates_in_epoch"], state["epoch_trained"]) == (0, 2, True)


def test_the_command_ends_with_130_after_a_signal_and_says_how_to_go_on(maze, tmp_path):
    run_dir = tmp_path / "run"
    small = ("--n-rollout-steps", "10", "--epochs", "1000", "--set", "evaluation.n_episodes=1")
    process = maze("train", "ppo", "--env", "CartPole-v1", "--run-dir", run_dir, *small, wait=False)
    wait_for(process, run_dir, 1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "maze resume" in out.splitlines()[-2] + out.splitlines()[-1] + out.splitlines()[-3]
    assert "interrupted" in out
    assert err == ""


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_two_halves_are_one_whole(quick, whole_state, assert_same, algorithm):
    """train(2N) equals train(N), new objects, train(N)."""
    half = quick(SeededWalk, algorithm, {"algorithm.n_epochs": 4})
    half.train(2)
    half.close()
    context = quick(SeededWalk, algorithm, {"algorithm.n_epochs": 4})
    context.resume(half.run_dir)
    whole = quick(SeededWalk, algorithm, {"algorithm.n_epochs": 4})
    whole.train()
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_random_numbers_of_a_users_own_go_on(quick, whole_state, assert_same):
    """A loss (or a network) that draws from torch's global generator continues its random stream."""

    class Noisy(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            loss = yield
            return loss.plus("noise", sum((torch.randn_like(p) * p).sum() for p in policy.parameters()))

    half, context, whole = (quick(overrides={"algorithm.n_epochs": 3}, callbacks={"noisy": Noisy}) for _ in range(3))
    half.train(1)
    half.close()
    torch.rand(7)
    context.resume(half.run_dir)
    whole.train()
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_from_the_checkpoint_before_and_from_the_best(quick, whole_state, assert_same, metrics):
    whole = quick(overrides={"algorithm.n_epochs": 4}, seed=6)
    whole.train()
    assert whole.run.state.best_epoch < 3
    expected, lines = whole_state(whole.run_dir), metrics(whole.run_dir)
    whole.close()
    for name in ("previous", "best"):
        context = quick(overrides={"algorithm.n_epochs": 4})
        context.resume(whole.run_dir, name)
        assert context.run.resumed
        assert_same(whole_state(whole.run_dir), expected)
        assert metrics(whole.run_dir) == lines


def test_a_finished_run_is_not_trained_on_unless_its_end_is_raised(tmp_path, whole_state, assert_same):
    flags = {"algorithm.n_epochs": 2, "algorithm.epoch_length": 2, "evaluation.n_episodes": 2, "seed": 1}
    flags |= {"callbacks.console": None, "algorithm.n_rollout_steps": 10}
    flags["algorithm.lr_schedule"] = "constant"  # the default follows the end: raised, it is another run
    api.train(assemble("ppo", "CartPole-v1", "none", flags=flags), tmp_path / "a")
    with pytest.raises(ConfigError, match=r"is finished \(2 epochs, 320 steps\)\n.*--set algorithm.n_epochs=4"):
        saved_run.resume(tmp_path / "a")
    saved_run.resume(tmp_path / "a", ["algorithm.n_epochs=4"])
    api.train(assemble("ppo", "CartPole-v1", "none", flags=flags | {"algorithm.n_epochs": 4}), tmp_path / "b")
    assert_same(whole_state(tmp_path / "a"), whole_state(tmp_path / "b"))
    assert RunContext.reopen(tmp_path / "a", {"algorithm.n_epochs": 5}).config.algorithm.n_epochs == 5
    with pytest.raises(ConfigError, match="is finished"):
        saved_run.reopen(tmp_path / "a", ["algorithm.n_epochs=4"])
    assert load_run_config(tmp_path / "a" / "config.yaml").algorithm.n_epochs == 5  # of the override that worked


def test_what_a_resumed_run_may_change(quick, tmp_path):
    context = quick("CartPole-v1")
    context.train(1)
    context.close()
    run_dir = context.run_dir
    run = saved_run.reopen(run_dir, ["algorithm.lr=0.5", "algorithm.n_rollout_steps=5"])
    api.carry_out(run)
    run.close()
    assert {group["lr"] for group in run.learner.optimizer.param_groups} == {0.5}


FORBIDDEN = [
    ("model.hidden=[32]", r"model.hidden cannot change here: .*model.safetensors/.* with shape \(32, 4\), but"),
    ("model.critic=shared", "model.critic cannot change here: .*has 'critic_encoder.*, too"),
    ("model.normalize_observations=true", "cannot change here: .*'normalizer.count', but lacks it"),
    ("algorithm.name=a2c", "was trained by ppo.*\n.*maze train a2c --init-from"),
    ("algorithm.num_envs=2", "steps 3 environments in parallel, this one 2"),
    ("env.id=Acrobot-v1", "observation_space was Box"),
    ("seed=2", r"^seed: was 1 when .* began, and cannot change"),
    ("seed=null", r"^seed: cannot be unset: a saved run has a seed, here 1"),
    ("seed=", r"^seed: cannot be unset"),
    ("algorithm.lrr=1", r"algorithm\.lrr: unknown key; did you mean lr"),
]


def test_what_it_may_not(quick):
    context = quick("CartPole-v1")
    context.train(1)
    context.close()
    before = (context.run_dir / "config.yaml").read_text()
    for override, message in FORBIDDEN:
        with pytest.raises(Exception, match=f"(?s){message}") as caught:
            saved_run.reopen(context.run_dir, [override])
        assert caught.value.exit_code == 2, override
        assert (context.run_dir / "config.yaml").read_text() == before, override


def test_a_run_goes_on_in_worker_processes(quick, whole_state, assert_same):
    """The runner decides where environments are stepped, not what they return."""
    half = quick("CartPole-v1", overrides={"algorithm.n_epochs": 4})
    half.train(2)
    half.close()
    run = saved_run.reopen(half.run_dir, ["runner.name=local", "algorithm.num_envs=3", "runner.workers=2"])
    with closing(run):
        api.carry_out(run)
    whole = quick("CartPole-v1", overrides={"algorithm.n_epochs": 4})
    whole.train()
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


@pytest.mark.parametrize(
    ("algorithm", "env", "more"),
    [
        ("sac", "Pendulum-v1", {}),
        ("dqn", "CartPole-v1", {"model.memory": "gru"}),
        ("pqn", "CartPole-v1", {"algorithm.n_rollout_steps": 4}),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) and "model.memory" in value else None,
)
def test_another_number_of_environments_is_refused_in_one_line(quick, algorithm, env, more):
    """Whatever keeps a state for each of them: random numbers, memory, replay."""
    fields = assemble(algorithm, env, "none").algorithm.model_dump()
    own = {"num_envs": 3, "initial_buffer_size": 12, "replay_buffer_size": 100, "sequence_length": 4, "burn_in": 0}
    small = {f"algorithm.{name}": value for name, value in own.items() if name in fields}
    context = quick(env, algorithm, overrides={**small, **more})
    context.train(1)
    context.close()
    with pytest.raises(ConfigError, match=r"^algorithm\.num_envs: the saved run steps 3 environments in parallel"):
        saved_run.reopen(context.run_dir, ["algorithm.num_envs=2"])


def test_a_signal_just_before_the_first_update_is_not_lost(quick, monkeypatch):
    note = api.note_summary

    def note_and_signal(run):
        if run.summary is None:
            os.kill(os.getpid(), signal.SIGTERM)
        note(run)

    monkeypatch.setattr(api, "note_summary", note_and_signal)
    summary = interrupted(quick(algorithm="a2c").train)
    assert (summary.outcome, summary.reason, summary.updates) == ("interrupted", "interrupted by SIGTERM", 0)
