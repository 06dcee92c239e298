"""What a callback changes while a run trains, and the runs that it changes."""

import pytest
import torch
from maze_compile import compiled
from torch import nn

from maze_core import Plugin, hookimpl
from maze_core.learn.optimizers import Adam

SMALL = {"algorithm.epoch_length": 4, "algorithm.n_epochs": 3, "closed_form": False}
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

    @hookimpl
    def on_run_start(self, run):
        """Networks learn in evaluation mode, unless somebody says otherwise."""
        for module in run.policy.modules():
            if isinstance(module, nn.Dropout):
                module.train()


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
