"""Adam against `torch.optim.Adam`."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from maze_core.training.adam import Adam


def _parameters() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (5,), ())]


def _train(optimizer, parameters, steps: int, seed: int, skip: int | None = None) -> None:
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for number, parameter in enumerate(parameters):
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = None if number == 1 and step == skip else gradient
        optimizer.step()


def _groups(parameters):
    return [{"params": parameters[:2], "lr": 1e-2}, {"params": parameters[2:]}]


def test_steps_are_those_of_torch_bit_for_bit():
    ours, theirs = _parameters(), _parameters()
    _train(Adam(_groups(ours), lr=3e-3), ours, 20, seed=1, skip=7)
    _train(torch.optim.Adam(_groups(theirs), lr=3e-3, fused=True), theirs, 20, seed=1, skip=7)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_the_state_goes_on_exactly_and_fits_torch():
    whole, parts = _parameters(), _parameters()
    optimizer = Adam(whole, lr=1e-2)
    _train(optimizer, whole, 5, seed=1)
    _train(optimizer, whole, 5, seed=2)
    first = Adam(parts, lr=1e-2)
    _train(first, parts, 5, seed=1)
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
    _train(fourth, copies, 5, seed=2)
    _train(second, parts, 5, seed=2)
    for a, b, c in zip(whole, parts, copies, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_the_state_of_other_parameters_is_refused():
    with pytest.raises(ValueError, match="number of parameters"):
        Adam(_parameters()).load_state_dict(Adam(_parameters()[:2]).state_dict())
    other = Adam([torch.nn.Parameter(torch.zeros(2)) for _ in range(3)])
    with pytest.raises(ValueError, match="shape"):
        Adam(_parameters()).load_state_dict(other.state_dict())


def test_training_does_not_load_torchs_compiler():
    script = (
        "import sys, tempfile, pathlib\n"
        "from maze_core import RunContext\n"
        "folder = pathlib.Path(tempfile.mkdtemp()) / 'run'\n"
        "overrides = {'algorithm.n_epochs': 1, 'algorithm.epoch_length': 1, 'evaluation.n_episodes': 1}\n"
        "RunContext(env='CartPole-v1', preset='none', overrides=overrides, run_dir=folder, silent=True).train()\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
