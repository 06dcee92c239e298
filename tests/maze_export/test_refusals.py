"""An export that does not act as its run does is refused, and leaves no file."""

from __future__ import annotations

import functools

import pytest
import torch
from gymnasium import spaces
from maze_export import export
from torch import nn

from maze_core.base.errors import ConfigError
from tests.maze_export.conftest import Anything

ENV = functools.partial(Anything, spaces.Box(-1, 1, (4,)), spaces.Box(-2, 2, (2,)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.out_features = 4
        self.layer = nn.Linear(4, 4)


class Branching(Encoder):
    def forward(self, obs):
        return self.layer(obs["observation"] if obs["observation"].sum() > 0 else -obs["observation"])


class Comparing(Encoder):
    """What it makes of a row depends on the others."""

    def forward(self, obs):
        return self.layer(obs["observation"] - obs["observation"].mean(0))


class Fixed(Encoder):
    def forward(self, obs):
        return torch.cat([self.layer(row[None]) for row in obs["observation"]])


class Bessel(Encoder):
    """With an operation that ONNX does not have."""

    def forward(self, obs):
        return self.layer(torch.special.bessel_j0(obs["observation"]))


class Painted(Encoder):
    def forward(self, obs):
        if torch.compiler.is_exporting():
            raise ValueError("\x1b[1;31m\x1b[K!!\n\x1b[96mnot here\x1b[0m")
        return self.layer(obs["observation"])


class Reading(Encoder):
    """Branches on a number, for which torch prints the whole graph."""

    def forward(self, obs):
        return self.layer(obs["observation"]) * float(obs["observation"].mean())


@pytest.mark.parametrize(
    ("model", "name", "problem"),
    [
        (Bessel, "a.onnx", "network to onnx: No ONNX function found for .*bessel_j0.*\n.*Next: --out FILE.pt2"),
        (Painted, "a.onnx", "network to onnx: not here\n"),
        (Painted, "a.pt2", "network to pt2: not here\n"),
        (Reading, "a.pt2", "network to pt2: Could not guard on data-dependent expression"),
        (Branching, "a.onnx", "model: torch cannot export this network to onnx: "),
        (Branching, "a.pt2", "model: torch cannot export this network to pt2: "),
        (Fixed, "a.pt2", "model: torch cannot export this network to pt2: "),
        (Comparing, "a.pt2", "does not act as torch does, so it was not written: 'action' is .* in a batch of 1\n"),
    ],
)
def test_networks_that_cannot_be_exported(prepared, tmp_path, capfd, model, name, problem):
    context = prepared(ENV, model=model)
    capfd.readouterr()
    with pytest.raises(ConfigError, match=problem) as caught:
        export.export_policy(context.run, tmp_path / name)
    assert capfd.readouterr() == ("", "")
    assert "x1b" not in repr(str(caught.value))
    first, *hint = str(caught.value).split("\n")
    assert len(hint) == 1
    assert len(first) < 600
    assert not list(tmp_path.glob("*.*"))


def test_an_exporter_that_is_silently_wrong(prepared, tmp_path, monkeypatch):
    name = "a.onnx"
    context = prepared(ENV)
    real, given = export.write, []

    def wrong(policy, *rest):
        bias = policy.policy.action_heads[0][2].linear.bias
        bias += 1e-4
        given.append(real(policy, *rest))
        bias -= 1e-4
        return given[-1]

    monkeypatch.setattr(export, "write", wrong)
    (tmp_path / name).write_bytes(b"of before")
    with pytest.raises(ConfigError, match=r"does not act as torch does, so it was not written: 'action' is "):
        export.export_policy(context.run, tmp_path / name)
    assert given
    assert (tmp_path / name).read_bytes() == b"of before"
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match="so it was not written"):
        export.export_policy(context.run, tmp_path / name)
    assert not list(tmp_path.glob("*.*"))
    assert not list(tmp_path.glob(".*"))


def test_files_that_cannot_be_written(prepared, tmp_path):
    run = prepared(ENV).run
    (tmp_path / "folder.onnx").mkdir()
    wrong = {
        ("a.onnx", "torch"): "--format: must be onnx or pt2, got 'torch'",
        ("a.onnx", "pt2"): r"--out: .*a\.onnx must end in \.pt2",
        ("a.bin", None): r"--out: .*a\.bin must end in \.onnx or \.pt2",
        ("onnx", None): r"--out: .*onnx must end in \.onnx or \.pt2",
        ("no/a.onnx", None): r"--out: cannot write .*a\.onnx: there is no folder .*no",
        ("folder.onnx", None): "--out: cannot write .*: it is a folder",
    }
    for (name, format_), problem in wrong.items():
        with pytest.raises(ConfigError, match=problem):
            export.export_policy(run, tmp_path / name, format_)
    with pytest.raises(ConfigError, match=r"--out: cannot write /proc/a\.pt2: "):
        export.export_policy(run, "/proc/a.pt2")
