"""Environments whose arrays are tensors: rollouts stay on the device, and are those of the same with arrays."""

import pytest
import torch
from maze_devkit.drift import Drift, DriftConfig, DriftSource
from maze_onpolicy.collect.resident import ResidentSampler
from torch.overrides import TorchFunctionMode

from maze_core import Plugin, RunError, hookimpl

READS = {"item", "numpy", "tolist", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__", "__array__"}


class SpoiltConfig(DriftConfig):
    spoil: str = ""


class SpoiltDrift(Drift):
    """Something goes wrong after eleven steps."""

    steps_taken = 0

    def _given(self, value):
        if not isinstance(value, tuple) or len(value) < 5:
            return super()._given(value)
        obs, reward, terminated, truncated, info = value
        self.steps_taken += 1
        if self._config.spoil == "whole at first" and self.steps_taken == 1:
            reward = reward.long()
        match self._config.spoil if self.steps_taken > 11 else "":
            case "reward":
                reward = torch.where(torch.arange(self.num_envs) == 1, torch.nan, reward)
            case "observation":
                obs["place"][2, 1] = torch.inf
            case "phase":
                obs["phase"][0] = 4
            case "shape":
                obs["place"] = obs["place"][:, :1]
            case "kind":
                obs["phase"] = obs["phase"].float()
            case "flags":
                terminated = terminated[:, None]
            case "final":
                info = {}
            case "last":
                info["final_obs"]["place"][:] = torch.nan
            case "array":
                reward = reward.numpy()
            case "raise":
                raise ValueError("the belt is torn")
        return super()._given((obs, reward, terminated, truncated, info))


class SpoiltSource(Plugin):
    Config = SpoiltConfig

    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        return SpoiltDrift(num_envs, self.config)


class Reads(TorchFunctionMode):
    """Counts what would wait for a device: whoever reads a tensor's values."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in READS:
            self.found.append(func.__name__)
        return func(*args, **(kwargs or {}))


def run(quick, algorithm="ppo", more=None, source=DriftSource, **env):
    values = {f"env.{key}": value for key, value in env.items()}
    return quick(source, algorithm, {"algorithm.num_envs": 5, **values, **(more or {})})


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_runs_are_those_with_arrays(quick, whole_state, assert_same, mode):
    contexts = [run(quick, mode=mode, arrays=arrays) for arrays in (False, True)]
    for context in contexts:
        context.train()
    resident, host = (context.run.algorithm._collector._sampler for context in contexts)
    assert isinstance(resident, ResidentSampler)
    assert not isinstance(host, ResidentSampler)
    assert resident.rollout.truncations
    states = [whole_state(context.run_dir) for context in contexts]
    for state in states:  # only policies with memory are told which episodes have just begun
        del state["algorithm"]["collector"]["begun"]
    assert_same(*states)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_no_step_reads_a_value(quick, mode):
    def reads(steps, batch_size):
        context = run(quick, more={"algorithm.n_rollout_steps": steps, "algorithm.batch_size": batch_size}, mode=mode)
        context.train()
        sampler = context.run.algorithm._collector._sampler
        with Reads() as mode_of_torch:
            sampler.collect()
        return len(mode_of_torch.found)

    assert reads(8, 16) == reads(64, 16) <= 8


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("reward", r"environment 1 \(episode \d, step \d\) returned a reward that is not finite: nan"),
        ("observation", r"environment 2 returned in step 12 of a rollout \[.* inf\] at 'place', where Box"),
        ("phase", r"environment 0 returned in step 12 of a rollout 4 at 'phase', where Discrete\(3, start=1\)"),
        (
            "shape",
            r"environment returned shape \(5, 1\) at 'place' instead of a tensor of shape \(5, 2\)",
        ),
        ("kind", r"returned torch.float32 at 'phase', where int64 is declared"),
        ("flags", r"returned `terminated` with shape \(5, 1\) instead of a tensor of 5 numbers"),
        ("array", r"returned `reward` with a ndarray instead of a tensor of 5 numbers"),
        ("last", r"a last observation of the vectorised environment is not finite"),
        ("final", r"resets in the same step but its info has no 'final_obs'"),
        ("raise", r"the belt is torn"),
    ],
)
def test_what_is_wrong_is_named(quick, spoil, message):
    mode = "SameStep" if spoil in ("final", "last") else "NextStep"
    with pytest.raises(RunError, match=message):
        run(quick, "ppo", {"algorithm.n_rollout_steps": 32}, SpoiltSource, spoil=spoil, mode=mode).train()


MORE = [
    ("ppo", {"model.memory": "gru"}),
    ("ppo", {"wrappers": ["scale_reward"], "env.mode": "Disabled"}),
    ("ppo", {"env.actions": "push", "env.mode": "SameStep"}),
    ("dqn", {"env.actions": "turn", "algorithm.initial_buffer_size": 20, "algorithm.batch_size": 8}),
    ("ppo", {"algorithm.normalize_rewards": True, "model.normalize_observations": True}),
    ("sac", {"algorithm.initial_buffer_size": 20, "algorithm.batch_size": 8}),
    ("es", {"algorithm.n_rollouts_per_update": 4}),
]


@pytest.mark.parametrize(("algorithm", "more"), MORE)
def test_whatever_trains_with_arrays_trains_with_tensors(quick, whole_state, assert_same, algorithm, more):
    parts = {"wrappers": more["wrappers"]} if "wrappers" in more else {}
    more = {key: value for key, value in more.items() if key != "wrappers"}
    if algorithm != "es":
        more["algorithm.num_envs"] = 5
    states = []
    for arrays in (False, True):
        context = quick(DriftSource, algorithm, {"env.arrays": arrays, **more}, **parts)
        context.train()
        episode = context.rollout(1, seed=2)
        states.append({"state": whole_state(context.run_dir), "return": episode[0].episode_return})
    for state in states:
        state["state"]["algorithm"].get("collector", {}).pop("begun", None)
    assert_same(*states)


def test_rewards_may_begin_as_whole_numbers(quick):
    context = run(quick, "ppo", {"algorithm.n_rollout_steps": 16}, SpoiltSource, spoil="whole at first")
    context.train()
    rewards = context.run.algorithm._collector._sampler.rollout.rewards
    assert (rewards != rewards.round()).any()


def test_a_resumed_run_begins_new_episodes(quick):
    context = run(quick)
    context.train()
    again = quick(DriftSource, "ppo", {"algorithm.num_envs": 5, "algorithm.n_epochs": 4}, run_dir=None)
    with pytest.warns(RuntimeWarning, match="cannot return to a recorded state"):
        again.resume(context.run_dir)
    assert isinstance(again.run.algorithm._collector._sampler, ResidentSampler)
