import subprocess
import sys
import time

import gymnasium
import pytest
import torch

from maze_core.base.errors import ConfigError, LostError, PluginError, RunError
from maze_core.data.batch import Batch, Loss
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.plugins.manager import Hooks
from maze_core.plugins.members import Member


class Objective(Plugin):
    @hookimpl
    def compute_loss(self, policy, batch):
        return self.config


class Times(Plugin):
    """Adds `config` times the total so far: order matters."""

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        loss = yield
        return Loss(loss.total * self.config + 1.0)


class Raises(Plugin):
    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        yield
        raise self.config


class Source(Plugin):
    @hookimpl
    def make_env(self, config, seed, index):
        return self.config


class Note(gymnasium.Wrapper):
    def __init__(self, env, note):
        super().__init__(env)
        self.notes = [*getattr(env, "notes", []), note]


class Wrap(Plugin):
    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        env = yield
        return Note(env, self.config)


class Observer(Plugin):
    """Appends its name to `config["seen"]`; raises what `config` holds under the hook's name."""

    def _see(self, hook):
        self.config["seen"].append((self.config["name"], hook))
        if hook in self.config:
            raise self.config[hook]

    @hookimpl
    def on_run_start(self, run):
        self._see("on_run_start")

    @hookimpl
    def on_epoch_end(self, epoch):
        self._see("on_epoch_end")

    @hookimpl
    def on_run_end(self):
        self._see("on_run_end")


BATCH = Batch({}, {})


def loss(value=2.0):
    return Loss(torch.tensor(value))


def observers(seen, warnings, **raising):
    members = [
        Member("callback", name, Observer({"seen": seen, "name": name, **raising.get(name, {})}), f"dist-{name} 1.2")
        for name in ("a", "b", "c")
    ]
    return Hooks(members, warnings.append)


def test_wrappers_apply_in_order_the_first_innermost():
    members = [
        Member("algorithm", "o", Objective(loss(2.0))),
        Member("callback", "x10", Times(10.0)),
        Member("callback", "x3", Times(3.0)),
    ]
    assert Hooks(members).compute_loss(None, BATCH).total.item() == (2 * 10 + 1) * 3 + 1
    members[1:] = reversed(members[1:])
    assert Hooks(members).compute_loss(None, BATCH).total.item() == (2 * 3 + 1) * 10 + 1


def test_env_wrappers_apply_in_order():
    env = gymnasium.make("CartPole-v1")
    hooks = Hooks(
        [Member("env", "s", Source(env)), Member("wrapper", "1", Wrap("first")), Member("wrapper", "2", Wrap("second"))]
    )
    assert hooks.make_env(PluginConfig(), 0, 0).notes == ["first", "second"]
    assert hooks.make_vector_env(PluginConfig(), 2, 0) is None


@pytest.mark.parametrize("error", [ValueError("bad"), RunError("bad"), ConfigError("bad", "model.x")])
def test_an_error_keeps_its_type_and_names_the_very_plugin(error):
    members = [
        Member("algorithm", "o", Objective(loss()), "maze-o 1.0"),
        Member("callback", "innocent", Times(1.0), "maze-i 1.0"),
        Member("callback", "first", Raises(error), "maze-f 3.1"),
        Member("callback", "outer", Times(1.0), "maze-x 1.0"),
    ]
    with pytest.raises(type(error), match="bad") as caught:
        Hooks(members).compute_loss(None, BATCH)
    assert caught.value is error
    assert error.__notes__ == ["in hook compute_loss of callback plugin 'first' (distribution maze-f 3.1)"]


def test_two_plugins_of_one_class_are_told_apart():
    class Fails(Plugin):
        @hookimpl(wrapper=True)
        def make_env(self, config, seed, index):
            env = yield
            if self.config:
                raise OSError("no display")
            return env

    env = gymnasium.make("CartPole-v1")
    members = [Member("env", "s", Source(env)), Member("wrapper", "w1", Fails(1)), Member("wrapper", "w2", Fails(0))]
    with pytest.raises(OSError, match="no display") as caught:
        Hooks(members).make_env(PluginConfig(), 0, 0)
    assert caught.value.__notes__ == ["in hook make_env of wrapper plugin 'w1'"]


def test_no_plugin_is_blamed_for_the_loss_of_a_cluster():
    with pytest.raises(LostError) as caught:
        Hooks(
            [Member("algorithm", "o", Objective(loss())), Member("callback", "c", Raises(LostError("gone")))]
        ).compute_loss(None, BATCH)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize(("result", "got"), [(None, "None"), (3, "int"), (torch.tensor(1.0), "Tensor")])
def test_a_loss_that_is_no_loss_is_named(result, got):
    hooks = Hooks([Member("algorithm", "o", Objective(result), "maze-o 1.0")])
    with pytest.raises(PluginError, match=rf"compute_loss returned {got} .*algorithm plugin 'o' \(distribution maze-o"):
        hooks.compute_loss(None, BATCH)


@pytest.mark.parametrize(
    ("result", "wrong"),
    [
        (Loss(1.0), "total"),
        (Loss(torch.ones(3)), "total"),
        (Loss(torch.tensor(1.0), {"clipped": 0.5}), "metric 'clipped'"),
        (Loss(torch.tensor(1.0), {"part": torch.ones(()), "parts": torch.ones(2)}), "metric 'parts'"),
    ],
)
def test_the_part_of_a_loss_that_is_no_number_is_named(result, wrong):
    with pytest.raises(PluginError, match=f"returned Loss instead of one whose {wrong} is a tensor of one number"):
        Hooks([Member("algorithm", "o", Objective(result))]).compute_loss(None, BATCH)


class Late(Plugin):
    @hookimpl
    async def on_epoch_end(self, run):
        pass


class Yields(Plugin):
    @hookimpl
    def on_epoch_end(self, run):
        yield


@pytest.mark.parametrize(("plugin", "what"), [(Late, "asynchronous"), (Yields, "a generator")])
def test_a_hook_whose_lines_would_never_run_is_refused(plugin, what):
    with pytest.raises(PluginError, match=f"callback plugin 'c': on_epoch_end is {what}"):
        Hooks([Member("callback", "c", plugin(None))])


class Yielding(Plugin):
    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        loss = None
        for _ in range(self.config):
            loss = yield
        return loss

    @hookimpl(wrapper=True)
    def build_policy(self):
        policy = None
        for _ in range(self.config):
            policy = yield
        return policy


class Builds(Plugin):
    @hookimpl
    def build_policy(self):
        return self.config


@pytest.mark.parametrize("times", [0, 2])
def test_a_wrapper_yields_exactly_once(times):
    hooks = Hooks([Member("algorithm", "o", Objective(loss())), Member("callback", "c", Yielding(times))])
    with pytest.raises(PluginError, match=r"a wrapper of compute_loss must yield exactly once: .*test_manager.py:\d+ "):
        hooks.compute_loss(None, BATCH)
    hooks = Hooks([Member("model", "m", Builds(torch.nn.Linear(1, 1))), Member("callback", "c", Yielding(times))])
    with pytest.raises(PluginError, match="a wrapper of build_policy must yield exactly once"):
        hooks.build_policy(None, None, PluginConfig())


def test_networks_without_shapes_are_refused_before_anything_is_built_with_them():
    lazy = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LazyLinear(1))
    with pytest.raises(PluginError, match=r"the policy: 1\.weight has no shape yet\nNext: "):
        Hooks([Member("model", "m", Builds(lazy))]).build_policy(None, None, PluginConfig())

    class Adds(Plugin):
        @hookimpl
        def build_modules(self):
            return {"predictor": lazy}

    hooks = Hooks([Member("callback", "c", Adds(None))])
    with pytest.raises(PluginError, match=r"callback plugin 'c': predictor: 1\.weight has no shape yet"):
        hooks.build_modules(None)
    lazy(torch.zeros(1, 2))
    assert set(hooks.build_modules(None)[0]) == {"c.predictor"}


def test_a_hook_that_nobody_answers_is_named():
    hooks = Hooks([Member("algorithm", "o", Plugin(None)), Member("env", "e", Plugin(None))])
    with pytest.raises(PluginError, match="no plugin implements hook compute_loss: algorithm plugin 'o' should"):
        hooks.compute_loss(None, BATCH)
    with pytest.raises(PluginError, match="no plugin implements hook make_env: env plugin 'e' should"):
        hooks.make_env(PluginConfig(), 0, 0)
    with pytest.raises(PluginError, match="no plugin implements hook build_policy"):
        hooks.build_policy(gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2), PluginConfig())


def test_an_env_that_is_no_env_is_named():
    with pytest.raises(
        PluginError, match=r"make_env returned str instead of gymnasium.Env; implemented by env plugin 's'"
    ):
        Hooks([Member("env", "s", Source("CartPole"))]).make_env(PluginConfig(), 0, 0)


def test_observers_are_called_in_order():
    seen, warnings = [], []
    observers(seen, warnings).on_run_start(None)
    assert seen == [(name, "on_run_start") for name in "abc"]
    assert warnings == []


def test_a_failing_observer_is_reported_once_and_the_others_go_on():
    seen, warnings = [], []
    hooks = observers(seen, warnings, b={"on_epoch_end": OSError("disk full"), "on_run_end": OSError("again")})
    for _ in range(3):
        hooks.on_epoch_end(None, None)
    hooks.on_run_end(None, None)
    assert [name for name, hook in seen if hook == "on_epoch_end"] == ["a", "b", "c", "a", "c", "a", "c"]
    assert [name for name, hook in seen if hook == "on_run_end"] == ["a", "b", "c"]
    (warning,) = warnings
    for part in ("on_epoch_end", "callback plugin 'b'", "dist-b 1.2", "OSError: disk full"):
        assert part in warning


def test_a_run_error_of_an_observer_ends_the_run():
    with pytest.raises(RunError, match="enough"):
        observers([], [], a={"on_epoch_end": RunError("enough")}).on_epoch_end(None, None)
    with pytest.raises(KeyboardInterrupt):
        observers([], [], a={"on_epoch_end": KeyboardInterrupt()}).on_epoch_end(None, None)


def test_a_config_error_of_an_observer_ends_the_run_only_at_its_start():
    warnings = []
    hooks = observers([], warnings, a={"on_run_start": ConfigError("no such server", "to")})
    with pytest.raises(ConfigError, match="to: no such server"):
        hooks.on_run_start(None)
    assert not warnings
    observers([], warnings, a={"on_epoch_end": ConfigError("no such server")}).on_epoch_end(None, None)
    assert len(warnings) == 1


def test_nothing_can_be_registered_later():
    hooks = Hooks([])
    with pytest.raises(PluginError, match="fixed once it is set up"):
        hooks._manager.register(Objective(None))


class Misspelled(Plugin):
    @hookimpl
    def on_epoch_ends(self, run):
        pass


class WrongArgument(Plugin):
    @hookimpl
    def on_epoch_end(self, run, epoch_number):
        pass


class Unmarked(Plugin):
    def make_env(self, config, seed, index):
        pass


class OldStyle(Plugin):
    @hookimpl(hookwrapper=True)
    def compute_loss(self, policy, batch):
        yield


class NoGenerator(Plugin):
    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        return None


class Idle(Plugin):
    def on_epoch_end_(self, run):
        pass


class WrappingObserver(Plugin):
    @hookimpl(wrapper=True)
    def on_epoch_end(self, run):
        return (yield)


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Misspelled, "no hook on_epoch_ends; did you mean on_epoch_end"),
        (WrongArgument, "on_epoch_end takes epoch_number, which is none of what .* by name: run, epoch"),
        (Unmarked, "make_env lacks the decorator @hookimpl"),
        (OldStyle, "wrapper=True"),
        (NoGenerator, "not a generator"),
        (WrappingObserver, "cannot be a wrapper"),
        (Idle, "implements no hook, so it would do nothing"),
    ],
)
def test_an_implementation_that_does_not_fit_is_refused_by_name(plugin, message):
    with pytest.raises(PluginError, match=rf"callback plugin 'p' \(distribution d 1\): .*{message}"):
        Hooks([Member("callback", "p", plugin(None), "d 1")])


def test_two_runs_live_in_one_process():
    one, two = (Hooks([Member("algorithm", "o", Objective(loss(value)))]) for value in (1.0, 2.0))
    assert [h.compute_loss(None, BATCH).total.item() for h in (one, two, one)] == [1.0, 2.0, 1.0]


def test_the_facade_costs_less_than_three_microseconds():
    hooks = Hooks([Member("algorithm", "o", Objective(loss()))])
    bare = hooks._manager.hook.compute_loss

    def seconds(call):
        start = time.perf_counter()
        for _ in range(2000):
            call()
        return (time.perf_counter() - start) / 2000

    # The smallest of many pairs: other processes can only add time.
    pairs = [
        (seconds(lambda: hooks.compute_loss(None, BATCH)), seconds(lambda: bare(policy=None, batch=BATCH)))
        for _ in range(20)
    ]
    assert min(one for one, _ in pairs) - min(other for _, other in pairs) < 3e-6


def test_env_workers_need_no_torch():
    code = """
import sys
from maze_core.plugins import discovery
from maze_core.plugins.manager import Hooks
config = discovery.load("env", "gymnasium").Config(name="gymnasium", id="CartPole-v1")
env = Hooks.for_envs(config).make_env(config, seed=0, index=0)
assert env.spec.id == "CartPole-v1"
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
