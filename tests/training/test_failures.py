"""Numbers that are not finite and exceptions end the run at once with a message that names them; no data is lost."""

import pytest
import torch
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import ConfigError, RunError
from maze_core.data.batch import Loss
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.saved.checkpoint import read_checkpoint


class Trap(SeededWalk):
    """A walk that does as told by `way`."""

    way = None

    def step(self, action):
        observation, reward, *ends, info = super().step(action)
        if self.way == "raise":
            raise ZeroDivisionError("the wheel came off")
        if self.way == "observation":
            observation[1] = float("nan")
        if self.way == "reward":
            reward = float("inf")
        if self.way == "last observation":
            observation[0], ends = float("nan"), [True, False]
        return observation, reward, *ends, info


@pytest.fixture
def trap():
    """An environment class of this test's own, to be sprung by setting `way`."""
    return type("Trap", (Trap,), {})


def after_epoch(number, action):
    """A callback that does something after that epoch's evaluation."""

    class After(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            if epoch.epoch == number:
                action()

    return After


def check_what_is_left(context, error, epoch):
    """The error says where the last intact checkpoint is, and it is intact."""
    note = "\n".join(error.__notes__)
    assert f'checkpoints/last, of epoch {epoch}. Next: RunContext.reopen("{context.run_dir}").train()' in note
    saved = read_checkpoint(context.run_dir / "checkpoints" / "last")
    assert saved.state["epoch"] == epoch
    assert all(tensor.isfinite().all() for tensor in saved.model.values())
    assert all(parameter.isfinite().all() for parameter in context.policy.parameters())


def check_nothing_is_left(context, error):
    """The error says that the folder was removed, which may be used again, and advises nothing that cannot be done."""
    note = error.__notes__[-1]
    assert note == f"Nothing learnt had been saved, so {context.run_dir} was removed. Its seed was 1."
    assert "Next:" not in "".join(error.__notes__)
    assert not context.run_dir.exists()
    with pytest.raises(RunError, match="this run is closed"):
        context.train()


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("raise", r"environment 0 \(episode \d+, step \d+\) raised ZeroDivisionError: the wheel came off"),
        ("observation", r"environment 0 \(episode \d+, step \d+\).*observation 'observation'"),
        ("last observation", r"environment 0 .*last observation 'observation'"),
        ("reward", r"environment 0 \(episode \d+, step \d+\).*reward"),
    ],
)
def test_an_environment_that_breaks_in_training(quick, trap, way, message):
    """NaN in an observation or reward ends the run in the same update; so does an exception."""
    context = quick(trap, "a2c", callbacks={"spring": after_epoch(1, lambda: setattr(trap, "way", way))})
    with pytest.raises(RunError, match=message) as caught:
        context.train()
    assert context.run.updates == 2
    check_what_is_left(context, caught.value, 1)
    assert (way == "raise") == isinstance(caught.value.__cause__, ZeroDivisionError)
    trap.way = None
    assert quick(trap, "a2c", callbacks={"spring": after_epoch(0, None)}).resume(context.run_dir).epochs == 2


def test_an_environment_that_breaks_in_evaluation(quick, trap):
    class Spring(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            trap.way = "observation"
            return (yield)

    context = quick(trap, "a2c", {"algorithm.epoch_length": 1}, callbacks={"spring": Spring})
    with pytest.raises(RunError, match="environment 0") as caught:
        context.train()
    check_nothing_is_left(context, caught.value)
    assert (context.run.updates, context.run.epoch, context.run.saving.saved_epoch) == (1, 0, 0)


def spoiler(term, at):
    """A callback that adds `term(policy)` to the loss of the `at`-th batch."""

    class Spoiler(Plugin):
        calls = 0

        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            loss = yield
            Spoiler.calls += 1
            return loss.plus("spoiled", term(policy)) if Spoiler.calls == at else loss

    return Spoiler


def nan_loss(policy):
    return sum(parameter.sum() for parameter in policy.parameters()) * float("nan")


def infinite_loss(policy):
    return next(policy.parameters()).sum() * 0 + float("inf")


def nan_gradient(policy):
    """0 in value; its derivative is infinity times 0."""
    return (policy.value_head.weight * 0).sum().sqrt()


@pytest.mark.parametrize(
    ("term", "named"),
    [
        (nan_loss, r"loss/spoiled.*gradient of policy\."),
        (infinite_loss, "loss/spoiled"),
        (nan_gradient, r"loss/grad_norm, gradient of policy\.value_head\.weight\n"),
    ],
)
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_a_loss_or_gradient_that_is_not_finite(quick, algorithm, term, named):
    """NaN in loss or gradient ends the run before the optimizer step, with a message that names it."""
    one_batch = {"algorithm.batch_size": 100, "algorithm.n_optimization_epochs": 1} if algorithm == "ppo" else {}
    context = quick(algorithm=algorithm, overrides=one_batch, callbacks={"spoiler": spoiler(term, at=4)})
    with pytest.raises(RunError, match=rf"not finite in step 4: .*{named}") as caught:
        context.train()
    assert context.run.updates == 3
    check_what_is_left(context, caught.value, 1)


def test_a_loss_of_ones_own_that_raises_names_its_plugin(quick):
    def broken(policy):
        raise KeyError("coef")

    context = quick(callbacks={"spoiler": spoiler(broken, at=1)})
    with pytest.raises(KeyError) as caught:
        context.train()
    notes = "\n".join(caught.value.__notes__)
    assert "hook compute_loss of callback plugin 'spoiler'" in notes
    check_nothing_is_left(context, caught.value)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory: 8000000 bytes")])
def test_no_memory_in_training_is_told_in_a_line(quick, error):
    class Greedy(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            yield
            raise error

    context = quick(SeededWalk, callbacks={"greedy": Greedy})
    with pytest.raises(RunError, match=r"not enough memory for a training step: .*\nNext: smaller") as caught:
        context.train()
    check_nothing_is_left(context, caught.value)
    assert context.run.summary.outcome == "failed"


def test_a_loss_that_forgets_the_graph(quick):
    class Detached(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            return Loss((yield).total.detach())

    with pytest.raises(Exception, match="grad"):
        quick(callbacks={"detached": Detached}).train()


class Watch(Plugin):
    """Keeps what it was told."""

    def __init__(self, config):
        super().__init__(config)
        self.told = []

    @hookimpl
    def on_run_start(self, run):
        self.told.append("start")

    @hookimpl
    def on_run_end(self, run, summary):
        self.told.append((summary.outcome, summary.reason))


def told(context):
    return next(each.plugin.told for each in context.run.hooks.members if each.name == "watch")


class StartRaising(Plugin):
    @hookimpl
    def on_run_start(self, run):
        raise RunError("no licence")


class EpochRaising(Plugin):
    @hookimpl
    def on_epoch_end(self, run, epoch):
        raise RunError("the store is closed")


class EndRaising(Plugin):
    @hookimpl
    def on_run_end(self, run, summary):
        raise RunError("no goodbye")


def test_an_observer_that_refuses_the_start(quick):
    context = quick(callbacks={"watch": Watch, "raising": StartRaising})
    with pytest.raises(RunError, match="no licence"):
        context.train()
    assert told(context) == ["start", ("failed", "no licence")]
    assert context.run.env_steps == 0


def test_a_setting_of_an_observer_that_cannot_work_ends_the_run_at_its_start(quick):
    class ServerConfig(PluginConfig):
        server: str = "nowhere"

    class Sending(Plugin):
        Config = ServerConfig

        @hookimpl
        def on_run_start(self, run):
            raise ConfigError("there is no nowhere", "server", "Next: name another.")

    context = quick(callbacks={"sending": Sending})
    with pytest.raises(ConfigError, match=r"^callbacks\.sending\.server: there is no nowhere\nNext: name another\."):
        context.train()
    assert context.run.env_steps == 0


def test_an_observer_that_ends_the_run(quick):
    """The epoch's checkpoint was not written yet: the one before it is named."""
    context = quick(callbacks={"watch": Watch, "raising": EpochRaising})
    with pytest.raises(RunError, match="the store is closed") as caught:
        context.train()
    check_what_is_left(context, caught.value, 0)
    assert told(context)[-1] == ("failed", "the store is closed")


def test_an_observer_that_fails_at_the_end_does_not_hide_the_reason(quick, trap, capsys):
    spring = after_epoch(1, lambda: setattr(trap, "way", "raise"))
    context = quick(trap, callbacks={"spring": spring, "raising": EndRaising})
    with pytest.raises(RunError, match="the wheel came off") as caught:
        context.train()
    check_what_is_left(context, caught.value, 1)
    assert "'raising' failed and is no longer called: RunError: no goodbye" in capsys.readouterr().err


def test_asking_for_the_end(quick):
    class Enough(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            run.stop("enough")

    context = quick(callbacks={"enough": Enough, "watch": Watch})
    summary = context.train()
    assert (summary.outcome, summary.reason, summary.epochs) == ("stopped", "enough", 1)
    assert told(context)[-1] == ("stopped", "enough")


def test_parameters_are_untouched_by_a_step_that_was_refused(quick):
    seen = []

    class Look(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            seen.append({name: value.clone() for name, value in policy.state_dict().items()})
            return (yield)

    context = quick(algorithm="a2c", callbacks={"look": Look, "spoiler": spoiler(nan_loss, at=3)})
    with pytest.raises(RunError):
        context.train()
    assert len(seen) == 3
    for name, value in context.policy.state_dict().items():
        assert torch.equal(value, seen[-1][name]), name
