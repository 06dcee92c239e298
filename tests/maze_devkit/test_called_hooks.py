"""The kit calls every hook with which a callback changes data, in every kind of space, and finds what nobody calls."""

import pytest
from maze_devkit.kit import checks

from tests.maze_devkit.sources import ALGORITHM

REPLAYED = '''
"""A bonus on replayed transitions."""

import numpy as np
import torch
from maze_core import ConfigError, Plugin, hookimpl
from maze_core.models.inputs import FlatInput, input_spaces


class Count(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.register_buffer("seen", torch.zeros(()))


class Tested(Plugin):
    """Pay for what comes late."""

    seen = 0

    @hookimpl
    def build_modules(self, run):
        self.net = Count(FlatInput(input_spaces(run.observation_space, run.action_space)))
        return {"net": self.net}

    @hookimpl
    def change_transitions(self, run, batch):
        self.net.seen += 1
        batch.extra["reward"] += 0.1 * self.net.seen + 0.1 * self.net.layer(batch.obs).mean()
'''
ROLLOUTS = REPLAYED.replace("change_transitions(self, run, batch)", "change_rollout(self, run, rollout)").replace(
    'batch.extra["reward"] += 0.1 * self.net.seen + 0.1 * self.net.layer(batch.obs).mean()',
    "rollout.rewards += 0.1 * float(self.net.seen)",
)
ASKED = ("observes", "deterministic", "resumes", "spaces")
BY_ALL = ("sound", "sound rollouts")
"""About the others the check that is to catch them is asked alone."""
NET = "self.net = "
REFUSING = f'if not run.observation_space.shape:\n            raise ConfigError("no Box")\n        {NET}'
ADD = "self.net.seen += 1"
LOST = "self.seen += 1; self.net.seen += self.seen"
ACTIONS = 'rollout.actions["action"].size'
CASES = {
    "sound": (REPLAYED, "", "", []),
    "an unsaved counter": (REPLAYED, ADD, LOST, ["resumes"]),
    "a key that is not there": (REPLAYED, 'extra["reward"] +=', 'extra["rewards"] +=', ["observes"]),
    "a space without shape": (REPLAYED, NET, f"run.observation_space.shape[0]; {NET}", ["spaces"]),
    "the key of a single leaf": (REPLAYED, "self.net.layer(batch.obs)", 'batch.obs["observation"]', ["spaces"]),
    "actions of one kind": (REPLAYED, NET, f"run.action_space.n; {NET}", ["spaces"]),
    "one that refuses": (REPLAYED, NET, REFUSING, []),
    "a clock": (REPLAYED, "0.1 * self.net.seen +", "np.random.default_rng().random() +", ["deterministic"]),
    "sound rollouts": (ROLLOUTS, "", "", []),
    "a counter of rollouts": (ROLLOUTS, ADD, LOST, ["resumes"]),
    "actions of one leaf": (ROLLOUTS, ADD, f"self.net.seen += {ACTIONS}", ["spaces"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_planted_callback_is_found_and_a_sound_one_passes(publish, findings, case):
    source, old, new, caught = CASES[case]
    assert old in source
    source = source.replace(old, new, 1) if old else source
    asked = ASKED if case in BY_ALL else caught or ("spaces",)
    found = findings(*publish("callback", source), [each.name for each in checks("callback") if each.name not in asked])
    failed = [name for name in asked if found[name].state == "failed"]
    assert failed == caught, "\n".join(map(str, found.values()))


OBSERVER = '''
"""Counts leaves."""

from maze_core import Plugin, hookimpl


class Tested(Plugin):
    """Count leaves."""

    @hookimpl
    def HOOK:
        LINE
'''


@pytest.mark.parametrize(
    ("hook", "line", "failed"),
    [
        ("on_epoch_end(self, run)", "run.observation_space.shape[0]", ["spaces"]),
        ("on_run_start(self, run)", "self.n = run.action_space.n", ["spaces"]),
        ("on_metrics(self, run, metrics)", "return {'mine': metrics['eval/return_mean']}", []),
        ("on_epoch_end(self, run, epoch)", "epoch.metrics['mine'] = 1", ["observes"]),
        ("on_checkpoint(self, run)", "run.record({'mine': 1})", ["observes"]),
    ],
)
def test_observers_are_tried_too(publish, findings, hook, line, failed):
    source = OBSERVER.replace("HOOK", hook).replace("LINE", line)
    asked = failed or ("observes", "spaces")
    found = findings(*publish("callback", source), [each.name for each in checks("callback") if each.name not in asked])
    assert [name for name in asked if found[name].state == "failed"] == failed, "\n".join(map(str, found.values()))


BATCH = "        yield "
ALL = '("compute_loss", "wrap_agent", "build_planner", "change_rollout")'
WITHIN = "    def epoch_metrics(self):\n        self.run.evaluate_within_epoch({})\n        return {}\n"
CALLING = "        self.run.hooks.change_transitions(self.run, None)\n"
ANNOUNCING = 'self.run = run; run.hooks.announce("change_transitions")'
CONFIG = "    Config = Config\n"
ALGORITHMS = {
    "sound": ("", "", None),
    "declares": (CONFIG, f"    calls = {ALL}\n{CONFIG}", None),
    "declares too much": (CONFIG, f"    calls = (*{ALL}, 'change_transitions')\n{CONFIG}", "change_transitions"),
    "declares too little": (CONFIG, f"    calls = ()\n{CONFIG}", "compute_loss"),
    "announces nothing": (BATCH, CALLING + BATCH, "change_transitions"),
    "keeps its word never": ("self.run = run", ANNOUNCING, "change_transitions"),
    "evaluates unsaid": (CONFIG, f"    calls = {ALL}\n{WITHIN}{CONFIG}", "on_evaluation"),
}


@pytest.mark.parametrize("case", ALGORITHMS)
def test_what_an_algorithm_announces_is_what_it_calls(publish, findings, case):
    old, new, told = ALGORITHMS[case]
    assert old in ALGORITHM
    source = ALGORITHM.replace(old, new, 1) if old else ALGORITHM
    found = findings(*publish("algorithm", source), [each.name for each in checks("algorithm") if each.name != "calls"])
    assert found["calls"].state == ("passed" if told is None else "failed"), found["calls"]
    assert told is None or told in found["calls"].what
