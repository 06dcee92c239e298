"""Cloning runs: when they evaluate, what they keep, how they go on after a stop, and what PPO makes of the clone."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk
from maze_recordings.rollouts import roll_out, task_of_plugin
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.collect.policies.base import ActingPolicy
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run import api
from maze_core.run.context import RunContext
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.assemblies import assembly_of
from tests.bomb import bomb
from tests.interrupted import interrupted

CART = "CartPole-v1"


class Balance(ActingPolicy):
    """Balances the pole for ever, from its angle and how it moves."""

    def act(self, obs, rngs):
        x, speed, angle, turning = obs["observation"].T
        return {"action": (0.1 * x + 0.3 * speed + 2 * angle + turning > 0).astype(np.int64)}


@pytest.fixture(scope="session")
def cart_demos(tmp_path_factory):
    """Ten whole episodes of CartPole by `Balance`."""
    folder = tmp_path_factory.mktemp("cart") / "demos"
    config = assemble("bc", CART, "none")
    policy = PluginConfig(name="balance").bound_to(Balance)
    played = roll_out(task_of_plugin(policy, config.env, (), 3), 10, record=folder)
    assert min(each.episode_return for each in played) == 500
    return folder


@pytest.fixture
def walk_demos(record):
    """Twelve episodes of 3 to 14 steps in the spaces of SeededWalk."""
    env = SeededWalk()
    return record(
        env.observation_space,
        env.action_space,
        range(3, 15),
        lambda obs: {"action": (obs["observation"][:-1, 0] > 0).astype(np.int64) * 2},
    )


def watcher(log):
    """A callback class that logs the reports of epochs and of evaluations within them."""

    class Watcher(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            log.append(("epoch", epoch))

        @hookimpl
        def on_evaluation(self, run, epoch):
            log.append(("within", epoch))

    return Watcher


def test_evaluations_come_every_so_many_minibatches_and_at_each_end(bc, walk_demos):
    log = []
    context = bc(SeededWalk, walk_demos, {"algorithm.eval_every_k_iterations": 4, "algorithm.n_epochs": 3,
                 "algorithm.epoch_length": 6}, callbacks={"watcher": watcher(log)})  # fmt: skip
    context.train()
    assert [(kind, report.epoch, report.updates) for kind, report in log] == [
        ("within", 1, 4), ("epoch", 1, 6), ("within", 2, 8), ("epoch", 2, 12), ("within", 3, 16), ("epoch", 3, 18),
    ]  # fmt: skip
    for kind, report in log:
        assert report.metrics["eval/episodes"] == 2
        assert report.metrics["validation/loss"] > 0
        assert ("loss/nll" in report.metrics) == (kind == "epoch")
    scores = [report.metrics["eval/return_mean"] for _, report in log]
    assert context.run.best_score == max(scores)
    assert [report.is_best for _, report in log] == [s > max(scores[:i], default=-1e9) for i, s in enumerate(scores)]


def test_the_best_within_an_epoch_is_kept(bc, walk_demos):
    """Only the first evaluation, in the middle of epoch 1, is good: `best` must hold the parameters of that moment."""
    seen = {}

    class Judge(Plugin):
        @hookimpl
        def on_evaluation(self, run, epoch):
            seen.setdefault("model", {k: v.clone() for k, v in run.policy.state_dict().items()})

    context = bc(SeededWalk, walk_demos, {"algorithm.eval_every_k_iterations": 2, "algorithm.epoch_length": 4},
                 callbacks={"judge": Judge})  # fmt: skip
    run = context.run
    numbers = iter([100.0] + [1.0] * 20)
    run.algorithm.score = lambda metrics: next(numbers)
    context.train()
    best = read_checkpoint(context.run_dir / "checkpoints" / "best").model
    assert run.best_score == 100
    assert all(torch.equal(best[name], value) for name, value in seen["model"].items())
    assert not all(torch.equal(best[name], value) for name, value in run.policy.state_dict().items())


def test_without_evaluation_the_validation_loss_decides(bc, walk_demos, capsys):
    log = []
    context = bc(SeededWalk, walk_demos, {"algorithm.n_eval_episodes": 0, "algorithm.n_epochs": 5},
                 callbacks={"watcher": watcher(log), "console": {"name": "console"}}, silent=False)  # fmt: skip
    summary = context.train()
    losses = [report.metrics["validation/loss"] for _, report in log]
    assert not any(name.startswith("eval/") for _, report in log for name in report.metrics)
    assert context.run.best_score == -min(losses)
    assert context.run.state.best_epoch == losses.index(min(losses)) + 1
    assert summary.final_evaluation == {}
    assert (context.run_dir / "checkpoints" / "best").exists()
    out = capsys.readouterr().out
    assert "new best" in out
    assert "best    score" in out
    with pytest.raises(ConfigError, match="--episodes"):
        evaluate_saved(context.run_dir, assembly=assembly_of(context.run))
    assert evaluate_saved(context.run_dir, episodes=3, assembly=assembly_of(context.run)).metrics["eval/episodes"] == 3


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"algorithm.n_eval_episodes": 0, "algorithm.validation_percentage": 0}, "validation_percentage"),
        ({"steps": 1000}, "steps"),
        ({"algorithm.lr_schedule": "linear", "algorithm.n_epochs": 0}, "lr_schedule"),
        ({"algorithm.validation_percentage": 100}, "validation_percentage"),
    ],
)
def test_configurations_that_cannot_work_are_refused(bc, walk_demos, overrides, named):
    with pytest.raises(ConfigError, match=named):
        bc(SeededWalk, walk_demos, overrides).train()


def learnt_from(run):
    """The observations of one pass, and the actions that were taken there."""
    batches = [batch for _ in range(run.epoch_length) for batch in run.algorithm.batches()]
    return torch.cat([b.obs["observation"] for b in batches]), torch.cat([b.actions["action"] for b in batches])


def test_validation_is_the_loss_of_the_held_out_rows(bc, walk_demos):
    run, whole = (bc(SeededWalk, walk_demos, {"algorithm.validation_percentage": share}).run for share in (40, 0))
    metrics = run.algorithm.validate(run.policy)
    (learnt, _), (seen, taken) = learnt_from(run), learnt_from(whole)
    held_out = ~(seen[:, None] == learnt).all(-1).any(1)
    assert held_out.sum() == len(seen) - len(learnt) > 0
    logits, taken = run.policy.distribution({"observation": seen[held_out]}).parts["action"].logits, taken[held_out]
    assert metrics["validation/loss"] == pytest.approx(nn.functional.cross_entropy(logits, taken).item(), rel=1e-5)
    assert metrics["validation/accuracy"] == pytest.approx((logits.argmax(-1) == taken).float().mean().item())


class Dropping(nn.Module):
    """An encoder with dropout that remembers its modes."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.modes = set()
        self.out_features = 8
        self.linear, self.dropout = nn.Linear(2, 8), nn.Dropout(0.5)

    def forward(self, obs):
        self.modes.add((self.training, torch.is_grad_enabled()))
        return self.dropout(self.linear(obs["observation"]))


def test_dropout_is_active_in_learning_only(bc, walk_demos):
    """Modes are right in learning, evaluation and validation, and restored afterwards."""
    encoders = []

    class Remembered(Dropping):
        def __init__(self, observation_space, action_space):
            super().__init__(observation_space, action_space)
            encoders.append(self)

    run = bc(SeededWalk, walk_demos, {"algorithm.eval_every_k_iterations": 3}, model=Remembered).run
    for encoder in encoders:
        encoder.modes.clear()
    api.carry_out(run)
    assert set().union(*(encoder.modes for encoder in encoders)) == {(True, True), (False, False)}
    assert not run.policy.training


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_optimizers_learn_and_leave_the_critic_alone(bc, walk_demos, optimizer):
    context = bc(SeededWalk, walk_demos, {"algorithm.optimizer": optimizer, "algorithm.weight_decay": 0.01})
    before = {name: value.clone() for name, value in context.policy.state_dict().items()}
    first = context.run.algorithm.validate(context.policy)["validation/loss"]
    context.train()
    assert context.run.algorithm.validate(context.policy)["validation/loss"] < first
    critic = [name for name in before if name.startswith(("critic", "value"))]
    assert critic
    assert all(torch.equal(before[name], context.policy.state_dict()[name]) for name in critic)


EXACT = {
    "algorithm.n_epochs": 6,
    "algorithm.epoch_length": 5,
    "algorithm.eval_every_k_iterations": 3,
    "algorithm.lr_schedule": "linear",
    "algorithm.batch_size": 9,
    "model.normalize_observations": True,
}


@pytest.mark.parametrize("at", [5, 18])
def test_a_stopped_run_goes_on_bit_by_bit(bc, walk_demos, whole_state, assert_same, at):
    stopped = bc(SeededWalk, walk_demos, EXACT, model=Dropping, callbacks={"bomb": bomb(at)})
    assert interrupted(stopped.train).outcome == "interrupted"
    stopped.close()
    second = bc(SeededWalk, walk_demos, EXACT, model=Dropping, callbacks={"bomb": bomb(0)})
    assert second.resume(stopped.run_dir).outcome == "finished"
    whole = bc(SeededWalk, walk_demos, EXACT, model=Dropping, callbacks={"bomb": bomb(0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
    assert_same(whole_state(stopped.run_dir, "best"), whole_state(whole.run_dir, "best"))


def test_other_data_cannot_be_slipped_in(bc, walk_demos, record):
    stopped = bc(SeededWalk, walk_demos, EXACT, callbacks={"bomb": bomb(3)})
    interrupted(stopped.train)
    index = Path(walk_demos) / "episodes.jsonl"
    index.write_bytes(b"".join(index.read_bytes().splitlines(keepends=True)[:-1]))
    (index.parent / "complete.json").unlink()
    with pytest.raises(ConfigError, match="no longer contains the episodes"):
        bc(SeededWalk, walk_demos, EXACT, callbacks={"bomb": bomb(0)}).resume(stopped.run_dir)


def clone(cart_demos, folder, **overrides):
    values = {"algorithm.dataset": str(cart_demos), "algorithm.n_epochs": 3, "algorithm.device": "cpu"} | overrides
    with RunContext(CART, "bc", overrides=values, run_dir=folder, seed=1, silent=True, preset="none") as context:
        context.train()
        return context.run.best_score


@pytest.mark.learning
def test_a_clone_is_as_good_as_its_expert(cart_demos, tmp_path):
    """The gate of the specification: 95 % of the expert, which is at 500."""
    folder = tmp_path / "clone"
    clone(cart_demos, folder, **{"algorithm.n_epochs": 8})
    assert evaluate_saved(folder, episodes=20, seed=99).metrics["eval/return_mean"] >= 475


def test_ppo_takes_the_clone_up_and_trains_its_critic_first(cart_demos, tmp_path):
    clone(cart_demos, tmp_path / "clone", **{"algorithm.n_epochs": 1})
    overrides = {"algorithm.critic_burn_in_epochs": 1, "algorithm.epoch_length": 2, "evaluation.n_episodes": 1}
    with RunContext(CART, "ppo", overrides=overrides, init_from=tmp_path / "clone", run_dir=tmp_path / "tuned", seed=2,
                    silent=True, preset="none") as tuned:  # fmt: skip
        cloned = read_checkpoint(tmp_path / "clone" / "checkpoints" / "best").model
        start = {name: value.clone() for name, value in tuned.policy.state_dict().items()}
        assert all(torch.equal(start[name], cloned[name]) for name in cloned)
        tuned.train(n_epochs=1)
        after = tuned.policy.state_dict()
        moved = {name for name in start if not torch.equal(start[name], after[name])}
        assert moved
        assert all(name.startswith(("critic", "value")) for name in moved)
        tuned.train(n_epochs=1)
        assert any(not torch.equal(start[n], v) for n, v in tuned.policy.state_dict().items() if n.startswith("heads"))


def test_the_clone_has_a_dict_of_spaces(bc, record):
    seen = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "deep": spaces.Dict({"b": spaces.Discrete(2)})})
    acted = spaces.Dict({"push": spaces.Box(-2, 0.5, (2,)), "pick": spaces.Discrete(3, start=1)})

    def act(obs):
        rows = obs["a"][:-1]
        return {"push": np.clip(rows * 0.2, -2, 0.5), "pick": (rows[:, 0] > 0).astype(np.int64)}

    class Env(gymnasium.Env):
        observation_space, action_space = seen, acted

        def reset(self, *, seed=None, options=None):
            self.observation_space.seed(seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            assert self.action_space.contains(action)
            return self.observation_space.sample(), 1.0, False, True, {}

    context = bc(Env, record(seen, acted, [20] * 10, act), {"algorithm.n_epochs": 15, "algorithm.lr": 0.01},
                 model="template")  # fmt: skip
    context.train()
    metrics = context.run.algorithm.validate(context.policy)
    assert metrics["validation/accuracy"] > 0.8
    assert metrics["validation/action_error"] < 0.2
