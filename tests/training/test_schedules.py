"""Numbers that change while a run trains: from the configuration to the loss, by every way that a step is taken."""

import itertools
import math
import re
from contextlib import ExitStack

import gymnasium
import pytest
import torch
import yaml
from maze_compile import compiled
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import ConfigError, RunError
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.schedules import Cosine, Linear, Moment, Schedule, Steps, takes_schedule
from maze_core.run.context import RunContext
from tests.interpreted import interpreted as interpreted
from tests.recorded import record as record

CART, PENDULUM = "CartPole-v1", "Pendulum-v1"
REPLAY = {
    "algorithm.initial_buffer_size": 40,
    "algorithm.batch_size": 16,
    "algorithm.critic_hidden": [8, 8],
    "algorithm.epoch_length": 8,
    "evaluation.n_episodes": 0,
}
VALUES = {**REPLAY, "algorithm.epsilon": 0.5, "algorithm.target_update_interval": 1, "algorithm.tau": 0.5}
VALUES = {name: value for name, value in VALUES.items() if "critic" not in name}
BATCHES = {name: value for name, value in REPLAY.items() if "critic" not in name}
DATA = {"algorithm.batch_size": 16, "algorithm.epoch_length": 8, "evaluation.n_episodes": 0}
ROLLOUTS = {"algorithm.epoch_length": 4, "algorithm.batch_size": 8, "evaluation.n_episodes": 0}
ACTORS = {"algorithm.epoch_length": 8, "algorithm.num_actors": 4, "evaluation.n_episodes": 0}
CRITICS = {"algorithm.critic_hidden": [8, 8]}
RUNS = {
    "a2c": (CART, {"algorithm.epoch_length": 4, "evaluation.n_episodes": 0}),
    "airl": (CART, {**ROLLOUTS, "algorithm.num_envs": 2}),
    "apex": (CART, {**VALUES, "algorithm.num_actors": 2, "algorithm.prioritized": True}),
    "appo": (CART, ACTORS),
    "bc": (CART, {**DATA, "algorithm.validation_percentage": 40.0}),
    "cql": (PENDULUM, {**DATA, **CRITICS, "algorithm.sampled_actions": 2}),
    "ddpg": (PENDULUM, REPLAY),
    "dqn": (CART, {**VALUES, "algorithm.prioritized": True}),
    "dt": (CART, {**DATA, "algorithm.size": 8, "algorithm.context": 4}),
    "es": (CART, {"algorithm.epoch_length": 4, "algorithm.n_rollouts_per_update": 4, "evaluation.n_episodes": 0}),
    "fast_td3": (PENDULUM, {**REPLAY, "algorithm.atoms": 5, "algorithm.utd": 1.0}),
    "flash_sac": (PENDULUM, {**BATCHES, "algorithm.atoms": 5, "algorithm.utd": 1.0, "algorithm.policy_width": 8,
                             "algorithm.policy_blocks": 1, "algorithm.critic_width": 8, "algorithm.critic_blocks": 1}),
    "gail": (CART, {**ROLLOUTS, "algorithm.num_envs": 2}),
    "impala": (CART, ACTORS),
    "iql": (PENDULUM, {**DATA, **CRITICS}),
    "maml": (CART, {"algorithm.epoch_length": 2, "algorithm.tasks": {}, "algorithm.tasks_per_update": 2,
                    "algorithm.rollouts_per_task": 2}),
    "pg": (CART, {"algorithm.epoch_length": 4, "evaluation.n_episodes": 0}),
    "ppo": (CART, {**ROLLOUTS, "algorithm.n_optimization_epochs": 3}),
    "pqn": (CART, {"algorithm.epoch_length": 4, "algorithm.num_envs": 2, "algorithm.batch_size": 8}),
    "sac": (PENDULUM, REPLAY),
    "td3": (PENDULUM, REPLAY),
    "td3_bc": (PENDULUM, {**DATA, **CRITICS}),
    "trpo": (CART, {**ROLLOUTS, "algorithm.num_envs": 2}),
}  # fmt: skip
RECORDED = ("airl", "bc", "cql", "dt", "gail", "iql", "td3_bc")
NUMBERS = {
    "clip_range": (0.2, 1e-4),
    "value_clip_range": (10.0, 1e-4),
    "target_kl": (1e6, 1e-12),
    "entropy_coef": (0.01, 0.5),
    "gamma": (0.99, 0.5),
    "gae_lambda": (0.95, 0.1),
    "n_step": (1, 3),
    "ratio_bound": (2.0, 1.0),
    "target_noise": (0.2, 0.5),
    "target_noise_clip": (0.5, 0.01),
    "critic_lr": (1e-3, 1e-2),
    "lagrange_gap": (5.0, 0.1),
    "beta": (3.0, 0.1),
    "max_weight": (100.0, 0.5),
    "inner_lr": (0.1, 1.0),
}
"""Two numbers of a parameter, of which the second makes a difference in so short a run."""
BESIDE = {
    ("sac", "entropy_coef"): {"algorithm.entropy_tuning": False},
    ("ddpg", "target_noise_clip"): {"algorithm.target_noise": 0.2},
    ("fast_td3", "target_noise_clip"): {"algorithm.target_noise": 0.2},
    ("cql", "alpha"): {},
}
"""What must be set for a parameter to count."""


def schedulable(algorithm):
    fields = discovery.load("algorithm", algorithm).Config.model_fields.items()
    return [name for name, field in fields if takes_schedule(field)]


def inherited(algorithm):
    """What an algorithm of which this one is a kind takes schedules for: they take effect in the same code."""
    kinds = {each: discovery.load("algorithm", each) for each in RUNS}
    below = [each for each in RUNS if each != algorithm and issubclass(kinds[algorithm], kinds[each])]
    return {name for each in below for name in schedulable(each)}


CASES = [(algorithm, name) for algorithm in RUNS for name in schedulable(algorithm) if name not in inherited(algorithm)]
FAST = {("ppo", "clip_range"), ("a2c", "lr"), ("td3", "exploration_noise"), ("dqn", "epsilon"), ("sac", "entropy_coef")}


def numbers(algorithm, name):
    default = discovery.load("algorithm", algorithm).Config.model_fields[name].default
    default = 0.4 if isinstance(default, Schedule) else default
    return NUMBERS.get(name) or (default, default / 4)


def learnt(context):
    networks = {"policy": context.policy, **context.run.modules}
    return {f"{name}.{at}": leaf for name, each in networks.items() for at, leaf in each.state_dict().items()}


def same(one, other):
    ours, theirs = learnt(one), learnt(other)
    return all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.fixture
def trained(tmp_path, known_plugins, record):
    """`trained(algorithm, name, value, settings)`: a run that has trained with a value of a parameter."""
    count = itertools.count()
    with ExitStack() as stack:

        def train(algorithm, name, value, settings=None):
            env, values = RUNS[algorithm]
            fields = discovery.load("algorithm", algorithm).Config.model_fields
            small = {"n_epochs": 2, "n_rollout_steps": 8, "num_envs": 2, "lr_schedule": "constant"}
            small = {f"algorithm.{key}": each for key, each in small.items() if key in fields}
            if algorithm in RECORDED:
                made = gymnasium.make(env)
                small["algorithm.dataset"] = str(record(made.observation_space, made.action_space))
            small |= {"model.hidden": [8, 8], "evaluation.n_episodes": 1, "env.max_episode_steps": 30, **values}
            beside = {**BESIDE.get((algorithm, name), {}), f"algorithm.{name}": value, **(settings or {})}
            parts = {"run_dir": tmp_path / f"run{next(count)}", "seed": 1, "silent": True, "preset": "none"}
            context = stack.enter_context(RunContext(env, algorithm, overrides={**small, **beside}, **parts))
            context.train()
            return context

        yield train


def by_default(algorithm, name):
    """Whether a parameter has the first of its two numbers where nothing is set: such runs are one and the same."""
    default = discovery.load("algorithm", algorithm).Config.model_fields[name].default
    own = (algorithm, name) in BESIDE or f"algorithm.{name}" in RUNS[algorithm][1]
    return not own and default == numbers(algorithm, name)[0]


ALIKE = [case for case in CASES if case not in FAST and by_default(*case)]
"""These are asked together, algorithm by algorithm."""


def changed(trained, algorithm, name):
    """A run in which a parameter changes, which is asked whether it did."""
    before, after = numbers(algorithm, name)
    changing = trained(algorithm, name, {"schedule": "steps", "from": before, "values": [[0.3, after]]})
    assert getattr(changing.run.algorithm.config, name) == after
    assert getattr(changing.run.config.algorithm, name).schedule == "steps"
    return changing


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [case if case in FAST else pytest.param(*case, marks=pytest.mark.slow) for case in CASES if case not in ALIKE],
)
def test_a_schedule_takes_effect_and_a_constant_one_is_the_number(trained, algorithm, name):
    before, _ = numbers(algorithm, name)
    plain = trained(algorithm, name, before)
    constant = trained(algorithm, name, {"schedule": "constant", "from": before})
    assert same(constant, plain)
    assert not same(changed(trained, algorithm, name), plain)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", dict.fromkeys(algorithm for algorithm, _ in ALIKE))
def test_each_schedule_takes_effect_and_constant_ones_are_the_numbers(trained, algorithm):
    names = [name for each, name in ALIKE if each == algorithm]
    constants = {name: {"schedule": "constant", "from": numbers(algorithm, name)[0]} for name in names}
    plain = trained(algorithm, names[0], numbers(algorithm, names[0])[0])
    constant = trained(
        algorithm, names[0], constants[names[0]], {f"algorithm.{name}": each for name, each in constants.items()}
    )
    assert same(constant, plain)
    assert not [name for name in names if same(changed(trained, algorithm, name), plain)]


COMPILED = {
    "a2c": ("entropy_coef", "value_loss_coef"),
    "ppo": ("clip_range", "lr"),
    "sac": ("entropy_coef", "lr", "tau"),
    "td3": ("target_noise", "critic_lr"),
    "td3_bc": ("alpha",),
    "iql": ("expectile", "beta", "max_weight"),
    "dqn": ("lr", "gamma"),
    "bc": ("entropy_coef",),
}


ALONE = ("ppo", "td3")
"""Of these each number is tried alone; the slow tests let all numbers of the other algorithms change at once."""


@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        *((algorithm, (name,)) for algorithm in ALONE for name in COMPILED[algorithm]),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in COMPILED.items() if each[0] not in ALONE),
    ],
)
def test_compiled_steps_see_each_number(interpreted, trained, algorithm, names, monkeypatch):
    """They are compiled once, and learn what the code learns."""
    taken, take = [], compiled.CompiledStep.take
    monkeypatch.setattr(compiled.CompiledStep, "take", lambda self, *rows: (taken.append(1), take(self, *rows)))
    both = {name: numbers(algorithm, name) for name in names}
    changing = {
        name: {"schedule": "linear", "from": one, "to": other, "end": 0.3} for name, (one, other) in both.items()
    }
    first, *more = names

    def run(values, setting):
        beside = {f"algorithm.{name}": values[name] for name in more}
        return trained(algorithm, first, values[first], {**beside, "compile": setting, "closed_form": False})

    plain, ours = (run(changing, setting) for setting in ("off", "on"))
    constant = run({name: one for name, (one, _) in both.items()}, "on")
    assert len(taken) > 4
    kinds = ours.run.state.compiled_kinds, constant.run.state.compiled_kinds
    assert len(kinds[0]) == len(kinds[1]) > 0
    for key, leaf in learnt(plain).items():
        torch.testing.assert_close(learnt(ours)[key], leaf, rtol=1e-3, atol=1e-4)
    assert not same(ours, constant)


SCHEDULED = {
    "ppo": {"clip_range": Linear(from_=0.3, to=0.01), "lr": Cosine(from_=0.0, to=1e-2, end=0.7)},
    "dqn": {"epsilon": Linear(from_=1.0, to=0.1, over="epochs", end=2), "n_step": Steps(from_=1, values=((0.4, 3),))},
    "td3": {"exploration_noise": Linear(from_=1.0, to=0.0, over="steps", begin=45, end=60)},
}


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_resumed_run_goes_on_with_the_same_numbers(quick, algorithm, whole_state, assert_same):
    env, values = RUNS[algorithm]
    values = {**values, "algorithm.n_epochs": 4}
    values |= {f"algorithm.{name}": schedule for name, schedule in SCHEDULED[algorithm].items()}
    whole, half, rest = (quick(env, algorithm, values) for _ in range(3))
    whole.train()
    half.train(2)
    half.close()
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_the_numbers_are_among_the_metrics_and_follow_another_end(quick, metrics):
    values = {"algorithm.entropy_coef": Linear(from_=1.0, to=0.0), "algorithm.n_epochs": 2}
    context = quick(SeededWalk, "ppo", values)
    context.train()
    assert [line["schedule/entropy_coef"] for line in metrics(context.run_dir)] == [0.75, 0.25]
    context.close()
    longer = quick(SeededWalk, "ppo", {**values, "algorithm.n_epochs": 4})
    longer.resume(context.run_dir)
    assert [line["schedule/entropy_coef"] for line in metrics(context.run_dir)][2:] == [0.375, 0.125]


@pytest.mark.parametrize("algorithm", ["ppo", "td3"])
def test_workers_explore_by_the_same_numbers(quick, algorithm):
    """Those of Ray do, too: `tests/maze_ray/test_training.py`."""
    env, values = RUNS[algorithm]
    values = {**values, "algorithm.num_envs": 2, "evaluation.num_envs": 1}
    values |= {f"algorithm.{name}": schedule for name, schedule in SCHEDULED[algorithm].items()}
    here, there = (quick(env, algorithm, {**values, "runner.name": name}) for name in ("dev", "local"))
    for context in (here, there):
        context.train()
    assert same(here, there)


def test_several_learners_get_the_numbers(quick):
    values = {"algorithm.entropy_coef": Linear(from_=1.0, to=0.0), "algorithm.clip_range": Linear(from_=0.3, to=0.01)}
    alone, together = (quick(SeededWalk, "ppo", {**values, "learners": count}) for count in (1, 2))
    for context in (alone, together):
        context.train()
    for key, leaf in learnt(alone).items():
        torch.testing.assert_close(learnt(together)[key], leaf, rtol=1e-3, atol=1e-5)


def test_shapes():
    at = [Moment(x, 100 * x, 10 * x) for x in (0.0, 0.25, 0.5, 1.0)]
    linear = Linear(from_=1.0, to=0.0, begin=0.25, end=0.75)
    assert [linear.rule()(x) for x in at] == [1.0, 1.0, 0.5, 0.0]
    cosine = Cosine(from_=2.0, to=0.0, over="steps", end=100)
    assert [cosine.rule()(x) for x in at] == pytest.approx([1 + math.cos(math.pi * x) for x in (0, 0.25, 0.5, 1)])
    steps = Steps(from_=3.0, over="epochs", values=((5.0, 1.0), (2.5, 2.0)))
    assert [steps.rule()(x) for x in at] == [3.0, 2.0, 1.0, 1.0]
    whole = Linear(from_=1, to=4).of(1, math.inf, True)
    assert [whole.rule()(x) for x in at] == [1, 2, 2, 4]


REFUSED = {
    "num_envs={schedule: linear, to: 1}": "algorithm.num_envs: keeps its value while a run trains",
    "normalize_advantages={schedule: constant}": "algorithm.normalize_advantages: keeps its value while a run trains",
    "clip_range={schedule: lin, to: 0}": "algorithm.clip_range: must name its `schedule`; did you mean linear?",
    "clip_range={to: 0}": "algorithm.clip_range: must name its `schedule`; known: constant, linear",
    "clip_range={schedule: linear}": "algorithm.clip_range: to: is required",
    "clip_range={schedule: linear, to: -1}": "algorithm.clip_range: must have numbers from 0 to inf, got -1",
    "gamma={schedule: steps, values: [[0.5, 1.5]]}": "algorithm.gamma: must have numbers from 0 to 1, got 1.5",
    "gamma={schedule: linear, to: 1, over: steps}": "algorithm.gamma: must have an `end`, in steps",
    "gamma={schedule: linear, to: 1, end: 40}": "algorithm.gamma: must have begin < end, at most 1",
    "gamma={schedule: linear, to: 1, untill: 1}": "algorithm.gamma: untill: unknown key",
    "gamma={schedule: linear, to: true}": "algorithm.gamma: to: must be a number",
    "gamma={schedule: 'no_such_module:Rule'}": "no_such_module",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_effect_is_refused(text):
    with pytest.raises(ConfigError) as error:
        assemble("ppo", CART, "none", overrides=[f"algorithm.{text}"])
    assert REFUSED[text] in str(error.value)


def test_a_schedule_over_the_run_needs_its_end(quick):
    with pytest.raises(ConfigError, match=r"algorithm\.gamma: a cosine schedule needs to know when the run ends"):
        quick(CART, "ppo", {"algorithm.gamma": Cosine(from_=0.9, to=1.0), "algorithm.n_epochs": 0}).run  # noqa: B018
    open_end = {"algorithm.gamma": Linear(from_=0.9, to=1.0, over="steps", end=9), "algorithm.n_epochs": 0}
    quick(CART, "ppo", open_end).run  # noqa: B018
    quick(CART, "dqn", {"algorithm.n_epochs": 0, "algorithm.prioritized": True}).run  # noqa: B018 — by default


@pytest.mark.parametrize(
    ("layers", "overrides", "wanted"),
    [
        ([{"gamma": 0.9}], ["gamma={schedule: linear, to: 1}"], Linear(from_=0.9, to=1.0)),
        ([], ["gamma={schedule: linear, to: 1}"], Linear(from_=0.99, to=1.0)),
        ([{"gamma": 0.9}, {"gamma": {"schedule": "cosine", "to": 1}}], [], Cosine(from_=0.9, to=1.0)),
        ([{"gamma": {"schedule": "cosine", "from": 0.8, "to": 1}}], ["gamma.to=0.9"], Cosine(from_=0.8, to=0.9)),
        ([{"gamma": {"schedule": "cosine", "from": 0.8, "to": 1}}], ["gamma={schedule: linear, to: 0.5}"],
         Linear(from_=0.8, to=0.5)),
        ([{"gamma": {"schedule": "cosine", "from": 0.8, "to": 1}}], ["gamma=0.5"], 0.5),
    ],
)  # fmt: skip
def test_a_schedule_begins_at_the_number_that_it_replaces(layers, overrides, wanted):
    files = [{"algorithm": layer} for layer in layers]
    config = assemble("ppo", CART, "none", files=files, overrides=[f"algorithm.{each}" for each in overrides])
    assert config.algorithm.gamma == wanted


RULE = """
from maze_core.plugins.config.schedules import Schedule


class Warmup(Schedule):
    most: float
    length: int = 10

    def value(self, at):
        return self.most * min(1.0, at.steps / self.length)
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """A module `my_rules` in the current folder, with the class `Warmup`."""
    (tmp_path / "my_rules.py").write_text(RULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_rule_of_the_users_own(rules, quick, metrics):
    from my_rules import Warmup

    context = quick(SeededWalk, "ppo", {"algorithm.entropy_coef": Warmup(most=2.0, length=24)})
    context.train()
    assert [line["schedule/entropy_coef"] for line in metrics(context.run_dir)] == [1.0, 2.0]
    saved = yaml.safe_load((context.run_dir / "config.yaml").read_text())["algorithm"]["entropy_coef"]
    assert saved == {"schedule": "my_rules:Warmup", "most": 2.0, "length": 24}


def test_a_saved_run_needs_its_rule_to_be_named_again(rules, quick):
    from my_rules import Warmup

    context = quick(CART, "a2c", {"algorithm.entropy_coef": Warmup(most=2.0)})
    context.train()
    context.close()
    again = {"algorithm.entropy_coef.schedule": "my_rules:Warmup", "algorithm.n_epochs": 3}
    for opened in (RunContext.open, RunContext.reopen):
        with pytest.raises(ConfigError, match="would import and run the class 'my_rules:Warmup'"):
            opened(context.run_dir)
        opened(context.run_dir, overrides=again).close()


def test_a_rule_may_give_no_other_numbers(rules, quick):
    from my_rules import Warmup

    context = quick(SeededWalk, "ppo", {"algorithm.gamma": Warmup(most=2.0, length=30)})
    with pytest.raises(RunError, match=re.escape("the schedule my_rules:Warmup gives 1.6, not a number from 0 to 1")):
        context.train()


def test_only_the_user_names_a_rule(rules, tmp_path):
    from maze_core.collect.policies.said_classes import said_classes
    from maze_core.plugins.config.assembly import Assembly

    rule = {"schedule": "my_rules:Warmup", "most": 1.0}
    file = tmp_path / "theirs.yaml"
    file.write_text(yaml.safe_dump({"algorithm": {"entropy_coef": rule}}))
    with pytest.raises(ConfigError, match="would import and run the class 'my_rules:Warmup'"):
        assemble("ppo", CART, "none", files=[file])
    said = ["algorithm.entropy_coef.schedule=my_rules:Warmup"]
    config = Assembly(said_classes((), said)).assemble("ppo", CART, "none", files=[file], overrides=said)
    assert config.algorithm.entropy_coef.value(Moment(0, 5, 0)) == 0.5
