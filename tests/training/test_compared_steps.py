"""Comparisons of repeated steps with the code's find what nobody sees, and leave no trace."""

import re

import pytest
from maze_compile import compiled, cuda
from maze_compile.compiled import CompileRecorder
from maze_compile.cuda import GraphRecorder
from maze_compile.steps import RepeatedSteps
from torch import nn

from maze_core import Plugin, hookimpl
from maze_core.run import building
from tests.interpreted import interpreted as interpreted
from tests.training.changes import RUNS, assert_alike
from tests.training.changes import changed as changed
from tests.training.changes import taken as taken
from tests.training.test_graphs import Rerun

OVERRIDES = {"evaluation.n_episodes": 0}

SCALE = [1.0]


def scaled():
    """A2C whose loss reads something that nobody sees from outside."""
    from maze_a2c.a2c import A2C

    class Own(A2C):
        @hookimpl
        def compute_loss(self, policy, batch):
            loss = super().compute_loss(policy, batch)
            return type(loss)(loss.total * SCALE[0], loss.metrics)

        def loss_constants(self):
            return ()

    return Own


def rescaled(run):
    SCALE[0] = 7.0


@pytest.mark.parametrize("way", ["compiled", "recorded"])
def test_what_nobody_sees_is_found_by_a_comparison(
    interpreted, also_installed, changed, taken, monkeypatch, way, capfd
):
    also_installed("algorithm", "a2c", scaled())
    monkeypatch.setattr(compiled, "_APART", 1)
    monkeypatch.setattr(cuda, "_APART", 1)
    unclipped = {"algorithm.max_grad_norm": 0.0}
    monkeypatch.setitem(globals(), "SCALE", [1.0])
    plain = changed("a2c", rescaled, "off", unclipped)
    monkeypatch.setitem(globals(), "SCALE", [1.0])
    if way == "recorded":
        monkeypatch.setattr(building, "repeated_steps", lambda run: RepeatedSteps(run, GraphRecorder(run, Frozen)))
    ours = changed("a2c", rescaled, "on", unclipped)
    failure = {"compiled": "not compiled", "recorded": "not repeated from a recording"}[way]
    said = capfd.readouterr().err
    assert f"a2c are {failure} from step 9 on: " in said
    assert re.search("other results for the gradient of policy[.].*; the run goes on", said)
    assert_alike(ours, plain)


class Frozen(Rerun):
    """A recording that keeps what the loss read when it was recorded."""

    def __init__(self, batch, take, generators):
        super().__init__(batch, take, generators)
        self._scale = list(SCALE)

    def repeat(self, batch):
        now = list(SCALE)
        SCALE[:] = self._scale
        try:
            return super().repeat(batch)
        finally:
            SCALE[:] = now


def test_comparisons_leave_no_trace(interpreted, changed, monkeypatch, whole_state, assert_same, capfd):
    runs = []
    for number in (0, 5):
        monkeypatch.setattr(compiled, "_APART", 0 if number else 1_000)
        monkeypatch.setattr(
            building,
            "repeated_steps",
            lambda run, number=number: RepeatedSteps(run, CompileRecorder(run, at_once=True, compared=number)),
        )
        runs.append(changed("a2c", lambda run: None))
    never, often = runs
    assert not often.run.repeated.given_up
    assert capfd.readouterr().err.count("compiled from step 1 on") == 2
    states = [whole_state(context.run_dir) for context in (never, often)]
    assert_same(*({**state, "compiled_kinds": None} for state in states))


def test_gradients_that_consist_of_rounding_are_no_difference(interpreted, also_installed, changed, taken, monkeypatch):
    from maze_a2c.a2c import A2C

    class Own(A2C):
        @hookimpl
        def compute_loss(self, policy, batch):
            loss, value = super().compute_loss(policy, batch), policy.value(batch.obs)
            return type(loss)(((value + 1e5) - (value.detach() + 1e5 + 1e-2)).pow(3).mean() * 1e3, loss.metrics)

        def loss_constants(self):
            return ()

    also_installed("algorithm", "a2c", Own)
    monkeypatch.setattr(compiled, "_APART", 0)
    context = changed("a2c", lambda run: None)
    assert not context.run.repeated.given_up


LAYERS = {
    "tanh": lambda: nn.Tanh(),
    "gelu": lambda: nn.GELU(),
    "elu": lambda: nn.ELU(),
    "softplus": lambda: nn.Softplus(),
    "hardtanh": lambda: nn.Hardtanh(),
    "silu": lambda: nn.SiLU(),
    "mish": lambda: nn.Mish(),
    "prelu": lambda: nn.PReLU(),
    "sigmoid": lambda: nn.Sigmoid(),
    "layer norm": lambda: nn.LayerNorm(64),
    "group norm": lambda: nn.GroupNorm(4, 64),
    "rms norm": lambda: nn.RMSNorm(64),
    "bilinear": lambda: nn.Sequential(nn.Linear(64, 8, bias=False), nn.Tanh(), nn.Tanh(), nn.Linear(8, 64, bias=False)),
}


@pytest.mark.parametrize(
    "layers", [("tanh",), pytest.param([name for name in LAYERS if name != "tanh"], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("place", ["before a linear layer", "after one"])
def test_layers_of_torch_are_compiled(interpreted, quick, layers, place):
    class Own(Plugin):
        @hookimpl(wrapper=True)
        def build_policy(self):
            policy = yield
            for layer in layers:
                more = [LAYERS[layer](), nn.Linear(64, 64)]
                more = more if place.startswith("before") else [*reversed(more)]
                policy.encoder = nn.Sequential(policy.encoder, *more)
            policy.encoder.out_features = 64
            return policy

    env, values = RUNS["a2c"]
    runs = [quick(env, "a2c", {**values, "compile": it}, callbacks={"own": Own}) for it in ("off", "on")]
    for context in runs:
        context.train()
    assert not runs[1].run.repeated.given_up
    assert_alike(*runs)
