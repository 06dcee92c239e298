"""Adam against `torch.optim.Adam`."""

from __future__ import annotations

import os

import pytest
import torch
from maze_onpolicy.learn.rmsprop import RMSprop

from maze_core.base.errors import CheckpointError, ConfigError
from maze_core.base.saved_state import check_state, form_of
from maze_core.learn.optimizers import Adam, saved_optimizer
from tests.forked import Forked
from tests.training.optimizers import groups, parameters, train

OVERRIDES = {"evaluation.n_episodes": 0}


def test_steps_are_those_of_torch_bit_for_bit():
    ours, theirs = parameters(), parameters()
    train(Adam(groups(ours), lr=3e-3), ours, 9, seed=1, skip=4)
    train(torch.optim.Adam(groups(theirs), lr=3e-3, fused=True), theirs, 9, seed=1, skip=4)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(("torchs", "decoupled"), [(torch.optim.Adam, False), (torch.optim.AdamW, True)])
def test_the_weights_of_a_group_decay_as_those_of_torch(torchs, decoupled):
    ours, theirs = parameters(), parameters()
    for kind, values, options in ((Adam, ours, {}), (torchs, theirs, {"weight_decay": 0.0, "fused": True})):
        optimizer = kind(groups(values), lr=3e-3, **options)
        optimizer.param_groups[-1].update(weight_decay=0.1, decoupled_weight_decay=decoupled)
        train(optimizer, values, 20, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [(Adam, "amsgrad", True), (Adam, "maximize", True), (RMSprop, "momentum", 0.9), (RMSprop, "weight_decay", 1e-4)],
)
def test_a_setting_that_would_have_no_effect_is_refused(kind, setting, value, quick):
    with pytest.raises(ConfigError, match=f"{setting} of a parameter group has no effect"):
        kind([{"params": parameters(), setting: value}])
    context = quick(algorithm="a2c", overrides={"algorithm.optimizer": kind.__name__.lower()})
    context.run.learner.optimizer.param_groups[0][setting] = value
    with pytest.raises(ConfigError, match=rf"Next: .*torch.optim.{kind.__name__}\(…, {setting}={value}\)"):
        context.train()


def test_the_state_goes_on_exactly_and_fits_torch():
    whole, parts = parameters(), parameters()
    optimizer = Adam(whole, lr=1e-2)
    train(optimizer, whole, 5, seed=1)
    train(optimizer, whole, 5, seed=2)
    first = Adam(parts, lr=1e-2)
    train(first, parts, 5, seed=1)
    second = torch.optim.Adam(parts, lr=1.0, fused=True)
    second.load_state_dict(
        first.state_dict() | {"param_groups": [second.state_dict()["param_groups"][0] | {"lr": 1e-2}]}
    )
    third = Adam(parts, lr=1.0)
    third.load_state_dict(first.state_dict())
    assert third.param_groups[0]["lr"] == 1e-2
    copies = [torch.nn.Parameter(p.detach().clone()) for p in parts]
    fourth = Adam(copies)
    fourth.load_state_dict(third.state_dict())
    train(fourth, copies, 5, seed=2)
    train(second, parts, 5, seed=2)
    for a, b, c in zip(whole, parts, copies, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_the_state_of_other_parameters_is_refused():
    with pytest.raises(ValueError, match="number of parameters"):
        Adam(parameters()).load_state_dict(Adam(parameters()[:2]).state_dict())
    other = Adam([torch.nn.Parameter(torch.zeros(2)) for _ in range(3)])
    with pytest.raises(CheckpointError, match="shape"):
        Adam(parameters()).load_state_dict(other.state_dict())
    forged = Adam(parameters()).state_dict()
    forged["state"][1]["exp_avg"] = forged["state"][1]["exp_avg"].to(torch.float16)
    with pytest.raises(CheckpointError, match=r"state/1/exp_avg should be numbers of torch.float32"):
        Adam(parameters()).load_state_dict(forged)


def test_training_does_not_load_torchs_compiler(tmp_path):
    script = (
        "import sys\n"
        "from maze_core import RunContext\n"
        "overrides = {'algorithm.n_epochs': 1, 'algorithm.epoch_length': 1, 'evaluation.n_episodes': 1}\n"
        "RunContext(env='CartPole-v1', preset='none', overrides=overrides, run_dir='run', silent=True).train()\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert Forked([], tmp_path, os.environ, script).wait(100) == 0


@pytest.mark.parametrize(("setting", "value"), [("amsgrad", None), ("maximize", None), ("fused", 1), ("lr", None)])
def test_settings_of_torchs_optimizers_keep_their_types(setting, value):
    optimizer = torch.optim.Adam(parameters(), fused=True)
    form, saved = form_of(lambda: saved_optimizer(optimizer)), optimizer.state_dict()
    check_state(saved, form)
    saved["param_groups"][0][setting] = value
    with pytest.raises(CheckpointError, match=f"param_groups/0/{setting} should be"):
        check_state(saved, form)
