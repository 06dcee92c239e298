"""The check `gradients`: what the optimizer has, and what the loss reaches."""

import pytest
from maze_devkit.kit import checks

from tests.maze_devkit.sources import ALGORITHM

OTHERS = [check.name for check in checks("algorithm") if check.name not in ("trains", "gradients")]
FROZEN = """    def build_optimizer(self, policy):
        from maze_core import Adam
        next(policy.parameters()).requires_grad_(False)
        return Adam([{"params": policy.parameters(), "lr": self.config.lr, "name": "all"}])

    def state(self):"""


@pytest.fixture
def trained(publish, findings):
    """`trained(source)`: what the checks `trains` and `gradients` find."""
    return lambda source: findings(*publish("algorithm", source), OTHERS)


def test_a_frozen_parameter_in_the_optimizer_needs_no_gradient(trained):
    found = trained(ALGORITHM.replace("    def state(self):", FROZEN))
    assert {name: finding.state for name, finding in found.items()} == dict.fromkeys(("trains", "gradients"), "passed")


CRITIC = """    def setup_loss(self, run):
        from torch import nn
        self.further = nn.Linear(2, 1)

    def modules(self):
        return {"further": self.further}

    def state(self):"""
OWN = """    def build_optimizer(self, policy):
        from maze_core import Adam
        return Adam(policy.parameters(), self.config.lr)

    def state(self):"""


@pytest.mark.parametrize(
    ("further", "check"), [(CRITIC, "gradients"), (CRITIC.replace("    def state(self):", OWN), "trains")]
)
def test_a_network_of_the_algorithm_that_nothing_trains(trained, further, check):
    finding = trained(ALGORITHM.replace("    def state(self):", further))[check]
    assert finding.state == "failed"
    assert "further.weight" in finding.what
