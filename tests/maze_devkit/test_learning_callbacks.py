"""The checks of callbacks that take part in learning: what they carry must be repeated and resumed."""

import pytest
from maze_devkit.kit import checks

CURIOSITY = '''
"""Curiosity."""

import torch
from maze_core import Plugin, hookimpl
from maze_core.base.seeding import Purpose, generator


class Net(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = torch.nn.Linear(size, size)
        self.register_buffer("mean", torch.zeros(()))


class Tested(Plugin):
    """Pay what is unlike the mean."""

    @hookimpl
    def build_modules(self, run):
        self.net = Net(run.observation_space.shape[0])
        return {"net": self.net}

    @hookimpl
    def change_rollout(self, run, rollout):
        obs = torch.from_numpy(rollout.obs["observation"]).float()
        self.net.mean.lerp_(obs.mean(), 0.5)
        chance = generator(run.seed, Purpose.PLUGIN, 5, run.updates).random()
        rollout.rewards += float(self.net.mean) * chance

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        loss = yield
        obs = batch.obs["observation"].float()
        return loss.plus("net", (self.net.layer(obs) - obs).square().mean())
'''
ASKED = ("deterministic", "resumes", "observes")
OTHERS = [check.name for check in checks("callback") if check.name not in ASKED]
ATTRIBUTE = ('self.register_buffer("mean", torch.zeros(()))', "self.mean = torch.zeros(())")


@pytest.mark.parametrize(
    ("old", "new", "caught"),
    [
        ("", "", []),
        (*ATTRIBUTE, ["resumes"]),
        ('return {"net": self.net}', "return None", ["resumes"]),
        ("generator(run.seed, Purpose.PLUGIN, 5, run.updates)", "__import__('random')", ["deterministic"]),
    ],
    ids=["sound", "a plain attribute", "a network that nobody knows", "a clock"],
)
def test_what_a_callback_carries_is_resumed(publish, findings, old, new, caught):
    assert old in CURIOSITY
    found = findings(*publish("callback", CURIOSITY.replace(old, new, 1) if old else CURIOSITY), OTHERS)
    failed = [name for name in ASKED if found[name].state == "failed"]
    assert failed == caught, "\n".join(map(str, found.values()))


def test_a_callback_that_only_observes_is_not_asked(publish, findings):
    from tests.maze_devkit.sources import CALLBACK

    found = findings(*publish("callback", CALLBACK), OTHERS)
    assert {name: finding.state for name, finding in found.items()} == {
        "observes": "passed",
        "deterministic": "not applicable",
        "resumes": "not applicable",
    }
