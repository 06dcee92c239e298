"""How PPO goes about an update: passes, schedules, burn-in, early ends."""

import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Bandit
from maze_ppo.config import PPOConfig
from pydantic import ValidationError

from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.hookspecs import hookimpl


class Watch(Plugin):
    """Keeps batches, learning rates and parameters as training goes on."""

    def __init__(self, config):
        super().__init__(config)
        self.batches, self.lrs, self.parameters, self.metrics = [], [], [], []

    @hookimpl
    def on_run_start(self, run):
        self.run = run
        self.parameters.append(copied(run.policy))

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        self.batches.append(batch.map(torch.clone))
        self.lrs.append(self.run.learner.optimizer.param_groups[0]["lr"])
        return (yield)

    @hookimpl
    def on_epoch_end(self, run, epoch):
        self.parameters.append(copied(run.policy))
        self.metrics.append(epoch.metrics)


def copied(policy):
    return {name: value.clone() for name, value in policy.state_dict().items()}


@pytest.fixture
def watched(quick):
    def train(env=SeededWalk, algorithm="ppo", **overrides):
        named = {"algorithm.n_rollout_steps": 8}
        named |= {f"algorithm.{name}": value for name, value in overrides.items() if "__" not in name}
        named |= {name.replace("__", "."): value for name, value in overrides.items() if "__" in name}
        steps = named.pop("algorithm.steps", None)
        context = quick(env, algorithm, named, callbacks={"watch": Watch}, steps=steps)
        summary = context.train()
        watch = next(each.plugin for each in context.run.hooks.members if each.name == "watch")
        return context, watch, summary

    return train


def changed(before, after):
    return {name for name, value in after.items() if not torch.equal(value, before[name])}


def test_every_pass_holds_every_row_once(watched):
    """24 rows of a rollout in minibatches of 10, 10 and 4, three times over; two epochs of two updates."""
    _, watch, _ = watched(batch_size=10, n_optimization_epochs=3)
    assert [len(batch) for batch in watch.batches] == [10, 10, 4] * 3 * 4
    whole = [sorted(map(tuple, torch.cat([b.obs["observation"] for b in watch.batches[i : i + 3]]).tolist()))
             for i in range(0, 36, 3)]  # fmt: skip
    for update in range(4):
        assert whole[3 * update] == whole[3 * update + 1] == whole[3 * update + 2]
    assert whole[0] != whole[3]
    first, second = watch.batches[0].obs["observation"], watch.batches[3].obs["observation"]
    assert not torch.equal(first, second)  # shuffled anew for each pass


def test_old_probabilities_and_advantages_stay_those_of_the_rollout(watched):
    _, watch, _ = watched(batch_size=100, n_optimization_epochs=3, lr=0.1, n_epochs=1, epoch_length=1)
    for name in ("log_prob", "advantage", "value", "target"):
        first, *others = [batch.extra[name].sort().values for batch in watch.batches]
        assert all(torch.allclose(first, other, atol=1e-6) for other in others), (
            name
        )  # rows are normalised in any order


def test_each_minibatch_has_normalised_advantages_unless_turned_off(watched):
    for wanted in (True, False):
        _, watch, _ = watched(batch_size=8, n_optimization_epochs=1, normalize_advantages=wanted)
        spreads = [batch.extra["advantage"].std(unbiased=False).item() for batch in watch.batches]
        assert (spreads == pytest.approx([1.0] * len(spreads), abs=1e-3)) == wanted


def test_a_linear_schedule_over_epochs_reaches_0(watched):
    context, watch, _ = watched(lr=0.4, lr_schedule="linear", batch_size=100, n_optimization_epochs=1)
    assert watch.lrs == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert context.run.fraction_done == 1


def test_a_linear_schedule_over_steps(watched):
    _, watch, _ = watched(lr=0.4, lr_schedule="linear", batch_size=100, n_optimization_epochs=1, n_epochs=0, steps=96)
    assert watch.lrs == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_the_schedule_of_the_defaults_falls_in_a_run_that_has_an_end(watched):
    default = PPOConfig(name="ppo").lr_schedule
    assert default == "auto"
    _, watch, _ = watched(lr=0.4, lr_schedule=default, batch_size=100, n_optimization_epochs=1)
    assert watch.lrs == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_the_schedule_of_the_defaults_is_constant_in_a_run_without_an_end(quick):
    """Such a run ends when something stops it, and no share of it is ever done."""
    free = {"algorithm.n_epochs": 0, "algorithm.lr": 0.4, "algorithm.lr_schedule": "auto"}
    context = quick(overrides=free, callbacks={"watch": Watch})
    context.train(2)
    watch = next(each.plugin for each in context.run.hooks.members if each.name == "watch")
    assert set(watch.lrs) == {0.4}


def test_a_constant_learning_rate(watched):
    _, watch, _ = watched(lr=0.4, lr_schedule="constant", batch_size=100)
    assert set(watch.lrs) == {0.4}


def test_a_schedule_is_that_of_the_configured_run_however_it_is_cut(quick):
    overrides = {"algorithm.lr_schedule": "linear", "algorithm.n_epochs": 4, "algorithm.lr": 0.4}
    context = quick(overrides=overrides, callbacks={"watch": Watch})
    for _ in range(4):
        context.train(1)
    watch = next(each.plugin for each in context.run.hooks.members if each.name == "watch")
    assert sorted(set(watch.lrs), reverse=True) == pytest.approx([0.4 * (1 - k / 8) for k in range(8)])


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_only_the_critic_learns_during_burn_in(watched, algorithm):
    """Separate networks: not one bit of the policy moves in the first two of three epochs, then all of it."""
    overrides = {"critic_burn_in_epochs": 2, "n_epochs": 3, "lr": 0.01}
    context, watch, _ = watched(algorithm=algorithm, **overrides)
    critic = {name for name in copied(context.policy) if "critic" in name or "value" in name}
    first, second, third = (
        changed(*pair) for pair in zip(watch.parameters[:-1], watch.parameters[1:], strict=True)
    )  # fmt: skip
    assert first == critic
    assert second == critic
    assert third == set(copied(context.policy))


def test_burn_in_weighs_the_critics_loss_with_1(quick):
    context = quick(overrides={"algorithm.critic_burn_in_epochs": 1, "algorithm.value_loss_coef": 0.25})
    batch = next(context.run.algorithm.batches())
    loss = context.run.hooks.compute_loss(policy=context.policy, batch=batch)
    assert loss.total.item() == loss.metrics["value"].item()
    context.run.state.epoch = 1
    loss = context.run.hooks.compute_loss(policy=context.policy, batch=batch)
    assert loss.total.item() != loss.metrics["value"].item()


def test_target_kl_ends_the_passes(watched):
    """The first step leaves the ratio at 1; after the second minibatch the divergence shows and the rollout is done."""
    _, watch, _ = watched(batch_size=8, target_kl=1e-5, lr=0.01)
    assert [len(batch) for batch in watch.batches] == [8, 8] * 4
    _, watch, _ = watched(batch_size=8, target_kl=1e9, lr=0.01, n_optimization_epochs=10)
    assert len(watch.batches) == 4 * 3 * 10


def test_metrics(watched):
    _, watch, _ = watched(lr=0.01)
    for metrics in watch.metrics:
        assert metrics["loss/kl"] > 0
        assert 0 <= metrics["loss/clip_fraction"] <= 1
        assert 0 < metrics["loss/entropy"] <= 1.0987
        assert metrics["loss/grad_norm"] > 0
        assert metrics.keys() >= {"loss/policy", "loss/value", "train/explained_variance", "train/return_mean"}


def test_gradients_are_clipped(quick):
    seen = []
    context = quick(algorithm="ppo", overrides={"algorithm.max_grad_norm": 0.001})
    learner, step = context.run.learner, context.run.learner.optimizer.step

    def looking():
        parameters = [p for group in learner.optimizer.param_groups for p in group["params"]]
        seen.append(torch.cat([p.grad.reshape(-1) for p in parameters]).norm().item())
        step()

    learner.optimizer.step = looking
    context.train()
    assert max(seen) == pytest.approx(0.001, rel=1e-4)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_a_bandit_is_learnt(quick, algorithm):
    """The smallest proof that the sign of everything is right."""
    overrides = {"algorithm.lr": 0.05, "algorithm.epoch_length": 25, "algorithm.n_epochs": 1, "model.hidden": []}
    context = quick(Bandit, algorithm, overrides)
    context.train()
    obs = {"observation": torch.ones(1, 1)}
    probabilities = [
        context.policy.distribution(obs).log_prob({"action": torch.tensor([a])}).exp().item() for a in range(3)
    ]
    assert probabilities[0] > 0.8
    assert context.evaluate()["eval/return_mean"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0}, {"lr": -1}, {"gamma": 1.1}, {"gae_lambda": -0.1}, {"n_rollout_steps": 0}, {"batch_size": 0},
        {"clip_range": 0}, {"target_kl": 0}, {"value_clip_range": 0}, {"n_optimization_epochs": 0}, {"n_epochs": -1},
        {"epoch_length": 0}, {"lr_schedule": "cosine"}, {"entropy_coef": -1}, {"max_grad_norm": -1},
        {"lr": float("nan")}, {"batch_size": 1}, {"device": "tpu"},
        {"lrr": 1},
    ],
    ids=str,
)  # fmt: skip
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        PPOConfig(name="ppo", **wrong)


def test_classic_is_the_original_maze():
    whole = assemble("ppo", "Acrobot-v1", preset="classic")
    config = whole.algorithm
    assert whole.callbacks["early_stopping"].patience == 15
    assert (config.n_epochs, config.epoch_length, config.critic_burn_in_epochs) == (0, 25, 0)
    assert (config.n_rollout_steps, config.lr, config.gamma, config.gae_lambda) == (100, 2.5e-4, 0.98, 1.0)
    assert (config.policy_loss_coef, config.value_loss_coef, config.entropy_coef) == (1.0, 0.5, 0.00025)
    assert (config.max_grad_norm, config.batch_size, config.n_optimization_epochs, config.clip_range) == (
        0,
        100,
        4,
        0.2,
    )
    assert (config.lr_schedule, config.target_kl, config.value_clip_range) == ("constant", None, None)
    assert config.normalize_advantages is False
