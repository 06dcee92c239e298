"""What is changed while a run trains counts in compiled and recorded steps as it does in those of the code."""

import pytest
import torch
from maze_compile import compiled, steps, surroundings
from torch import nn

from maze_core import Plugin, hookimpl
from maze_core.base.errors import ConfigError, RunError
from tests.interpreted import interpreted as interpreted
from tests.training.changes import CHANGES, RUNS, Layers, assert_alike, clipped, hooked, reconfigured
from tests.training.changes import changed as changed
from tests.training.changes import taken as taken

OVERRIDES = {"evaluation.n_episodes": 0}

ONE_OF_EACH_KIND = ("entropy", "clipping", "frozen", "wrapped forward")
SEEN = ("optimizer", "no dropout", "slope")
"""That these are seen is tested at once for all changes."""
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in CHANGES if name not in (*ONE_OF_EACH_KIND, *SEEN)]


@pytest.mark.parametrize("name", [*ONE_OF_EACH_KIND, *OTHERS])
def test_a_change_counts_in_compiled_steps(interpreted, changed, taken, name):
    algorithm, change = CHANGES[name]
    plain, ours = (changed(algorithm, change, setting) for setting in ("off", "on"))
    assert len(taken) >= 8
    assert_alike(ours, plain)


def own_tuple(run):
    run.policy.encoder[2].sizes = ([1, 2], 3)


def within_a_tuple(run):
    run.policy.encoder[2].sizes[0].append(3)


def of_another_type(run):
    run.policy.encoder[2].sizes = 1.0


def of_an_equal_value(run):
    run.policy.encoder[2].sizes = 1


def another_class(run):
    run.policy.encoder[3].__class__ = nn.AlphaDropout


def another_parameter(run):
    run.policy.encoder[5].weight = nn.Parameter(run.policy.encoder[5].weight.detach().clone())


def code_of_a_class(run):
    nn.Tanh.forward = lambda self, features: features


def noise_of_a_head(run):
    next(iter(run.policy.heads.values())).noise["more"] = 1.0


def another_precision(run):
    torch.set_default_dtype(torch.float64)


FURTHER = (
    *(own_tuple, within_a_tuple, of_another_type, of_an_equal_value, another_class, another_parameter),
    *(code_of_a_class, noise_of_a_head, another_precision),
)


def test_the_first_step_of_an_epoch_sees_each_change(interpreted, changed, monkeypatch):
    """What is compared there costs a tenth of a look, and misses nothing that one finds."""
    monkeypatch.setattr(nn.Tanh, "forward", nn.Tanh.forward)
    of_a2c = {name: change for name, (algorithm, change) in CHANGES.items() if algorithm == "a2c"}
    missed, done = [], []

    def all_of_them(run):
        surroundings = run.repeated._surroundings
        assert surroundings.unchanged()
        for name, change in {**of_a2c, **{change.__name__: change for change in FURTHER}}.items():
            change(run)
            missed.extend([name] if surroundings.unchanged() else [])
            surroundings.look()
            assert surroundings.unchanged(), name
            done.append(name)

    try:
        with pytest.raises(ConfigError, match="weight of policy was replaced"):
            changed("a2c", all_of_them)
    finally:
        torch.set_default_dtype(torch.float32)
    assert not missed
    assert len(done) == len(of_a2c) + len(FURTHER)


def test_an_unchanged_run_is_looked_at_once(interpreted, changed, monkeypatch):
    looks, look = [], surroundings.Surroundings.look
    monkeypatch.setattr(surroundings.Surroundings, "look", lambda self: (looks.append(0), look(self))[1])
    for algorithm in ("a2c", "sac"):
        looks.clear()
        changed(algorithm, lambda run: None)
        assert len(looks) == 1, algorithm


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


@pytest.mark.parametrize(("change", "epochs"), [(loosened, 2), (thawed, 1), (hooked, 1)])
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
    assert (len(kinds), gave_up) == {loosened: (4, "cpu"), thawed: (2, None), hooked: (0, "cpu")}[change]
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


def test_a_later_kind_is_compiled_beside_the_training(interpreted, changed, taken, monkeypatch):
    for name, value in {"_SETTLED": 1, "REPAYS": 1, "_AHEAD": 3}.items():
        monkeypatch.setattr(compiled, name, value)
    plain, ours = (changed("a2c", clipped, setting, {"algorithm.n_epochs": 4}) for setting in ("off", "auto"))
    assert [kind["from"] for kind in ours.run.state.compiled_kinds.values()] == [[4], [11]]
    assert taken == [5, 6, 7, 8, 12, 13, 14, 15, 16]
    assert_alike(ours, plain)
