"""Memories of another distribution, installed in a folder of its own and written with promised modules alone."""

import os
import sys

import numpy as np
import pytest
import torch
from maze_devkit import check_plugin
from maze_devkit.demonstrations import record
from maze_devkit.envs import SeededWalk
from maze_export.export import export_policy
from maze_export.onnx_policy import OnnxPolicy, OnnxPolicyConfig

from maze_core import RunContext
from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble
from tests.agents import CrowdSource

SOURCE = '''
"""Two memories."""

from typing import Annotated

import torch
from maze_core import PluginConfig
from maze_core.models.memory import Memory
from pydantic import Field
from torch import nn


class TracesConfig(PluginConfig):
    """The settings of traces."""

    size: int = 64
    """Averages of each kind."""


class Traces(Memory):
    """Fast and slow averages, with a sequence pass of their own."""

    Config = TracesConfig

    def __init__(self, in_features, config):
        super().__init__()
        self.out_features = 2 * config.size
        self.input = nn.Linear(in_features, config.size)
        self.rates = nn.Parameter(torch.tensor([0.0, 2.0]).repeat(config.size, 1).T.contiguous())

    def initial_state(self, rows):
        return {name: self.rates.new_zeros(rows, self.rates.shape[1]) for name in ("fast", "slow")}

    def step(self, features, state):
        return self.moved(self.input(features).tanh(), state)

    def moved(self, seen, state):
        after = {name: leaf + rate.sigmoid() * (seen - leaf) for (name, leaf), rate in zip(state.items(), self.rates)}
        return torch.cat([after["fast"], after["slow"]], -1), after

    def after(self, features, sequences, state):
        seen, found, states = sequences.padded(self.input(features).tanh()), [], []
        for row in seen:
            features, state = self.moved(row, state)
            found.append(features)
            states.append(state)
        last = torch.from_numpy(sequences.lengths - 1).to(seen.device), torch.arange(len(sequences))
        ends = {name: torch.stack([each[name] for each in states])[last] for name in state}
        return sequences.unpadded(torch.stack(found)), ends


class DelayConfig(PluginConfig):
    """The settings of delay."""

    steps: Annotated[int, Field(gt=0)]
    """How many steps are kept."""
    gain: float = 1.0
    """What they are multiplied by."""


class Delay(Memory):
    """The features of some steps before, and how many steps there were; only with single steps."""

    Config = DelayConfig

    def __init__(self, in_features, config):
        super().__init__()
        self.config, self.in_features, self.out_features = config, in_features, 5
        self.read = nn.Linear(in_features * (config.steps + 1) + 1, 5)

    def initial_state(self, rows):
        weight = self.read.weight
        past = weight.new_zeros(rows, self.config.steps, self.in_features)
        return {"past": past, "count": torch.zeros(rows, dtype=torch.int64, device=weight.device)}

    def step(self, features, state):
        all_rows = torch.cat([state["past"], features.unsqueeze(1)], 1)
        age = 1 / (1 + state["count"].unsqueeze(-1).to(features.dtype))
        out = self.read(torch.cat([self.config.gain * all_rows.flatten(1), age], -1)).tanh()
        return out, {"past": all_rows[:, 1:], "count": state["count"] + 1}
'''
TRACES = {"model.memory": "traces", "model.memory_size": 6}
DELAY = {"model.memory": {"name": "delay", "steps": 2, "gain": 0.5}}
REPLAY = {
    "algorithm.replay_buffer_size": 300,
    "algorithm.initial_buffer_size": 30,
    "algorithm.batch_size": 8,
    "algorithm.num_envs": 2,
    "algorithm.sequence_length": 5,
    "algorithm.burn_in": 2,
    "algorithm.epoch_length": 8,
}
CRITICS = {**REPLAY, "algorithm.critic_hidden": [8]}
ACTORS = {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}
SLOW = pytest.mark.slow
CASES = [
    ("ppo", SeededWalk, "local", {**TRACES, "algorithm.sequence_length": 4}),
    pytest.param("ppo", CrowdSource, "dev", {**DELAY, "model.critic": "shared"}, marks=SLOW),
    pytest.param("sac", SeededWalk, "dev", {**TRACES, **CRITICS, "algorithm.critic_memory": "shared"}, marks=SLOW),
    pytest.param(
        "dqn",
        SeededWalk,
        "dev",
        {**DELAY, **REPLAY, "algorithm.prioritized": True, "algorithm.priority_beta": 1},
        marks=SLOW,
    ),
    pytest.param("impala", SeededWalk, "dev", {**TRACES, **ACTORS}, marks=SLOW),
    pytest.param("es", SeededWalk, "dev", {**DELAY, "algorithm.n_rollouts_per_update": 4}, marks=SLOW),
]


@pytest.fixture
def package(tmp_path, monkeypatch, quick):
    """The distribution `maze-traces` is installed; `package(text)` replaces its entry points."""
    site = tmp_path / "site"
    info = site / "maze_traces-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "maze_traces.py").write_text(SOURCE)
    lines = ["Metadata-Version: 2.1", "Name: maze-traces", "Version: 1.0", "Requires-Dist: maze-core>=0.1,<0.2"]
    (info / "METADATA").write_text("\n".join(lines) + "\n")

    def publish(text):
        (info / "entry_points.txt").write_text(f"[maze.memories]\n{text}\n")
        os.utime(site)  # the folder has changed, as by an installation
        found = [each for each in discovery.declared() if each.kind in discovery.KINDS]
        monkeypatch.setattr(discovery, "declarations", lambda: found)

    monkeypatch.syspath_prepend(site)
    publish("traces = maze_traces:Traces\ndelay = maze_traces:Delay")
    yield publish
    sys.modules.pop("maze_traces", None)


@pytest.mark.parametrize(("algorithm", "env", "runner", "values"), CASES)
def test_it_trains_resumes_bit_equally_and_is_exported(
    quick, package, whole_state, assert_same, tmp_path, algorithm, env, runner, values
):
    values = {"model.hidden": [8], "runner.name": runner, **values}
    whole = quick(env, algorithm, values | {"algorithm.n_epochs": 4})
    whole.train()
    half = quick(env, algorithm, values)
    half.train()
    assert "maze-traces" in (half.run_dir / "config.yaml").read_text()
    quick(env, algorithm, values | {"algorithm.n_epochs": 4}, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
    assert whole.evaluate()
    if env is SeededWalk:
        _check_file(whole, tmp_path / "policy.onnx")
    else:
        export_policy(whole.run, tmp_path / "policy.onnx")


def _check_file(context, file):
    """Play an episode by the exported file and by an agent: the actions are equal."""
    export_policy(context.run, file)
    policy, agent, env = OnnxPolicy(OnnxPolicyConfig(name="onnx", file=file)), context.agent(), context.make_env()
    policy.setup(context.run.observation_space, context.run.action_space)
    observation, _ = env.reset(seed=3)
    agent.reset()
    for _ in range(12):
        action = agent.act(observation)
        (chosen,) = policy.act(
            {"observation": np.asarray(observation, np.float32)[None]}, [np.random.default_rng(0)]
        ).values()
        assert np.array_equal(chosen[0], action)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
            agent.reset()
            policy.begin(0)


@SLOW
def test_recordings_teach_it(quick, package, whole_state, assert_same, tmp_path):
    record(SeededWalk, tmp_path / "demos", 6)
    values = {**TRACES, "model.hidden": [8], "algorithm.dataset": str(tmp_path / "demos"), "evaluation.n_episodes": 1}
    whole, half = tmp_path / "whole", tmp_path / "half"
    parts = {"preset": "none", "seed": 1, "silent": True}
    for folder, epochs in ((whole, 4), (half, 2)):
        settings = {**values, "algorithm.n_epochs": epochs}
        with RunContext(SeededWalk, "bc", overrides=settings, run_dir=folder, **parts) as run:
            before = {name: leaf.clone() for name, leaf in run.policy.state_dict().items() if "memory" in name}
            run.train()
            assert any(not torch.equal(leaf, run.policy.state_dict()[name]) for name, leaf in before.items())
    with RunContext(SeededWalk, "bc", overrides={**values, "algorithm.n_epochs": 4}, run_dir=None, **parts) as run:
        run.resume(half)
    assert_same(whole_state(whole), whole_state(half))


@SLOW
def test_the_kit_finds_nothing(package):
    report = check_plugin("memory", "traces")
    assert not report.failed, "\n".join(map(str, report.failed))


@pytest.mark.parametrize(
    ("memory", "where", "words"),
    [
        ("trace", "model.memory", "unknown memory 'trace'\nDid you mean traces?"),
        ("os:system", "model.memory", "unknown memory 'os:system'"),
        ("delay", "model.memory.steps", "is required (How many steps are kept)"),
        ({"name": "delay", "steps": 0}, "model.memory.steps", "must be greater than 0, got 0"),
        ({"name": "delay", "step": 1}, "model.memory.step", "did you mean steps?"),
        ({"steps": 1}, "model.memory.name", "must be the name of an installed memory"),
        (3, "model.memory", "must be a string or be a mapping, got 3"),
    ],
)
def test_wrong_choices_are_refused_by_name(package, memory, where, words):
    with pytest.raises(ConfigError) as caught:
        assemble("ppo", "CartPole-v1", flags={"model.memory": memory})
    assert where in str(caught.value)
    assert words in str(caught.value)


def test_settings_are_set_one_by_one_and_saved_whole(package):
    one = assemble("ppo", "CartPole-v1", overrides=["model.memory.steps=3", "model.memory=delay"])
    assert one.model.memory == {"name": "delay", "steps": 3, "gain": 1.0}
    other = assemble("ppo", files=[{"env": "CartPole-v1", "model": {"memory": one.model.memory}}])
    assert other.model.memory == one.model.memory
    replaced = [{"env": "CartPole-v1", "model": {"memory": one.model.memory}}, {"model": {"memory": {"name": "gru"}}}]
    assert assemble("ppo", files=replaced).model.memory == "gru"
    sized = assemble("ppo", "CartPole-v1", overrides=["model.memory=gru", "model.memory.size=3"])
    assert sized.model.make_memory(2).out_features == 3


def test_a_run_whose_memory_is_not_installed_names_it(quick, package):
    run = quick(overrides=TRACES)
    run.train()
    package("")
    with pytest.raises(ConfigError, match=r"model\.memory: unknown memory 'traces'"):
        quick(run_dir=None).resume(run.run_dir)


def test_a_second_gru_is_told(package):
    package("gru = maze_traces:Traces")
    with pytest.raises(PluginError, match=r"'gru' is claimed by maze-memories 0\.\d\.\d and maze-traces 1\.0"):
        assemble("ppo", "CartPole-v1", overrides=["model.memory=gru"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("self.out_features = 2 * config.size", "self.out_features = config.size", "returned features"),
        ('return torch.cat([after["fast"], after["slow"]], -1), after', "return torch.cat([*after.values()], -1), {}",
         "the initial state is"),
        ("self.out_features = 2 * config.size", "pass", "has no `out_features`"),
    ],
)  # fmt: skip
def test_a_mistake_shows_before_the_first_step(package, tmp_path, old, new, words):
    assert old in SOURCE
    (tmp_path / "site" / "maze_traces.py").write_text(SOURCE.replace(old, new))
    with pytest.raises(PluginError, match=r"memory plugin 'traces' of maze-traces 1\.0: ") as caught:
        assemble("ppo", "CartPole-v1", overrides=["model.memory=traces"]).model.make_memory(3)
    assert words in str(caught.value)
