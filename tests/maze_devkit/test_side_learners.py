"""Networks of callbacks that learn beside the algorithm, as an outsider writes them: the page's own, and variants."""

import importlib
import json
import sys

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_devkit.kit import checks
from maze_models.side_learner import SideLearner

from maze_core import Batch, Loss, Plugin, hookimpl
from maze_core.base.errors import ConfigError, PluginError, RunError
from tests.docs.test_snippets import blocks

OVERRIDES = {"evaluation.n_episodes": 0}

PAGE = next(block.text for block in blocks("docs/guide/extending.md") if block.text.startswith("# forward_model.py"))
UNPAID = {"callbacks.forward.updates_per_epoch": 3}


@pytest.fixture(scope="module")
def forward(tmp_path_factory):
    """The callback of the page."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "forward_model.py").write_text(PAGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("forward_model").Forward
        patch.delitem(sys.modules, "forward_model")


def beside(**options):
    """A callback whose network learns rows of each rollout, and leaves rewards alone."""

    class Beside(Plugin):
        """Learns for itself."""

        @hookimpl
        def build_modules(self, run):
            self.model, self.rows, self.passes = torch.nn.Linear(2, 2), None, []
            self.run = run
            return {"model": SideLearner(self.model, self.loss, self.batches, **options)}

        @hookimpl
        def change_rollout(self, run, rollout):
            obs = torch.from_numpy(rollout.obs["observation"]).float()
            self.rows = Batch({"observation": obs[:-1].flatten(0, 1)}, {}, {"following": obs[1:].flatten(0, 1)})

        def batches(self):
            self.passes.append(self.run.updates)
            yield self.rows
            yield self.rows

        def loss(self, batch):
            error = 100 * (self.model(batch.obs["observation"]) - batch.extra["following"])
            return Loss(error.square().mean(), {"error": error.detach().abs().mean()})

    return Beside


def learned(context):
    return {name: tensor.clone() for name, tensor in context.policy.state_dict().items()}


def last_line(context):
    return json.loads((context.run_dir / "metrics.jsonl").read_text().splitlines()[-1])


def plugin_of(context):
    return next(
        each.plugin for each in context.run.hooks.members if each.kind == "callback" and "beside" in each.name.lower()
    )


def test_the_algorithm_learns_what_it_would_without_it(quick):
    alone, both = quick(), quick(callbacks={"beside": beside(max_grad_norm=0.5)})
    start = None
    alone.train()
    start = both.run.modules["beside.model"].weight.detach().clone()
    both.train()
    assert all(torch.equal(a, b) for a, b in zip(learned(alone).values(), learned(both).values(), strict=True))
    assert not both.run.modules["beside.model"].weight.equal(start)
    one, two = last_line(alone), last_line(both)
    assert one["loss/grad_norm"] == two["loss/grad_norm"]
    assert two["loss/beside.model.grad_norm"] > 100  # its own, before its own limit
    assert two["loss/beside.model.error"] > 0


def test_its_limit_is_its_own(quick):
    context = quick(callbacks={"beside": beside(max_grad_norm=0.25)})
    context.train()
    gradients = torch.cat([p.grad.reshape(-1) for p in context.run.modules["beside.model"].parameters()])
    assert gradients.norm().item() == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize(
    ("per_epoch", "passes"),
    [(None, [0, 1, 2, 3]), (1, [1, 3]), (3, [0, 1, 1, 2, 3, 3]), (4, [0, 0, 1, 1, 2, 2, 3, 3]), (0, [])],
)
def test_its_updates_are_spread_over_the_epoch(quick, per_epoch, passes):
    context = quick(callbacks={"beside": beside(updates_per_epoch=per_epoch)})
    context.train()
    assert plugin_of(context).passes == passes
    (learner,) = context.run.side_learners.state().values()
    assert (learner["updates"], learner["learner"]["steps"]) == (len(passes), 2 * len(passes))


def test_a_resumed_network_learns_with_the_settings_of_the_new_configuration(quick):
    context = quick(callbacks={"beside": beside()})
    context.train()
    saved = context.run.side_learners.state()["beside.model"]
    again = SideLearner(torch.nn.Linear(2, 2), None, None, lr=0.5)
    again.load_state(saved)
    (group,), moments = again.state()["learner"]["optimizer"]["param_groups"], saved["learner"]["optimizer"]["state"]
    assert (group["lr"], group["eps"]) == (0.5, 1e-8)
    assert again.state()["learner"]["optimizer"]["state"][0]["exp_avg"].equal(moments[0]["exp_avg"])


def test_an_optimizer_of_ones_own_is_used_and_saved(quick):
    class Own(beside()):
        @hookimpl
        def build_modules(self, run):
            built = super().build_modules(run)["model"]
            optimizer = torch.optim.SGD(built.network.parameters(), lr=1e-3, momentum=0.9)
            return {
                "model": SideLearner(built.network, self.loss, self.batches, optimizer=optimizer, max_grad_norm=1.0)
            }

    context = quick(callbacks={"beside": Own})
    context.train()
    state = context.run.side_learners.state()["beside.model"]["learner"]["optimizer"]
    assert state["param_groups"][0]["momentum"] == 0.9
    assert len(state["state"]) == 2


def test_a_resumed_run_is_bit_equal(quick, forward, whole_state, assert_same):
    def build():
        return quick(callbacks={"forward": forward}, overrides=UNPAID)

    whole, split = build(), build()
    whole.train()
    split.train(1)
    split.close()
    again = build()
    again.resume(split.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(again.run_dir))
    assert again.run.side_learners.state()["forward.model"]["updates"] == 6


def test_it_learns_from_what_it_likes_also_beside_replay(quick):
    class Numbers(Plugin):
        """Learns from numbers of its own."""

        @hookimpl
        def build_modules(self, run):
            model = torch.nn.Linear(1, 1)
            return {
                "of_numbers": SideLearner(model, lambda x: Loss(model(x).square().mean()), lambda: [torch.ones(3, 1)])
            }

    small = {"algorithm.initial_buffer_size": 10, "algorithm.batch_size": 4, "algorithm.num_envs": 1}
    context = quick(algorithm="dqn", overrides=small, callbacks={"numbers": Numbers})
    context.train()
    assert context.run.side_learners.state()["numbers.of_numbers"]["updates"] == 4
    assert "loss/numbers.of_numbers.grad_norm" in last_line(context)


def test_what_it_keeps_is_restored(quick):
    order, learner = np.random.default_rng(3), SideLearner(torch.nn.Linear(1, 1), Loss, list)
    learner.keep("order", order)
    state = learner.state()
    drawn = order.random()
    learner.load_state(state)
    assert order.random() == drawn


def test_a_loss_that_is_not_finite_names_it(quick):
    class Wrong(beside()):
        def loss(self, batch):
            return Loss((self.model(batch.obs["observation"]) * float("nan")).sum())

    with pytest.raises(
        RunError, match=r"beside\.model, which learns beside the algorithm: the loss or a gradient is not finite"
    ):
        quick(callbacks={"beside": Wrong}).train()


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: SideLearner(torch.nn.Linear(1, 1).requires_grad_(False), Loss, list), "no parameter that learns"),
        (lambda: SideLearner(torch.nn.Linear(1, 1), Loss, list, updates_per_epoch=-1), "must not be negative"),
    ],
)
def test_what_cannot_learn_is_refused(build, said):
    with pytest.raises(PluginError, match=said):
        build()


def test_several_learners_are_refused_by_name(quick):
    with pytest.raises(ConfigError, match="supports only one learner"):
        _ = quick(callbacks={"beside": beside()}, overrides={"learners": 2}).run


def test_something_else_is_refused(quick):
    class Wrong(Plugin):
        """No network."""

        @hookimpl
        def build_modules(self, run):
            return {"model": 3}

    with pytest.raises(PluginError, match=r"instead of dict of torch.nn.Module or SideLearner"):
        _ = quick(SeededWalk, callbacks={"wrong": Wrong}).run


def test_the_kit_passes_it(publish, findings):
    source = PAGE.replace("class Forward(", "class Tested(").partition("\nif __name__")[0]
    wanted = (
        "loads",
        "builds",
        "hooks",
        "observes",
        "deterministic",
        "resumes",
        "promised_imports",
        "config_described",
    )
    without = [check.name for check in checks("callback") if check.name not in wanted]
    found = findings(*publish("callback", source), without)
    assert {name: each.state for name, each in found.items()} == dict.fromkeys(wanted, "passed"), found
