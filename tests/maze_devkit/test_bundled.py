"""Every bundled plugin passes the conformance kit, and each check that says nothing about one is known to."""

import importlib
import re
from contextlib import closing
from importlib import metadata
from importlib.util import find_spec

import pytest
from maze_devkit.bench import Bench
from maze_devkit.kit import checks, examine_all

from maze_core.plugins import discovery

EXTRAS = ("envpool", "gymnax", "ray", "optuna", "pettingzoo", "wandb", "mlflow")
"""Packages that an installation may do without."""
OF_RLLIB = ["appo", "bc", "cql", "dqn", "dreamerv3", "impala", "iql", "marwil", "ppo", "sac"]
LIKE_ANOTHER = tuple(f"rllib-{each}" for each in OF_RLLIB)
"""These share a Ray session with rllib-tqc, the last of them, which is asked for all of them what that does to a
process: to end the Ray that they share and start another one takes many seconds. `maze plugins check` asks each."""
LIKE_ITS_CLASS = ("airl", "apex", "appo", "ddpg", "fast_td3", "sacfd", "vdn")
"""These are a kind of another algorithm, which is asked itself; most differ in defaults alone."""
SAME_CODE = ("actors", "agents", "critic_leaves", "forks", "learners", "masks", "memory", "spaces")
"""What depends on the code that they share is left out."""
OTHER_DEFAULTS = ("airl", "ddpg", "sacfd")
"""These have no method of its batches, losses and states."""
SAME_METHODS = ("altered_states", "compiles", "learns")
BY_THE_BRIDGE = tuple(f"rllib-{each}" for each in ("appo", "cql", "dreamerv3", "impala", "iql", "marwil", "sac"))
"""The bridge makes and trains these by the same code as rllib-ppo, rllib-dqn, rllib-bc and rllib-tqc, which are asked
more. Its own tests train, resume and evaluate each (`tests/maze_rllib`)."""
SAME_BRIDGE = ("altered_states", "calls", "deterministic", "learns", "masks", "spaces", "trains", "truncation")
SAME_SPACES = ("rllib-bc", "rllib-dqn")
SAME_STATES = ("rllib-bc", "rllib-dqn", "rllib-tqc")
"""Spaces reach these, and their states are saved and read, as those of rllib-ppo."""
ONE_OF_EACH_FAMILY = ("bc", "dqn", "es", "impala", "ppo", "sac")
"""Of the algorithms of Maze these alone are asked for what the others of their family do by the same code: how spaces
reach them, and how their states are read, by a fork or altered. All are resumed; `benchmarks/attack.py` alters the
states of all."""
BY_FAMILY = ("altered_states", "forks", "spaces")
OF_ITS_OWN_TESTS = ("chance", "replay", "seeds", "vector_env")
"""What `tests/maze_jax` asks of the same pool; here each case compiles its steps anew."""

SEEN_ELSEWHERE = ("spaces", "global_state", "writes_in_the_run_directory")
"""Of the callbacks that only observe and stop, `console`, `jsonl`, `tensorboard`, `wandb` and `mlflow` are asked these:
what they depend on is what the core hands to any observer."""
OBSERVERS = ("best_checkpoint", "budget", "early_stopping", "mirror")

NO_CONFIG = ("config_described", "config_frozen", "config_closed", "config_round_trip", "builds", "outside_marked")
LEARNING = ("curriculum", "custom_critic", "self_play")
"""The callbacks that take part in learning."""
ABOUT_LEARNING = ("deterministic", "resumes")
"""The checks of such callbacks."""
ON_DEVICE = ("a2c", "pg", "ppo", "trpo")
"""The algorithms that take rollouts of tensors."""
WEIGHING = ("a2c", "pg", "ppo")
"""The algorithms whose batches may be filled up."""
COMPILED = (
    *(
        "a2c",
        "airl",
        "alphazero",
        "apex",
        "appo",
        "bc",
        "cql",
        "ddpg",
        "dqn",
        "gail",
        "iql",
        "pg",
        "ppo",
    ),
    *("fast_td3", "flash_sac", "pqn", "qmix", "sac", "sacfd", "td3", "td3_bc", "vdn"),
)
"""The algorithms whose steps are compiled."""
LASTING = ("normalize_reward",)
"""The wrappers that have a state to save."""
NO_HOOKS = ("command", "distribution", "memory", "policy", "runner", "searcher", "teacher")
BY_RLLIB = ("critic_leaves", "forks", "gradients", "host_synchronisation", "resumes")
INAPPLICABLE = {
    **{
        f"distribution {name}": ("masks",)
        for name in ("beta", "gaussian", "gsde", "squashed_gaussian", "squashed_gsde")
    },
    "algorithm appo": ("host_synchronisation",),
    "algorithm bc": ("truncation",),
    "algorithm cma_es": ("gradients", "host_synchronisation", "truncation"),
    "algorithm cql": ("masks", "truncation"),
    "algorithm ddpg": ("masks",),
    "algorithm dt": ("truncation",),
    "algorithm es": ("host_synchronisation", "truncation"),
    "algorithm impala": ("host_synchronisation",),
    "algorithm maml": ("truncation",),
    "algorithm fast_td3": ("masks",),
    "algorithm flash_sac": ("masks",),
    "algorithm iql": ("truncation",),
    "algorithm pqn": ("truncation",),
    "algorithm rllib-appo": (*BY_RLLIB, "deterministic", "truncation"),
    "algorithm rllib-bc": (*BY_RLLIB, "truncation"),
    "algorithm rllib-cql": (*BY_RLLIB, "deterministic", "learns", "masks", "spaces", "truncation"),
    "algorithm rllib-dqn": (*BY_RLLIB, "deterministic", "truncation"),
    "algorithm rllib-dreamerv3": (*BY_RLLIB, "deterministic", "learns", "spaces", "truncation"),
    "algorithm rllib-impala": (*BY_RLLIB, "deterministic", "truncation"),
    "algorithm rllib-iql": (*BY_RLLIB, "masks", "spaces", "truncation"),
    "algorithm rllib-marwil": (*BY_RLLIB, "truncation"),
    "algorithm rllib-ppo": (*BY_RLLIB, "truncation"),
    "algorithm rllib-sac": (*BY_RLLIB, "deterministic", "truncation"),
    "algorithm rllib-tqc": (*BY_RLLIB, "deterministic", "learns", "masks", "spaces", "truncation"),
    "algorithm td3": ("masks",),
    "algorithm td3_bc": ("masks", "truncation"),
    "callback curriculum": ("never_stops_a_run",),
    "env cutting_2d": ("time_limit", "vector_env"),
    "env factory": ("vector_env",),
    "env gymnasium": ("vector_env",),
    "env jax_games": ("chance", "time_limit", "vector_env"),
    "env pettingzoo": ("chance", "time_limit", "vector_env"),
    "teacher uniform": ("altered_states",),
    "wrapper normalize_reward": ("gymnasium",),
}
"""Checks that are waived or have nothing to check, beside those that their kind or the core explains."""


def _bundled():
    """The plugins of this repository that are installed."""
    for claim in discovery.declarations():
        if metadata.metadata(claim.distribution)["Name"].startswith("maze-"):
            yield claim


def _missing(claim):
    """What a plugin needs and is not installed."""
    requires = {re.split(r"[^\w-]", line)[0] for line in metadata.requires(claim.distribution) or []}
    if claim.distribution == discovery.CORE:
        return []
    # Both sources of maze-jax are of one distribution; pgx is rarely there, since its package `tests` hides this one.
    own = {"pgx"} if claim.name == "jax_games" else requires - {"pgx"}
    return [name for name in (*EXTRAS, "pgx") if name in own and find_spec(name) is None]


def _inapplicable(title, claim):
    """The checks that say nothing about a plugin."""
    return {
        "promised_imports",
        *INAPPLICABLE.get(title, ()),
        *(ABOUT_LEARNING if claim.kind == "callback" and claim.name not in LEARNING else ()),
        *(NO_CONFIG if claim.kind == "command" else ()),
        *(("tensors",) if claim.kind == "algorithm" and claim.name not in ON_DEVICE else ()),
        *(("row_weights",) if claim.kind == "algorithm" and claim.name not in WEIGHING else ()),
        *(("compiles",) if claim.kind == "algorithm" and claim.name not in COMPILED else ()),
        *(("altered_states",) if claim.kind == "wrapper" and claim.name not in LASTING else ()),
        *(("hooks",) if claim.kind in NO_HOOKS else ()),
        *(("core_version", "libraries") if claim.distribution == discovery.CORE else ()),
    }


def _left_out(kind, plugin):
    """The checks that are not asked of a plugin, since they are asked of another one with the same code."""
    groups = {
        ("global_state",): LIKE_ANOTHER,
        SAME_CODE: LIKE_ITS_CLASS,
        SAME_METHODS: OTHER_DEFAULTS,
        SAME_BRIDGE: BY_THE_BRIDGE,
        ("spaces",): SAME_SPACES,
        ("altered_states",): SAME_STATES,
        OF_ITS_OWN_TESTS: ("jax",),
        ("never_stops_a_run",): ("mlflow",),  # each of its stores takes a second; its own tests stop no run either
    }
    if kind == "callback":
        groups[SEEN_ELSEWHERE] = OBSERVERS
    if kind == "algorithm" and not plugin.startswith("rllib-") and plugin not in ONE_OF_EACH_FAMILY:
        groups[BY_FAMILY] = (plugin,)
    return {name for names, plugins in groups.items() if plugin in plugins for name in names}


BUNDLED = {f"{claim.kind} {claim.name}": claim for claim in _bundled()}


@pytest.fixture(scope="module")
def bench(fresh):
    """What the plugins share, such as a Ray."""
    with closing(Bench(fresh)) as bench:
        yield bench


def test_the_bundled_plugins_are_all_here():
    names = {claim.name for claim in BUNDLED.values()}
    assert names >= {
        "ppo",
        "a2c",
        "sac",
        "sacfd",
        "apex",
        "dqn",
        "pqn",
        "impala",
        "appo",
        "bc",
        "cql",
        "iql",
        "td3_bc",
        "dt",
        "gail",
        "airl",
        "es",
        "lunar_lander_heuristics",
        "random",
        "mlp",
    }


FEW_SECONDS = {"algorithm sac", "env gymnasium", "model mlp", "runner local"}
"""Of the kinds whose checks take long, those that the first pass runs; the slow tests run the others."""
OTHERS = {f"callback {name}" for name in ("console", "mlflow", "tensorboard", "wandb")}


def marks_of(title):
    long = title.startswith(("algorithm ", "env ", "model ", "runner ")) or title in OTHERS
    return pytest.mark.slow if long and title not in FEW_SECONDS else ()


@pytest.mark.parametrize("title", [pytest.param(each, marks=marks_of(each)) for each in sorted(BUNDLED)])
def test_it_conforms(title, known_plugins, bench, monkeypatch):
    claim = BUNDLED[title]
    if missing := _missing(claim):
        pytest.skip(f"{', '.join(missing)} is not installed")
    if title == "runner ray":  # what workers import ahead is half of its time
        light = importlib.import_module("tests.maze_ray.light_worker")
        monkeypatch.setattr("maze_ray.actors.Worker", light.LightWorker)
    left_out = _left_out(claim.kind, claim.name)
    asked = [each for each in checks(claim.kind) if each.name not in left_out]
    findings = list(examine_all(asked, claim, bench))
    failed = [finding for finding in findings if finding.state == "failed"]
    assert not failed, "\n".join(map(str, failed))
    inapplicable = _inapplicable(title, claim) - left_out
    assert {each.check for each in findings if each.state == "not applicable"} == inapplicable
