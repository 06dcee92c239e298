"""What proves nothing, hangs, is out of date or has another's name: packages of outsiders, and what the kit says."""

# ruff: noqa: E501 — a line is a plugin

import json

import pytest
from maze_devkit import kit, limits
from maze_devkit.kit import checks
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.plugins import discovery
from tests.maze_devkit.sources import ALGORITHM, CALLBACK, MODEL, SEARCHER, WRAPPER

BATCHES = "        yield rows\n"
NEEDY = ALGORITHM.replace("    needs_critic = True\n", "    needs_critic = True\n    supports_agents = True\n")
GAME = '''

import numpy as np
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round
from maze_devkit import Trial


class Duel(MultiAgentEnv):
    """Two agents act in turns."""

    agents = ("left", "right")

    def __init__(self):
        self.observation_spaces = dict.fromkeys(self.agents, spaces.Box(-9, 9, (2,), np.float32))
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(3))

    def reset(self, seed):
        self.rng, self.steps = np.random.default_rng(seed), 0
        return Round(self.turn())

    def step(self, actions):
        self.steps += 1
        rewards = {name: float(action) for name, action in actions.items()}
        if self.steps == 9:
            return Round({}, rewards, {name: self.see() for name in self.agents})
        return Round(self.turn(), rewards)

    def turn(self):
        return {self.agents[self.steps % 2]: self.see()}

    def see(self):
        return self.rng.normal(size=2).clip(-9, 9).astype(np.float32)
'''


@pytest.fixture
def checked(publish, findings):
    """`checked(kind, source, *names)`: the findings of these checks alone, by name."""

    def run(kind, source, *names):
        return findings(*publish(kind, source), [check.name for check in checks(kind) if check.name not in names])

    return run


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ("        yield from ()\n", "yields no batch"),
        ("        if len(rows) > 10**6:\n            yield rows\n", "yields no batch"),
        ("        import dataclasses\n        yield dataclasses.replace(rows, group='none')\n", "parameter group"),
    ],
)
def test_a_run_without_a_batch_proves_nothing(checked, instead, said):
    found = checked("algorithm", ALGORITHM.replace(BATCHES, instead), "trains", "deterministic", "resumes")
    assert found["trains"].state == "failed"
    assert said in found["trains"].what
    states = {found[name].state for name in ("deterministic", "resumes")}
    assert states == ({"failed"} if "no batch" in said else {"not applicable"}), found


def test_a_run_that_learns_by_itself_is_one(checked):
    own = "        for p in self.run.policy.parameters():\n            p.data += 0.1\n        yield from ()\n"
    assert checked("algorithm", ALGORITHM.replace(BATCHES, own), "trains")["trains"].state == "passed"


HANGS = {
    "in a loop": "        while True:\n            pass\n",
    "asleep": "        import time\n        time.sleep(100)\n",
    "and catches one interruption": (
        "        import time\n        try:\n            time.sleep(100)\n        except BaseException:\n"
        "            time.sleep(100)\n"
    ),
}


@pytest.mark.parametrize("how", HANGS)
def test_a_plugin_that_hangs_is_named_and_the_check_ends(checked, how):
    source = ALGORITHM.replace(BATCHES, HANGS[how] + BATCHES) + (
        "\n\ndef trial(case):\n    from maze_devkit import Trial\n\n    return Trial(seconds=0.8)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_AGAIN", 0.1)
        found = checked("algorithm", source, "trains", "gradients")
    assert found["trains"].state == "failed"
    assert "did not end within 1 second; it was in Tested.batches (tested_" in found["trains"].what
    assert max(each.seconds for each in found.values()) < 10


def test_a_trial_that_hangs_is_asked_once(checked):
    source = WRAPPER + "\n\ndef trial(case):\n    import time\n    time.sleep(100)\n"
    with pytest.MonkeyPatch.context() as patch:  # `publish` undoes the changes of the usual one
        patch.setattr(kit, "SECONDS", 0.5)
        found = checked("wrapper", source, "entry_point", "builds", "seeds", "truncation")
    assert "it was in trial (tested_" in found["entry_point"].what
    assert sum(each.seconds for each in found.values()) < 3


def test_a_process_that_cannot_be_interrupted_ends(capsys, monkeypatch):
    import time

    monkeypatch.setattr(limits, "GRACE", 0.0)
    ended = []
    with limits.ending_process("wrapper plugin 'stuck' of stuck 1.0", 0.05, ended.append):
        time.sleep(0.3)
    assert ended == [1]
    assert "wrapper plugin 'stuck' of stuck 1.0 hangs" in capsys.readouterr().err


def test_an_algorithm_for_several_agents_is_checked_on_such(checked):
    source = NEEDY.replace("supports_agents", "needs_agents")
    names = ("trains", "deterministic", "gradients", "truncation", "agents", "masks")
    found = checked("algorithm", source, *names)
    assert {name: each.state for name, each in found.items()} == dict.fromkeys(names, "passed"), found


@pytest.mark.slow
def test_an_algorithm_for_several_actors_passes_every_check(checked):
    source = NEEDY.replace("supports_agents = True", "supports_actors = True\n    needs_actors = True")
    found = checked("algorithm", source, *(check.name for check in checks("algorithm")))
    assert not [each for each in found.values() if each.state == "failed"], found


def test_agents_that_act_in_turns_alone_may_be_named(checked):
    trial = "\n\ndef trial(case):\n    return Trial(env=Duel)\n"
    source = NEEDY.replace("supports_agents", "needs_agents")
    source = source.replace(
        "    def setup(self, run):\n", "    def setup(self, run):\n        assert run.rows_of(1) == 2\n"
    )
    found = checked("algorithm", source + GAME + trial, "trains", "agents")
    assert {each.state for each in found.values()} == {"passed"}, found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "supports_agents = True",
            "supports_agents = False\n    def check_agents(self, agents): pass",
            "does not refuse",
        ),
        (BATCHES, "        if self.run.rows_of(1) == 1:\n            yield rows\n", "yields no batch"),
    ],
)
def test_what_is_wrong_with_several_agents_is_found(checked, old, new, said):
    found = checked("algorithm", NEEDY.replace(old, new), "agents")["agents"]
    assert (found.state, said in found.what) == ("failed", True), found


def test_the_trials_environment_reaches_callbacks(checked):
    used = CALLBACK.replace(
        "        score = epoch", "        assert tuple(run.observation_space.shape) == (3,)\n        score = epoch"
    )
    trial = (
        "\n\ndef trial(case):\n    import gymnasium\n    from maze_devkit import Trial\n\n"
        "    return Trial(env=lambda: gymnasium.make('Pendulum-v1'))\n"
    )
    assert checked("callback", used + trial, "observes")["observes"].state == "passed"


def test_a_callback_may_ask_for_several_agents(checked):
    used = CALLBACK.replace("        score = epoch", "        assert run.rows_of(1) == 2\n        score = epoch")
    source = used + GAME + "\n\ndef trial(case):\n    return Trial(env=Duel)\n"
    assert checked("callback", source, "observes")["observes"].state == "passed"


TAKES_ROWS = "advantage_rows(self.run.policy, rollout,"
MAKES = "(self, config, seed, index):\n"


@pytest.mark.parametrize(
    ("kind", "source", "old", "new", "check", "said"),
    [
        ("algorithm", ALGORITHM, "rows, metrics = ", "rows, metrics = self.no() or ", "trains", "in Tested.batches (tested_"),
        ("algorithm", ALGORITHM, TAKES_ROWS, TAKES_ROWS.replace("rollout", "1"), "trains", "in Tested.batches (tested_"),
        ("wrapper", WRAPPER, MAKES, MAKES + "        1 / 0\n", "makes", "in Tested.make_env (tested_"),
        ("algorithm", ALGORITHM, "    def batches(self):", "    def batchez(self):", "builds", "Tested (tested_"),
        ("model", MODEL, "action_space, config, lambda", "action_space, 1, lambda", "spaces", "in Tested.build_policy (tested_"),
        ("algorithm", NEEDY, BATCHES, "        if self.run.rows_of(1) == 2: 1 / 0\n" + BATCHES, "agents", "in Tested.batches (tested_"),
        ("algorithm", ALGORITHM, BATCHES, "        if 'inner/mode' in rows.obs: 1 / 0\n" + BATCHES, "spaces", "tested_"),
    ],
)  # fmt: skip
def test_the_plugin_is_blamed(checked, kind, source, old, new, check, said):
    assert old in source
    found = checked(kind, source.replace(old, new), check)[check]
    assert (found.state, said in found.what) == ("failed", True), found
    assert "line " in found.what


@pytest.mark.parametrize(
    ("name", "distribution", "said"),
    [
        ("ppo", None, "'ppo' is claimed by maze-ppo"),
        ("dreamer", "maze-ppo", "the distribution maze-ppo comes with Maze and has no wrapper 'dreamer'"),
        ("gray", None, "is claimed by"),
    ],
)
def test_another_ones_name_is_told(publish, checked, monkeypatch, name, distribution, said):
    from dataclasses import replace

    from maze_devkit.findings import Failed
    from maze_devkit.general import _entry_point
    from maze_devkit.kit import find
    from maze_devkit.subject import Subject

    kind, _ = publish("wrapper" if name != "ppo" else "algorithm", WRAPPER, name=name)
    claim = next(each for each in discovery.declarations() if each.name == name and "tested" in each.distribution)
    if distribution:
        claim = replace(find(kind, name), distribution=distribution)
    with pytest.raises(Failed, match=said):
        _entry_point(Subject(claim, None))


@pytest.mark.parametrize(
    ("kind", "name", "distribution", "module", "said"),
    [
        ("algorithm", "mine", "maze-mine", "maze_sac.mine", "its package maze_sac has the name"),
        ("algorithm", "sac", "maze-mine", "maze_mine", "is the name of a plugin that comes with Maze, in maze-sac"),
        ("algorithm", "mine", "maze-sac", "maze_sac.mine", "comes with Maze and has no algorithm 'mine'"),
        ("algorithm", "sac", "maze-sac", "maze_sac.sac", ""),
        ("algorithm", "mine", "maze-mine", "maze_mine", ""),
    ],
)
def test_what_hides_a_bundled_plugin(kind, name, distribution, module, said):
    from maze_devkit.general import shadowed

    found = shadowed(kind, name, distribution, module)
    assert said in found
    assert bool(found) is bool(said)


def test_a_distribution_is_checked_with_all_that_it_has(publish):
    kind, name = publish("searcher", SEARCHER)
    claim = next(each for each in discovery.declarations() if (each.kind, each.name) == (kind, name))
    result = CliRunner().invoke(app, ["plugins", "check", claim.distribution.upper(), "--json"])
    assert [(each["kind"], each["name"]) for each in json.loads(result.output)] == [(kind, name)]
    refused = CliRunner().invoke(app, ["plugins", "check", claim.distribution, "--kind", "model"])
    assert refused.exit_code == 2


ASKS = "    def ask(self, number):\n"
ONE_BY_ONE = SEARCHER.replace(
    ASKS,
    "    def tell(self, number, point, value):\n        self.told = max(getattr(self, 'told', 0), number + 1)\n\n"
    + ASKS
    + "        if number > getattr(self, 'told', 0):\n            return Wait()\n",
).replace("import Searcher\n", "import Searcher, Wait\n")


def test_a_searcher_that_needs_values_first_passes(checked):
    found = checked("searcher", ONE_BY_ONE, "proposes", "repeats", "goes_on")
    assert {each.state for each in found.values()} == {"passed"}, found


@pytest.mark.parametrize(
    ("old", "new", "check", "said"),
    [
        ("number > getattr(self, 'told', 0)", "number > 1", "proposes", "waits at trial 2, although it was told"),
        ("number > getattr(self, 'told', 0)", "True", "goes_on", "waits at trial 0"),
        ("return Wait()", "time.sleep(100)", "goes_on", "did not end within 1 second; it was in Tested.ask (tested_"),
        ("return Wait()", "pass\n        random.seed(1)", "global_state", "Python's random state"),
    ],
)
def test_a_searcher_that_waits_for_nothing_blocks_or_seeds_is_named(checked, old, new, check, said):
    trial = "\n\ndef trial(case):\n    from maze_devkit import Trial\n\n    return Trial(seconds=0.6)\n"
    source = ONE_BY_ONE.replace(old, new).replace(
        "from random import Random", "import random, time\nfrom random import Random"
    )
    found = checked("searcher", source + trial, check)[check]
    assert (found.state, said in found.what) == ("failed", True), found
