"""Each plugin that is broken in one place is caught by the check for that, and by no other where others are asked."""

# ruff: noqa: E501 — a line is a plugin

import pytest
from maze_devkit import elsewhere, learning, runs
from maze_devkit.kit import checks

from maze_core.plugins import manager
from maze_core.plugins.manager import Hooks
from tests.maze_devkit.sources import ALGORITHM, SOUND

ENVIRON = 'import os; os.environ["MAZE_TEST_LEFT_BEHIND"] = "1"'

COLLECTOR = "        self.collector = RolloutCollector(run, self.config.n_rollout_steps)\n"
ENDS_TAKEN_FOR_LIMITS = """
        import dataclasses
        sink, collect = self.collector._sampler._sink, self.collector.collect
        add = sink._add_cut
        sink._add_cut = lambda result: add(dataclasses.replace(result, truncated=result.truncated | True))

        def changed():
            rollout = collect()
            rollout.truncated |= rollout.terminated
            rollout.terminated[:] = False
            return rollout

        self.collector.collect = changed
"""
COUNTING = """counted, run = globals().setdefault("COUNTED", {}), self.run.run_dir
        counted[run] = 1 + counted.get(run, 0)
        policy_loss = policy_loss / counted[run]
"""

# kind, the check that is to catch it, what is replaced, by what
BROKEN = [
    ("wrapper", "docstring", '    """Halve observations."""\n', ""),
    ("wrapper", "loads", "import gymnasium\n", "import gymnasium, a_module_that_is_not_there\n"),
    ("wrapper", "loads", "class Tested(Plugin):", "class Tested:\n    pass\n\n\nclass Other(Plugin):"),
    ("wrapper", "import", "import gymnasium\n", "import gymnasium, matplotlib\n"),
    ("wrapper", "import", "import gymnasium\n", "import gymnasium, torch\n"),
    ("wrapper", "import", "import gymnasium\n", "import gymnasium, random\nrandom.seed(1)\n"),
    ("wrapper", "import", "import gymnasium\n", "import gymnasium\nsum(range(10**8))\n"),
    ("wrapper", "promised_imports", "import gymnasium\n", "import gymnasium\nfrom maze_core.envs import spaces\nfrom maze_core.base import plain_json\n"),
    ("algorithm", "promised_imports", "from maze_core.plugins.config import params\n", "from maze_core.plugins.config import params\nfrom maze_core.run.loop import Outcome\n"),
    ("wrapper", "config_described", '    """What is multiplied."""\n', ""),
    ("wrapper", "outside_marked", "    scale: float", '    log_dir: str = "logs"\n    """Where it logs."""\n    scale: float'),
    ("wrapper", "outside_marked", "    scale: float", '    options: dict = {}\n    """Any."""\n    scale: float'),
    ("wrapper", "config_frozen", "    scale: float", "    model_config = ConfigDict(frozen=False)\n    scale: float"),
    ("wrapper", "config_closed", "    scale: float", '    model_config = ConfigDict(extra="ignore")\n    scale: float'),
    ("wrapper", "config_round_trip", '    """What is multiplied."""\n',
     '    """What is multiplied."""\n    @field_serializer("scale")\n    def shown(self, value): return round(value)\n'),
    ("wrapper", "builds", "scale: float = 0.25", "scale: float"),
    ("wrapper", "builds", "    Config = Config\n",
     "    Config = Config\n    def __init__(self, config): raise ValueError('no')\n"),
    ("wrapper", "hooks", "(self, config, seed, index)", "(self, config, sead)"),
    ("wrapper", "hooks", "wrapper=True", "hookwrapper=True"),
    ("wrapper", "hooks", "    @hookimpl(wrapper=True)\n", ""),
    ("wrapper", "hooks", "env = yield\n        return Halved(env)", "return None"),
    ("wrapper", "hooks", "def make_env", "def make_enf"),
    ("wrapper", "makes", "        return Halved(env)", "        Halved(env)"),
    ("wrapper", "makes", "return Halved(env)", "yield env\n        return Halved(env)"),
    ("wrapper", "makes", "return Halved(env)", "return Halved(gymnasium.make('CartPole-v1'))"),
    ("wrapper", "gymnasium", "return self.observation(observation), info", "return self.observation(observation), None"),
    ("wrapper", "seeds", "info = self.env.step(action)\n",
     "info = self.env.step(action)\n        import secrets\n"
     "        reward += secrets.randbelow(9) * (self.steps > 3)\n"),
    ("wrapper", "honesty", "return observation / 2", "return observation / 2 if self.steps < 9 else observation.astype(float) / 2"),
    ("wrapper", "honesty", "info = self.env.step(action)\n",
     "info = self.env.step(action)\n        reward = reward if self.steps < 9 else float('nan')\n"),
    ("wrapper", "truncation", "reward, terminated, truncated, info\n\n\n", "reward, terminated or truncated, False, info\n\n\n"),
    ("wrapper", "truncation", "reward, terminated, truncated, info\n\n\n", "reward, False, terminated or truncated, info\n\n\n"),
    ("wrapper", "truncation", "reward, terminated, truncated, info\n\n\n", "reward, terminated, False, info\n\n\n"),
    ("wrapper", "final_observation", "return self.observation(observation), reward",
     "return observation if truncated else self.observation(observation), reward"),
    ("wrapper", "replay", "info = self.env.step(action)\n",
     "info = self.env.step(action)\n        self.all = getattr(self, 'all', None) or __import__('itertools').count(1)\n"
     "        reward += next(self.all) > 15\n"),
    ("wrapper", "altered_states", "    def step(self, action):\n",
     "    best = None\n\n    def state(self): return {'best': self.best}\n\n    def load_state(self, state): self.best = state['best']\n\n"
     "    def step(self, action):\n        self.best = max(self.best or 0.0, 0.0)\n"),
    ("algorithm", "altered_states", 'return {"collector": self.collector.state()}\n\n    def load_state(self, state):\n',
     'return {"collector": self.collector.state(), "scale": getattr(self, "scale", None)}\n\n'
     '    def epoch_metrics(self):\n        return {"scale": float(getattr(self, "scale", None) or 0)}\n\n'
     '    def load_state(self, state):\n        self.scale = state["scale"]\n'),
    ("wrapper", "global_state", "self.steps += 1", f"self.steps += 1; {ENVIRON}"),
    ("wrapper", "global_state", "self.steps += 1", "self.steps += 1; import random; random.random()"),
    ("env", "makes", "spaces.Discrete(3)", "spaces.Sequence(spaces.Discrete(3))"),
    ("env", "gymnasium", "(self, *, seed=None, options=None)", "(self, *, seed=None)"),
    ("env", "seeds", "self.steps += 1", "self.steps += 1; import secrets; self.at += (self.steps > 3) * secrets.randbelow(3)"),
    ("env", "chance", "self.np_random", "np.random.default_rng(5)"),
    ("env", "honesty", "np.clip(self.at, -50, 50), 0", "101 if self.steps > 20 else 0.1 * self.at, 0"),
    ("env", "honesty", "bool(self.np_random.random() < 0.05)", "int(self.np_random.random() < 0.05)"),
    ("env", "replay", "self.steps += 1",
     "self.steps += 1\n        self.all = getattr(self, 'all', 0) + 1\n        self.at += self.all > 15"),
    ("env", "time_limit", "over, self.steps >= 40", "self.steps >= 40, False"),
    ("env", "global_state", "self.steps += 1", f"self.steps += 1; {ENVIRON}"),
    ("algorithm", "trains", "return Loss(policy_loss", "policy_loss = policy_loss * (value - value).log().sum()\n        return Loss(policy_loss"),
    ("algorithm", "deterministic", "return Loss(policy_loss", "import secrets\n        return Loss((1 + secrets.randbelow(10**6) / 10**9) * policy_loss"),
    ("algorithm", "resumes", 'return {"collector": self.collector.state()}', "return {}"),
    ("algorithm", "resumes", "return Loss(policy_loss", COUNTING + "        return Loss(policy_loss"),
    ("algorithm", "forks", "def load_state(self, state):\n",
     'def load_state(self, state):\n        (self.run.run_dir / "checkpoints" / "previous").resolve(strict=True)\n'),
    ("algorithm", "gradients", "policy_loss + 0.5 * value_loss", "policy_loss"),
    ("algorithm", "gradients", "    def state(self):",
     "    def build_optimizer(self, policy):\n        import torch\n"
     "        return torch.optim.Adam([p for n, p in policy.named_parameters() if 'bias' not in n], self.config.lr)\n\n"
     "    def state(self):"),
    ("algorithm", "spaces", "return Loss(policy_loss", 'policy_loss = policy_loss + 0 * batch.actions["action"].sum()\n        return Loss(policy_loss'),
    ("algorithm", "spaces", '    """A policy gradient."""\n', '    """A policy gradient."""\n\n    from gymnasium import spaces\n    action_spaces = (spaces.Discrete, spaces.Box)\n    def check_action_space(self, space): pass\n'),
    ("algorithm", "truncation", "rows, metrics = ", "rollout.terminated |= rollout.truncated\n        rollout.truncations.clear()\n        rows, metrics = "),
    ("algorithm", "truncation", COLLECTOR, COLLECTOR + ENDS_TAKEN_FOR_LIMITS),
    ("algorithm", "learns", "policy_loss + 0.5", "-policy_loss + 0.5"),
    ("algorithm", "host_synchronisation", "policy_loss.detach()}", "policy_loss.detach() + 0 * value_loss.item()}"),
    ("algorithm", "host_synchronisation", "return Loss(policy_loss", "assert value_loss >= 0\n        return Loss(policy_loss"),
    ("algorithm", "global_state", "self.run = run", f"self.run = run; {ENVIRON}"),
    ("algorithm", "global_state", "self.run = run", "self.run = run; import numpy; numpy.random.seed(1)"),
    ("model", "spaces", "leaves = input", "from gymnasium import spaces\n        if isinstance(action_space, spaces.MultiBinary): raise ConfigError('no')\n        leaves = input"),
    ("model", "interface", "return policy\n", "value = policy.value\n        policy.value = lambda obs: value(obs)[:, None]\n        return policy\n"),
    ("model", "gradients", "self.first = nn", "self.unused = nn.Linear(2, 2)\n        self.first = nn"),
    ("model", "deterministic", "return policy\n", "import secrets\n        policy.value_head.bias.data.fill_(secrets.randbelow(10**6))\n        return policy\n"),
    ("model", "global_state", "leaves = input", f"{ENVIRON}\n        leaves = input"),
    ("memory", "state", "self.out_features)}", "self.out_features + 1)}"),
    ("memory", "state", "average = 0.5 *", "state['average'] += 1\n        average = 0.5 *"),
    ("memory", "sequences", "    def step", "    def after(self, features, sequences, state):\n        return self.step(features, {'average': features.new_zeros(1)})[0], state\n\n    def step"),
    ("memory", "forgets", "average = 0.5 *", "self.kept = getattr(self, 'kept', 0) + 0.1\n        average = self.kept *"),
    ("memory", "rows", "self.input(features)", "(self.input(features) - self.input(features).mean(0))"),
    ("memory", "gradients", 'state["average"] +', 'state["average"].detach() +'),
    ("memory", "gradients", "self.input = nn", "self.unused = nn.Linear(2, 2)\n        self.input = nn"),
    ("memory", "populations", "average = 0.5 *", "assert float(features.sum()) < 1e9\n        average = 0.5 *"),
    ("memory", "deterministic", "self.input = nn.Linear(in_features, config.size)", "self.input = nn.Linear(in_features, config.size)\n        import secrets\n        self.input.bias.data.fill_(secrets.randbelow(10**6) / 10**6)"),
    ("memory", "global_state", "self.out_features = config", f"{ENVIRON}\n        self.out_features = config"),
    ("runner", "default-workers", "return 2", "return 0"),
    ("runner", "environments", "self.inner.reset(seeds, out)", "self.inner.reset(replace(seeds, seed=seeds.seed + 1), out)"),
    ("runner", "failures", "self.result = self.inner.step(actions, out)", "\n        try: self.result = self.inner.step(actions, out)\n        except RunError: pass"),
    ("runner", "workers", "super().share(arrays)", "super().share({name: array + 1 for name, array in arrays.items()})"),
    ("runner", "worker_failures", "return super().collect(timeout)", "\n        try: return super().collect(timeout)\n        except RunError: return None"),
    ("runner", "global_state", "self.inner = inner", f"self.inner = inner; {ENVIRON}"),
    ("callback", "observes", "score = epoch.metrics.get(", "score = epoch.matrix.get("),
    ("callback", "never_stops_a_run", "score = ", 'if "eval/return_mean" not in epoch.metrics: raise RunError("no")\n        score = '),
    ("callback", "never_stops_a_run", "score = ", 'if not epoch.metrics["eval/return_mean"] > -1e9: raise SystemExit("no")\n        score = '),
    ("callback", "never_stops_a_run", "        with (run", "        try: run.run_dir.resolve(strict=True)\n        except OSError: raise RunError('no')\n        with (run"),
    ("callback", "writes_in_the_run_directory", "run.run_dir / ", "Path() / "),
    ("callback", "global_state", "score = ", "import numpy; numpy.random.seed(1)\n        score = "),
    ("policy", "acts", '{"action": action}', '{"action": action + 2}'),
    ("policy", "repeats", "rng.integers(2) for rng in rngs", "__import__('secrets').randbelow(2) for _ in rngs"),
    ("policy", "rows", "rng.integers(2) for rng in rngs", "rngs[0].integers(2) for _ in rngs"),
    ("policy", "global_state", "chance = ", f"{ENVIRON}\n        chance = "),
    ("searcher", "proposes", "dimension.at(generator.random())", "dimension.low - 1"),
    ("searcher", "repeats", "generator = Random(seed)", "generator = Random()"),
    ("searcher", "goes_on", "    def ask(self, number):\n", "    told = 0\n\n    def tell(self, *_): self.told += 1\n\n    def ask(self, number):\n        number += 100 * self.told\n"),
    ("searcher", "global_state", "self.search = search", f"self.search = search; {ENVIRON}"),
    ("teacher", "loads", "(Teacher)", "(__import__('maze_core').Plugin)"),
    ("teacher", "chooses", "for _ in range(count)", "for _ in range(count - 1)"),
    ("teacher", "chooses", "return dict(self.first) if", "return {**self.first, 'more': 1} if"),
    ("teacher", "repeats", "self.space.sample(self.rng)", "self.space.sample(__import__('numpy').random.default_rng())"),
    ("teacher", "goes_on", 'self.drawn = state["drawn"]', "pass"),
    ("teacher", "goes_on", "varies(self.drawn, Count())", "varies(self.drawn, Count()), 'more': [0, *[1] * self.drawn]"),
    ("teacher", "altered_states", "varies(self.drawn, Count())", "varies(self.drawn, OrNone(Count()))"),
    ("teacher", "global_state", "self.drawn += 1", f"self.drawn += 1; {ENVIRON}"),
    ("command", "loads", "def Tested(", "Tested = 1\ndef other("),
    ("command", "docstring", '    """Repeat a word."""\n', ""),
    ("command", "import", "import typer\n", "import typer, torch\n"),
    ("command", "help", "import typer\n", "import typer\nopen('left', 'w').close()\n"),
    ("command", "refuses", "import typer\n",
     "import atexit, os, sys, typer\n'--no-such-option' in sys.argv and atexit.register(os._exit, 0)\n"),
    ("command", "options_described", 'typer.Option(help="How often.")', "typer.Option()"),
]  # fmt: skip

INAPPLICABLE = dict.fromkeys(SOUND, ("hooks", "vector_env")) | {
    "algorithm": ("compiles", "hooks", "vector_env", "row_weights"),
    "callback": ("hooks", "deterministic", "resumes"),
    "wrapper": ("hooks", "vector_env", "altered_states"),
    "command": (
        "config_described",
        "config_frozen",
        "config_closed",
        "config_round_trip",
        "builds",
        "hooks",
        "outside_marked",
    ),
}
"""Checks that say nothing about the sound plugin of a kind."""


ABILITIES = ("memory", "masks", "actors", "agents", "learners", "tensors", "critic_leaves", "row_weights", "compiles")
"""Checks with tests and broken algorithms of their own."""


LONGEST = ("altered_states", "calls", "learns")
"""Half of the time that an algorithm takes: they are asked of sound plugins, and of those that are broken for them."""


def failed(found):
    return {name: finding for name, finding in found.items() if finding.state == "failed"}


@pytest.fixture
def resumed_here(monkeypatch):
    """Runs that are reopened in this process: a new one takes seconds."""

    def resume(subject, folder, epochs):
        return runs.resume(subject, runs.walk(subject), folder, epochs)

    return lambda: monkeypatch.setattr(elsewhere, "resume", resume)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_plugin_passes_every_check(kind, publish, findings):
    found = findings(*publish(kind, SOUND[kind]))
    assert not failed(found), "\n".join(map(str, found.values()))
    assert all(finding.state == "passed" for name, finding in found.items() if name not in INAPPLICABLE[kind])


TRAINING = ("algorithm", "callback", "model")
"""Most of their checks train: in the fast tests a broken one is asked by its own check alone."""
EVERY_OTHER = {check: not place % 2 for place, check in enumerate(dict.fromkeys(check for _, check, *_ in BROKEN))}


def marks_of(number):
    """The first pass tries each check on one broken plugin; the slow tests try the others."""
    return pytest.mark.slow if BROKEN[number][1] in {check for _, check, *_ in BROKEN[:number]} else ()


def unasked(number, slow):
    """The checks that are not asked of a broken plugin.

    The first pass tries the first of each check: every other one that trains nothing is asked by all but the longest.
    Of those that the slow tests try, every third is asked by all. The rest is asked by its own check alone.
    """
    kind, check, *_ = BROKEN[number]
    if slow and number % 3 == 0:
        return (*ABILITIES, *(each for each in LONGEST if each != check))
    if not slow and EVERY_OTHER[check] and kind not in TRAINING and check not in LONGEST:
        return (*ABILITIES, *LONGEST)
    return tuple(each.name for each in checks(kind) if each.name != check)


@pytest.mark.parametrize(
    ("kind", "check", "old", "new"),
    [pytest.param(*case, id=f"{case[0]}-{case[1]}-{i}", marks=marks_of(i)) for i, case in enumerate(BROKEN)],
)
def test_a_broken_plugin_is_caught_by_the_check_for_it_alone(
    kind, check, old, new, publish, findings, resumed_here, request, monkeypatch
):
    assert old in SOUND[kind]
    plugin = publish(kind, SOUND[kind].replace(old, new))
    if check != "resumes":
        resumed_here()
    if check == "learns":  # it never would
        monkeypatch.setattr(learning, "EPOCHS", 4)
    left_out = unasked(BROKEN.index((kind, check, old, new)), bool(request.node.get_closest_marker("slow")))
    found = findings(*plugin, left_out)
    assert list(failed(found)) == [check], "\n".join(map(str, failed(found).values())) or "nothing failed"
    finding = found[check]
    assert finding.what
    assert finding.why
    assert finding.mend


def test_only_a_new_process_shows_what_a_module_remembers(publish, findings, resumed_here):
    plugin = publish(
        "algorithm", ALGORITHM.replace("return Loss(policy_loss", f"{COUNTING}        return Loss(policy_loss")
    )
    resumed_here()
    others = [each.name for each in checks("algorithm") if each.name not in ("deterministic", "resumes")]
    assert not failed(findings(*plugin, others))


def test_a_name_that_nobody_can_type(publish, findings):
    assert list(failed(findings(*publish("wrapper", SOUND["wrapper"], name="Tested!")))) == ["entry_point"]


@pytest.mark.parametrize("requires", ["maze-core>=0.1", "maze-core<0.2", "maze-core>=7,<8", "numpy"])
def test_a_dependency_on_any_core_or_another_one(requires, publish, findings):
    plugin = publish("wrapper", SOUND["wrapper"], requires=requires)
    others = () if requires == "numpy" else [each.name for each in checks("wrapper") if each.name != "core_version"]
    assert list(failed(findings(*plugin, others))) == ["core_version"]


@pytest.mark.parametrize(
    ("requires", "missing"), [("", True), ('maze-offpolicy; extra == "more"', True), ("maze_OffPolicy>=0.1", False)]
)
def test_a_library_is_asked_for(requires, missing, publish, findings):
    asked = f"maze-core>=0.1,<0.2\nRequires-Dist: {requires}" if requires else "maze-core>=0.1,<0.2"
    plugin = publish("wrapper", SOUND["wrapper"] + "\nimport maze_offpolicy\n", requires=asked)
    assert list(failed(findings(*plugin))) == ["libraries"] * missing


OTHERS_OF_CALLBACKS = [each.name for each in checks("callback") if each.name != "never_stops_a_run"]


def test_a_core_that_lets_errors_of_callbacks_through_is_caught(publish, findings, monkeypatch):
    def notify(self, hook, take=None, /, **arguments):
        getattr(self._manager.hook, hook)(**arguments)

    plugin = publish("callback", SOUND["callback"])
    monkeypatch.setattr(Hooks, "_notify", notify)
    found = findings(*plugin, OTHERS_OF_CALLBACKS)
    assert list(failed(found)) == ["never_stops_a_run"]
    assert "end the run with NotADirectoryError" in found["never_stops_a_run"].what


def test_a_core_that_leaves_a_callback_out_without_a_word_is_caught(publish, findings, monkeypatch):
    plugin = publish("callback", SOUND["callback"])
    monkeypatch.setattr(manager, "to_stderr", lambda message: None)
    found = findings(*plugin, OTHERS_OF_CALLBACKS)
    assert list(failed(found)) == ["never_stops_a_run"]
    assert "shows no warnings" in found["never_stops_a_run"].what
