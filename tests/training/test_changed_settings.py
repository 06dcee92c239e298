"""Optimizers of a resumed run have the settings of its new configuration, and keep what they have learnt."""

from contextlib import closing

import pytest
import torch

from maze_core.data.batch import Loss
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.discovery import overlay
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.saved import saved_run

OVERRIDES = {"evaluation.n_episodes": 0}


def resumed(context, *overrides):
    """Return the unfinished run of a context, which is closed, with other settings."""
    context.close()
    return closing(saved_run.reopen(context.run_dir, list(overrides)))


@pytest.mark.parametrize(
    ("algorithm", "override", "name", "value"),
    [("a2c", "algorithm.beta1=0.5", "betas", (0.5, 0.99)), ("a2c", "algorithm.lr=0.5", "lr", 0.5)],
)
def test_a_resumed_optimizer_has_the_settings_of_the_new_configuration(quick, algorithm, override, name, value):
    context = quick("CartPole-v1", algorithm)
    context.train(1)
    moments = [each.clone() for each in context.run.learner.optimizer.state_dict()["state"][0].values()]
    with resumed(context, override) as run:
        state = run.learner.optimizer.state_dict()
        assert state["param_groups"][0][name] == value
        assert all(map(torch.equal, moments, state["state"][0].values()))  # what it has learnt stays
    with resumed(context, "algorithm.n_epochs=9") as run:  # the new setting was saved with the configuration
        assert run.learner.optimizer.param_groups[0][name] == value


def test_what_a_callback_made_of_an_optimizer_stays_where_the_configuration_does(quick):
    """What is named at the resume is newer. A network in the loss without a rate of its own follows the schedule."""

    class Extra(Plugin):
        """Trains a network in the loss, and changes the algorithm's optimizer."""

        @hookimpl
        def build_modules(self, run):
            self.run, self.network = run, torch.nn.Linear(2, 2)
            return {"network": self.network}

        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            loss = yield
            return Loss(loss.total + self.network.weight.square().sum(), loss.metrics)

        @hookimpl
        def on_epoch_end(self, run, epoch):
            run.learner.optimizer.param_groups[0]["eps"] = 0.25

    def groups(run):
        return [each.param_groups[0] for each in (run.learner.optimizer, run.learner.plugins_optimizer)]

    falls = {"algorithm.lr_schedule": "linear", "algorithm.n_epochs": 4, "algorithm.lr": 0.01}
    context = quick("CartPole-v1", "a2c", falls, callbacks={"extra": Extra})
    context.train(2)
    assert {group["lr"] for group in groups(context.run)} == {0.01 * (1 - 3 / 8)}
    context.close()
    assembly = Assembly(overlay({("callback", "extra"): Extra}))
    with closing(saved_run.reopen(context.run_dir, ["algorithm.lr=0.5"], assembly=assembly)) as again:
        ours, plugins = groups(again)
        assert (ours["eps"], ours["lr"], plugins["lr"]) == (0.25, 0.5, 0.5)
