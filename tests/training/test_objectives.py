"""Batches that name their objective and their parameter group, and networks that plugins train beside the policy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_offpolicy.learn.targets import Target

from maze_core import Algorithm, AlgorithmConfig, Batch, Loss, Plugin, PluginConfig, RunContext, hookimpl
from maze_core.base.errors import PluginError, RunError
from maze_core.learn.optimizers import Adam
from maze_core.plugins.config import params


class Turns(Algorithm):
    """Takes turns: the critic learns twice, then the policy once. Every loss depends on every network."""

    class Config(AlgorithmConfig):
        pass

    needs_critic = False
    turns = ("critic", "critic", "policy")

    def setup(self, run):
        self.critic = torch.nn.Linear(2, 1)

    def modules(self):
        return {"critic": self.critic}

    def build_optimizer(self, policy):
        groups = {"policy": policy, "critic": self.critic}
        return Adam([{"params": module.parameters(), "lr": 0.1, "name": name} for name, module in groups.items()])

    def batches(self):
        for turn in self.turns:
            yield Batch({}, {}, {"x": torch.ones(2, 2)}, objective=turn or "", group=turn)

    @hookimpl
    def compute_loss(self, policy, batch):
        everything = sum(p.square().sum() for p in policy.parameters()) + self.critic(batch.extra["x"]).sum()
        return Loss(everything if batch.objective == "critic" else 2 * everything)


@pytest.fixture
def context(tmp_path, known_plugins):
    made = []

    def build(algorithm=Turns, **parts):
        overrides = {
            "algorithm.n_epochs": 2,
            "algorithm.epoch_length": 2,
            "evaluation.n_episodes": 1,
            "callbacks.tensorboard": None,
        } | parts.pop("overrides", {})
        folder = tmp_path / f"run{len(made)}"
        made.append(
            RunContext(SeededWalk, algorithm, overrides=overrides, run_dir=folder, seed=1, silent=True, **parts)
        )
        return made[-1]

    yield build
    for each in made:
        each.close()


def steps_taken(run):
    saved = run.learner.optimizer.state_dict()
    return {
        group["name"]: {int(saved["state"][number]["step"]) for number in group["params"]}
        for group in saved["param_groups"]
    }


class Scheduled(Turns):
    """Notes the learning rates of its updates; without a schedule it sets them itself."""

    class Config(AlgorithmConfig):
        lr_schedule: params.LearningRateSchedule = "linear"

    def batches(self):
        self.rates = [*getattr(self, "rates", []), self.learner.param_groups[1]["lr"]]
        yield from super().batches()

    def build_optimizer(self, policy):
        self.learner = super().build_optimizer(policy)
        return self.learner


class Halving(Scheduled):
    Config = AlgorithmConfig

    def batches(self):
        yield from super().batches()
        self.learner.param_groups[1]["lr"] /= 2


class Rising(Scheduled):
    def lr_factor(self, fraction_done):
        return 1 + fraction_done


@pytest.mark.parametrize(
    ("algorithm", "factors"),
    [(Scheduled, [1, 0.75, 0.5, 0.25]), (Halving, [1, 0.5, 0.25, 0.125]), (Rising, [1, 1.25, 1.5, 1.75])],
)
def test_the_loop_follows_the_schedule_of_an_algorithm_that_has_one(context, algorithm, factors):
    run = context(algorithm)
    run.train()
    assert run.run.algorithm.rates == pytest.approx([0.1 * factor for factor in factors])


def test_only_the_group_that_a_batch_names_learns(context):
    run = context().run
    before = {name: p.detach().clone() for name, p in run.policy.named_parameters()}
    first = next(run.algorithm.batches())
    run.learner.step(run.hooks.compute_loss(run.policy, first), first.group)
    assert all(p.equal(before[name]) and p.grad is None for name, p in run.policy.named_parameters())
    assert steps_taken(run) == {"policy": {0}, "critic": {1}}


def test_objectives_take_turns_in_the_loop_and_are_logged_apart(context, metrics):
    each = context()
    each.train()
    assert steps_taken(each.run) == {"policy": {4}, "critic": {8}}
    assert {"loss/critic_grad_norm", "loss/policy_grad_norm"} <= metrics(each.run_dir)[-1].keys()


def test_a_group_that_the_optimizer_lacks_is_named(context):
    each = context(type("Wrong", (Turns,), {"turns": ("actor",)}))
    with pytest.raises(RunError, match="parameter group 'actor', but the optimizer has 'policy', 'critic'"):
        each.train()


def test_rows_of_every_batch_are_counted_and_minibatches_keep_their_objective():
    assert len(Batch({}, {}, {"rank": torch.zeros(3, 2)})) == 3
    assert len(Batch({}, {})) == 0
    whole = Batch({}, {}, {"x": torch.zeros(4)}, objective="critic", group="slow")
    halves = list(whole.minibatches(2, np.random.default_rng(0)))
    assert [(len(half), half.objective, half.group) for half in halves] == [(2, "critic", "slow")] * 2


def test_nothing_is_learned_and_no_update_counts_until_the_warm_up_is_done(context):
    class Interrupted(Turns):
        def setup(self, run):
            super().setup(run)
            self.run, self.warm_ups = run, 0

        def warm_up(self):
            self.warm_ups += 1
            if self.warm_ups == 2:
                self.run.interrupt("a test")
                return False
            return True

    each = context(Interrupted)
    summary = each.train()
    assert (summary.outcome, summary.updates, each.run.state.updates_in_epoch) == ("interrupted", 1, 1)


class Curiosity(Plugin):
    """Learns to predict the last observation from the one before, and pays what it does not know."""

    class Config(PluginConfig):
        lr: float = 0.05

    @hookimpl
    def build_modules(self, run):
        size = run.observation_space.shape[0]
        self.predictor = torch.nn.Linear(size, size)
        return {"predictor": self.predictor}

    @hookimpl
    def change_rollout(self, run, rollout):
        obs = torch.from_numpy(rollout.obs["observation"]).float()
        with torch.no_grad():
            error = (self.predictor(obs[:-1]) - obs[1:]).square().mean(-1).numpy()
        rollout.rewards += error
        rollout.extra["following"] = rollout.obs["observation"][1:].copy()

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        loss = yield
        error = self.predictor(batch.obs["observation"].float()) - batch.extra["following"].float()
        return loss.plus("prediction", error.square().mean())


PPO = {"algorithm.n_rollout_steps": 8, "algorithm.num_envs": 3, "algorithm.lr_schedule": "constant"}


def test_a_plugin_trains_a_network_of_its_own_and_shapes_rewards(context, metrics):
    each = context("ppo", callbacks={"curiosity": Curiosity}, overrides=PPO, preset="none")
    predictor = each.run.modules["curiosity.predictor"]
    before = predictor.weight.detach().clone()
    each.train()
    assert not predictor.weight.equal(before)
    assert metrics(each.run_dir)[-1]["loss/prediction"] > 0
    assert not any("predictor" in name for name in each.policy.state_dict())
    assert each.run.learner.plugins_optimizer.param_groups[0]["lr"] == 0.05


@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_values_that_batches_would_not_have_are_refused_by_name(context, algorithm):
    small = {"algorithm.n_rollout_steps": 8, "algorithm.lr_schedule": "constant", "runner": "dev"}
    each = context(algorithm, callbacks={"curiosity": Curiosity}, overrides=small, preset="none")
    with pytest.raises(RunError, match=f"'following' to rollouts .*batches of {algorithm} have no such values"):
        each.train()


def test_the_network_of_a_plugin_is_restored_exactly(context, whole_state, assert_same):
    parts = {"callbacks": {"curiosity": Curiosity}, "preset": "none"}
    whole = context("ppo", overrides=PPO, **parts)
    whole.train()
    half = context("ppo", overrides=PPO | {"algorithm.n_epochs": 1}, **parts)
    half.train()
    again = context("ppo", overrides=PPO, **parts)
    again.resume(half.run_dir)
    assert_same(whole_state(whole.run_dir, "last"), whole_state(half.run_dir, "last"))


def test_replayed_transitions_are_changed_and_the_buffer_is_not(context, metrics):
    class Bonus(Plugin):
        @hookimpl
        def change_transitions(self, run, batch):
            batch.extra["reward"] += 100

    small = {"algorithm.initial_buffer_size": 20, "algorithm.batch_size": 8, "algorithm.critic_hidden": [8]}
    each = context("sac", callbacks={"bonus": Bonus}, overrides=small, preset="none")
    each.train()
    assert metrics(each.run_dir)[-1]["loss/critic"] > 1000
    batch = each.run.algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 8, 0.9)
    assert batch.extra["reward"].max() < 50


@pytest.mark.parametrize("hook", ["build_modules", "change_rollout"])
def test_a_failure_stops_the_run_and_names_hook_and_plugin(context, hook):
    methods = {"build_modules": _fail_to_build, "change_rollout": _fail_to_change}
    Broken = type("Broken", (Plugin,), {hook: hookimpl(methods[hook])})
    with pytest.raises(ZeroDivisionError) as caught:
        context("ppo", callbacks={"broken": Broken}, overrides=PPO, preset="none").train()
    assert any(f"in hook {hook} of callback plugin" in note for note in caught.value.__notes__)


def _fail_to_build(self, run):
    raise ZeroDivisionError("planted")


def _fail_to_change(self, run, rollout):
    raise ZeroDivisionError("planted")


def test_an_algorithm_without_a_learning_rate_builds_its_optimizer_itself(context):
    class NoRate(Turns):
        build_optimizer = Algorithm.build_optimizer

    with pytest.raises(Exception, match=r"no parameter `lr` and does not override build_optimizer"):
        context(NoRate).run  # noqa: B018 — it is built here


@pytest.mark.parametrize("group", ["critic", None])
def test_frozen_parameters_in_the_optimizer_stay_as_they_are(context, group):
    class Frozen(Turns):
        turns = (group,)

        def setup(self, run):
            super().setup(run)
            self.critic.bias.requires_grad_(False)

    each = context(Frozen)
    critic = each.run.algorithm.critic
    before = critic.weight.detach().clone(), critic.bias.detach().clone()
    each.train()
    assert not critic.weight.equal(before[0])
    assert critic.bias.equal(before[1])
    assert critic.bias.grad is None


@pytest.mark.parametrize("cut", ["detached", "of another group", "of no parameter"])
@pytest.mark.parametrize("turn", ["critic", None])
def test_a_loss_that_reaches_nothing_that_learns_is_named_with_its_objective(context, cut, turn):
    class Idle(Turns):
        turns = (turn,)

        @hookimpl
        def compute_loss(self, policy, batch):
            elsewhere = torch.ones((), requires_grad=True) if turn is None else next(policy.parameters()).sum()
            losses = {"detached": elsewhere.detach(), "of another group": elsewhere, "of no parameter": torch.ones(())}
            return Loss(losses[cut])

    each = context(Idle)
    before = {name: p.detach().clone() for name, p in each.run.policy.named_parameters()}
    named = "the loss gives no gradient to any parameter that the optimizer has"
    if turn:
        named = "the loss of the objective 'critic' gives no gradient to any parameter of the group 'critic'"
    with pytest.raises(RunError, match=named):
        each.train()
    assert all(p.equal(before[name]) for name, p in each.run.policy.named_parameters())


class Default(Turns):
    """Leaves the optimizer to the core."""

    turns = ("",)

    class Config(AlgorithmConfig):
        lr: float = 0.1

    def batches(self):
        yield Batch({}, {}, {"x": torch.ones(2, 2)}, objective="critic")

    build_optimizer = Algorithm.build_optimizer


def test_the_optimizer_of_the_core_trains_the_modules_too_but_no_target(context):
    class Slow(Default):
        def modules(self):
            self.target = Target(self.critic)
            return {"critic": self.critic, "target": self.target.module, "again": self.critic}

    run = context(Slow).run
    critic, policy = list(run.algorithm.critic.parameters()), list(run.policy.parameters())
    assert [id(p) for p in run.learner.parameters] == [id(p) for p in (*policy, *critic)]
    before = critic[0].detach().clone()
    run.learner.step(run.hooks.compute_loss(run.policy, next(run.algorithm.batches())))
    assert not critic[0].equal(before)


@pytest.mark.parametrize("lacking", ["all", "one"])
def test_an_optimizer_that_lacks_a_network_is_refused_before_the_first_step(context, lacking):
    class Forgetful(Turns):
        def build_optimizer(self, policy):
            critic = list(self.critic.parameters())
            return Adam([*policy.parameters(), *(critic[:1] if lacking == "one" else [])], lr=0.1)

    named = {"all": r"lacks critic\.weight and 1 more of modules", "one": r"lacks critic\.bias of modules"}[lacking]
    with pytest.raises(PluginError, match=named):
        context(Forgetful).run  # noqa: B018 — it is built here


def test_a_frozen_network_needs_no_optimizer(context):
    class Fixed(Turns):
        turns = ("",)

        def setup(self, run):
            super().setup(run)
            self.critic.requires_grad_(False)

        def build_optimizer(self, policy):
            return Adam(policy.parameters(), lr=0.1)

        def batches(self):
            yield Batch({}, {}, {"x": torch.ones(2, 2)})

    assert context(Fixed).train().outcome == "finished"
