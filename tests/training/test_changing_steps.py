"""What is changed while a run trains counts in compiled and recorded steps as it does in those of the code."""

import re

import pytest
import torch
from torch import nn

from maze_core import Plugin, hookimpl
from maze_core.base.errors import RunError
from maze_core.learn.optimizers.adam import Adam
from maze_core.learn.repeated import compiled, cuda, steps
from maze_core.learn.repeated.compiled import CompileRecorder
from maze_core.learn.repeated.cuda import GraphRecorder
from maze_core.learn.repeated.steps import RepeatedSteps
from maze_core.run import building
from tests.interpreted import interpreted as interpreted
from tests.training.test_graphs import Rerun

SMALL = {"algorithm.epoch_length": 4, "algorithm.n_epochs": 4, "closed_form": False}
REPLAY = {**SMALL, "algorithm.initial_buffer_size": 40, "algorithm.batch_size": 16}
RUNS = {
    "a2c": ("CartPole-v1", {**SMALL, "algorithm.optimizer": "adam", "algorithm.max_grad_norm": 0.5}),
    "ppo": ("CartPole-v1", SMALL),
    "sac": ("Pendulum-v1", REPLAY),
    "td3": ("Pendulum-v1", REPLAY),
}


def reconfigured(**values):
    def change(run):
        run.algorithm.config = run.algorithm.config.model_copy(update=values)

    return change


def clipped(run):
    run.learner.max_grad_norm = 1e-3


def set_in(kind, **values):
    """Change attributes of all modules of a class."""

    def change(run):
        found = [m for n in (run.policy, *run.modules.values()) for m in n.modules() if isinstance(m, kind)]
        assert found
        for module in found:
            for name, value in values.items():
                assert getattr(module, name) != value
                setattr(module, name, value)

    return change


def without_dropout(run):
    run.policy.encoder[3].training = False


def another_layer(run):
    run.policy.encoder[2] = nn.Softplus(beta=3.0)


def parametrized(run):
    torch.nn.utils.parametrize.register_parametrization(run.policy.encoder[1], "weight", nn.Tanh())


def another_optimizer(run):
    groups = [{key: group[key] for key in ("params", "lr")} for group in run.learner.optimizer.param_groups]
    run.learner.optimizer = torch.optim.SGD(groups, lr=0.1)


def another_adam(run):
    groups = [{**group, "lr": 3e-2, "eps": 1e-3} for group in run.learner.optimizer.param_groups]
    run.learner.optimizer = Adam(groups)


def wrapped_optimizer(run):
    optimizer, step = run.learner.optimizer, run.learner.optimizer.step

    def shorter():
        before = [p.detach().clone() for p in run.learner.parameters]
        step()
        with torch.no_grad():
            for parameter, old in zip(run.learner.parameters, before, strict=True):
                parameter.lerp_(old, 0.9)

    optimizer.step = shorter


def wrapped_clipping(run):
    def halved(gradients, norm):
        torch._foreach_mul_(gradients, 0.5)

    run.learner.clip = halved
    run.learner.max_grad_norm = 1e-9  # so that it is called


def wrapped_loss(run):
    compute, count = run.hooks.compute_loss, [0]

    def growing(policy, batch):
        count[0] += 1
        loss = compute(policy, batch)
        return type(loss)(loss.total + count[0] * sum(p.square().sum() for p in policy.parameters()), loss.metrics)

    run.hooks.compute_loss = growing


def wrapped_forward(run):
    layer = next(m for m in run.policy.modules() if isinstance(m, nn.Linear))
    forward = layer.forward
    layer.forward = lambda features: forward(features) * 0.5


def hooked(run):
    for layer in run.policy.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(lambda module, given, result: result * 0.5)


def heard(run):
    for parameter in run.learner.parameters:
        parameter.register_hook(lambda gradient: gradient * 0.5)


def frozen(run):
    for parameter in list(run.policy.parameters())[:2]:
        parameter.requires_grad_(False)


def moved(run):
    for parameter in run.policy.parameters():
        parameter.data = parameter.data * 0.5


CHANGES = {
    "entropy": ("a2c", reconfigured(entropy_coef=1.0)),
    "clipping": ("a2c", clipped),
    "optimizer": ("a2c", another_optimizer),
    "another Adam": ("a2c", another_adam),
    "wrapped optimizer": ("a2c", wrapped_optimizer),
    "wrapped clipping": ("a2c", wrapped_clipping),
    "wrapped loss": ("a2c", wrapped_loss),
    "wrapped forward": ("a2c", wrapped_forward),
    "hook": ("a2c", hooked),
    "hook of parameters": ("a2c", heard),
    "frozen": ("a2c", frozen),
    "moved": ("a2c", moved),
    "range of ppo": ("ppo", reconfigured(clip_range=1e-3)),
    "clipping of ppo": ("ppo", clipped),
    "dropout": ("a2c", set_in(nn.Dropout, p=0.9)),
    "no dropout": ("a2c", without_dropout),
    "slope": ("a2c", set_in(nn.LeakyReLU, negative_slope=-2.0)),
    "eps of norms": ("a2c", set_in(nn.LayerNorm, eps=1.0)),
    "another layer": ("a2c", another_layer),
    "parametrization": ("a2c", parametrized),
    "clipping of sac": ("sac", clipped),
    "noise of td3": ("td3", reconfigured(target_noise=5.0)),
    "clipping of td3": ("td3", clipped),
}


class Layers(Plugin):
    """Another network, of torch's layers."""

    @hookimpl(wrapper=True)
    def build_policy(self):
        policy = yield
        if policy.encoder.trunk.in_features == 4:
            more = nn.Linear(64, 16), nn.LeakyReLU(), nn.Dropout(0.1), nn.LayerNorm(16), nn.Linear(16, 64), nn.Tanh()
            policy.encoder = nn.Sequential(policy.encoder, *more)
            policy.encoder.out_features = 64
        return policy


def changing(change, epochs=(2,)):
    class Changing(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            if run.epoch in epochs:
                change(run)

    return Changing


@pytest.fixture
def taken(monkeypatch):
    """The numbers of the learner's steps that were taken as compiled ones."""
    steps, take = [], compiled.CompiledStep.take

    def counted(self, batch, filled):
        take(self, batch, filled)
        steps.append(self._run.learner.steps)

    monkeypatch.setattr(compiled.CompiledStep, "take", counted)
    return steps


@pytest.fixture
def changed(quick):
    """Trains a run of `RUNS` that a callback changes."""

    def train(algorithm, change, setting="on", settings=None, epochs=(2,)):
        env, values = RUNS[algorithm]
        callbacks = {"changing": changing(change, epochs), "layers": Layers}
        context = quick(env, algorithm, {**values, "compile": setting, **(settings or {})}, callbacks=callbacks)
        context.train()
        return context

    return train


def assert_alike(ours, plain, rtol=1e-3, atol=1e-4):
    for name, network in {"policy": ours.policy, **ours.run.modules}.items():
        others = {"policy": plain.policy, **plain.run.modules}[name]
        for mine, theirs in zip(network.parameters(), others.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol)


def slow_but_for(algorithm):
    marks = pytest.mark.slow
    return [name if CHANGES[name][0] == algorithm else pytest.param(name, marks=marks) for name in CHANGES]


@pytest.mark.parametrize("name", slow_but_for("a2c"))
def test_a_change_counts_in_compiled_steps(interpreted, changed, taken, name):
    algorithm, change = CHANGES[name]
    plain, ours = (changed(algorithm, change, setting) for setting in ("off", "on"))
    assert len(taken) >= 8
    assert_alike(ours, plain)


def test_a_change_within_an_epoch_counts(interpreted, also_installed, quick, taken):
    """Where `batches` changes something between two steps."""
    from maze_a2c.a2c import A2C

    class Own(A2C):
        def batches(self):
            update = self._run.updates
            if update == 5:
                self.config = self.config.model_copy(update={"entropy_coef": 1.0})
            if update == 7:
                self._run.learner.max_grad_norm = 1e-3
            if update == 9:
                self._run.policy.encoder[2].negative_slope = -2.0
            if update == 10:
                self._run.policy.encoder[3].training = False
            yield from super().batches()

    also_installed("algorithm", "a2c", Own)
    env, values = RUNS["a2c"]
    plain, ours = (quick(env, "a2c", {**values, "compile": it}, callbacks={"layers": Layers}) for it in ("off", "on"))
    for context in (plain, ours):
        context.train()
    assert len(taken) >= 8
    assert_alike(ours, plain)


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


def annealed(run):
    """A number that is a tensor of the loss."""
    run.algorithm.config = run.algorithm.config.model_copy(update={"entropy_coef": 0.1 * run.epoch})


def loosened(run):
    """A number that is an argument of an operation."""
    run.learner.max_grad_norm = 0.1 + 0.1 * run.epoch


def thawed(run):
    for parameter in run.policy.encoder.parameters():
        parameter.requires_grad_(run.epoch % 2 == 0)


def restarting(change):
    class Restarting(Plugin):
        @hookimpl
        def on_run_start(self, run):
            change(run)

        @hookimpl
        def on_epoch_end(self, run, epoch):
            change(run)

    return Restarting


@pytest.mark.parametrize(("change", "epochs"), [(annealed, 2), (loosened, 2), (loosened, 5), (thawed, 1), (hooked, 1)])
def test_what_was_compiled_and_given_up_is_in_the_checkpoint(
    interpreted, quick, taken, whole_state, assert_same, change, epochs, capfd
):
    env, values = RUNS["a2c"]
    settings = {**values, "algorithm.epoch_length": 2, "algorithm.n_epochs": 6, "compile": "on"}
    callbacks = {"restarting": restarting(change)}
    whole, half, rest = (quick(env, "a2c", settings, callbacks=callbacks) for _ in range(3))
    whole.train()
    half.train(epochs)
    half.close()
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))
    kinds, gave_up = whole.run.state.compiled_kinds, whole.run.state.gave_up_on
    assert (len(kinds), gave_up) == {annealed: (1, None), loosened: (4, "cpu"), thawed: (2, None), hooked: (0, "cpu")}[
        change
    ]
    assert ("before it was resumed" in capfd.readouterr().err) == (gave_up is not None and epochs != 2)


def test_a_setting_that_changes_nothing_needs_no_further_code(interpreted, changed, capfd):
    """Each other way back, too: what was compiled serves again."""
    ours = changed("a2c", reconfigured(lr=3e-4, gamma=0.9), epochs=(1, 2))
    back = changed(
        "a2c", lambda run: clipped(run) if run.epoch == 1 else setattr(run.learner, "max_grad_norm", 0.5), epochs=(1, 2)
    )
    assert [len(context.run.state.compiled_kinds) for context in (ours, back)] == [1, 2]
    assert capfd.readouterr().err.count("are compiled from") == 3


def test_what_changes_at_each_step_is_not_compiled(interpreted, also_installed, quick, monkeypatch, capfd):
    from maze_a2c.a2c import A2C

    class Own(A2C):
        def batches(self):
            self.config = self.config.model_copy(update={"gamma": 1 - 0.1 / (1 + self._run.updates)})
            yield from super().batches()

    also_installed("algorithm", "a2c", Own)
    monkeypatch.setattr(steps, "_CHANGES", 5)
    env, values = RUNS["a2c"]
    quick(env, "a2c", {**values, "compile": "on"}).train()
    assert "not compiled from step 8 on: what its steps depend on changes too often" in capfd.readouterr().err


def test_a_step_in_which_nothing_learns_is_explained_plainly(interpreted, changed, capfd):
    def still(run):
        run.policy.requires_grad_(False)

    with pytest.raises(RunError, match="the loss gives no gradient to any parameter"):
        changed("a2c", still)
    assert "the run goes on" not in capfd.readouterr().err


def test_filled_batches_draw_the_numbers_of_others(interpreted, quick, metrics):
    """Rows that weigh nothing would take random numbers of those that count: dropout draws for each."""
    settings = {"algorithm.num_envs": 3, "algorithm.n_rollout_steps": 20, "env.vectorization": "native"}
    settings |= {"algorithm.epoch_length": 12, "closed_form": False}
    runs = [
        quick("CartPole-v1", "a2c", {**settings, "compile": it}, callbacks={"layers": Layers}) for it in ("off", "on")
    ]
    for context in runs:
        context.train()
    assert not runs[1].run.repeated.given_up
    assert_alike(*runs)


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
    "layer", ["tanh", *(pytest.param(name, marks=pytest.mark.slow) for name in LAYERS if name != "tanh")]
)
@pytest.mark.parametrize("place", ["before a linear layer", "after one"])
def test_layers_of_torch_are_compiled(interpreted, quick, layer, place):
    class Own(Plugin):
        @hookimpl(wrapper=True)
        def build_policy(self):
            policy = yield
            more = [LAYERS[layer](), nn.Linear(64, 64)]
            policy.encoder = nn.Sequential(policy.encoder, *(more if place.startswith("before") else reversed(more)))
            policy.encoder.out_features = 64
            return policy

    env, values = RUNS["a2c"]
    runs = [quick(env, "a2c", {**values, "compile": it}, callbacks={"own": Own}) for it in ("off", "on")]
    for context in runs:
        context.train()
    assert not runs[1].run.repeated.given_up
    assert_alike(*runs)


def test_a_later_kind_is_compiled_beside_the_training(interpreted, changed, taken, monkeypatch):
    for name, value in {"_SETTLED": 1, "REPAYS": 1, "_AHEAD": 3}.items():
        monkeypatch.setattr(compiled, name, value)
    plain, ours = (changed("a2c", clipped, setting) for setting in ("off", "auto"))
    assert [kind["from"] for kind in ours.run.state.compiled_kinds.values()] == [[4], [11]]
    assert taken == [5, 6, 7, 8, 12, 13, 14, 15, 16]
    assert_alike(ours, plain)
