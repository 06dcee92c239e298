"""A plugin that works by hooks which the run's algorithm never calls is refused before the first step, or noted."""

import copy

import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_dqn.dqn import DQN
from maze_sac.sac import SAC

from maze_core import Algorithm, AlgorithmConfig, Batch, ConfigError, Loss, Plugin, hookimpl
from maze_core.base.errors import PluginError
from maze_core.data.batch import OwnStep
from maze_core.models.mlp import MlpModel
from maze_core.plugins.config import params

SMALL = {
    "es": {"algorithm.n_rollouts_per_update": 4},
    "cma_es": {"algorithm.population_size": 4, "model.hidden": [4]},
    "alphazero": {"algorithm.n_simulations": 2},
}
ARGUMENTS = {
    "change_rollout": "run, rollout", "change_transitions": "run, batch", "wrap_agent": "run, agent, env",
    "compute_loss": "batch", "on_run_start": "run",
}  # fmt: skip


def with_hooks(*hooks, base=Plugin):
    """A plugin class with these hooks; each counts its calls."""

    class Mine(base):
        """Counts."""

        seen = 0

    for hook in hooks:
        wrapper, names = hook == "compute_loss", {}
        arguments = ARGUMENTS.get(hook, "run, epoch")
        answer = "return (yield)" if wrapper else "return None"
        exec(f"def {hook}(self, {arguments}):\n    type(self).seen += 1\n    {answer}", names)
        setattr(Mine, hook, hookimpl(wrapper=wrapper)(names[hook]))
    return Mine


def run_with(quick, algorithm, plugin, env="CartPole-v1", **parts):
    return quick(env, algorithm, SMALL.get(algorithm), callbacks={"mine": plugin}, **parts).run


REFUSED = [
    ("dqn", ["change_rollout"], "change_transitions in its place, which dqn calls, or maze train a2c, "),
    ("pqn", ["change_transitions"], "change_rollout in its place, which pqn calls, or maze train apex, "),
    ("pg", ["change_transitions", "on_epoch_end", "on_run_start"], "change_rollout in its place, which pg calls"),
    ("es", ["change_rollout", "change_transitions"], "Next: maze train a2c, "),
    ("cma_es", ["compute_loss", "on_epoch_end"], "Next: maze train a2c, "),
    ("cma_es", ["change_transitions"], "Next: maze train apex, "),
    ("a2c", ["on_evaluation"], "on_epoch_end in its place, which a2c calls, or maze train bc"),
    ("impala", ["wrap_agent", "change_rollout"], "Next: maze train a2c, airl, gail, pg, ppo, "),
    ("sac", ["wrap_agent", "change_transitions"], "Next: maze train a2c, airl, gail, pg, ppo, "),
    ("apex", ["wrap_agent"], "Next: maze train a2c, "),
]


@pytest.mark.parametrize(("algorithm", "hooks", "advice"), REFUSED)
def test_a_plugin_without_effect_is_refused_with_what_would_serve(quick, algorithm, hooks, advice):
    with pytest.raises(ConfigError) as caught:
        run_with(quick, algorithm, with_hooks(*hooks), "Pendulum-v1" if algorithm == "sac" else "CartPole-v1")
    assert str(caught.value).startswith("callbacks.mine: mine works by its hook")
    assert hooks[0] in str(caught.value)
    assert f"which {algorithm} never calls" in str(caught.value)
    assert advice in str(caught.value)


def test_one_of_several_is_a_note(quick):
    plugin = with_hooks("change_rollout", "change_transitions", "on_epoch_end")
    run = run_with(quick, "dqn", plugin)
    assert run.notes == ["mine: dqn never calls its change_rollout"]
    assert run_with(quick, "ppo", plugin).notes == ["mine: ppo never calls its change_transitions"]
    assert not run_with(quick, "ppo", with_hooks("change_rollout", "on_evaluation", "on_epoch_end")).notes


def test_the_policy_of_trpo_is_beyond_a_changed_loss(quick):
    (note,) = run_with(quick, "trpo", with_hooks("compute_loss")).notes
    assert note == "mine: trpo's policy takes steps of its own, so only the critic's loss changes"


@pytest.mark.parametrize(
    ("algorithm", "hook"), [("sac", "change_transitions"), ("appo", "change_rollout"), ("es", "compute_loss")]
)
def test_what_is_accepted_is_called(quick, algorithm, hook):
    plugin, env = with_hooks(hook), "Pendulum-v1" if algorithm == "sac" else "CartPole-v1"
    overrides = {"algorithm.initial_buffer_size": 8, "algorithm.batch_size": 4} if algorithm == "sac" else {}
    context = quick(env, algorithm, SMALL.get(algorithm, {}) | overrides, callbacks={"mine": plugin})
    context.train()
    assert plugin.seen


def test_a_hook_that_a_setting_turns_off_does_not_count(quick):
    class Chosen(with_hooks("change_rollout", "change_transitions")):
        """Uses one of two hooks."""

        def __init__(self, config):
            super().__init__(config)
            self.change_transitions = None

    assert not run_with(quick, "ppo", Chosen).notes
    with pytest.raises(ConfigError, match="works by its hook change_rollout, which sac never calls"):
        run_with(quick, "sac", Chosen, "Pendulum-v1")


@pytest.mark.parametrize(("base", "env"), [(DQN, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_an_algorithms_own_hook_counts_as_well(quick, base, env):
    mine = with_hooks("change_rollout", base=base)
    with pytest.raises(ConfigError, match="algorithm: Mine works by its hook change_rollout, which Mine never calls"):
        _ = quick(env, mine).run


def test_a_models_hook_counts_as_well(quick):
    with pytest.raises(ConfigError, match="model: Mine works by its hook change_transitions, which a2c never calls"):
        _ = quick(algorithm="a2c", model=with_hooks("change_transitions", base=MlpModel)).run


class OwnConfig(AlgorithmConfig):
    """The parameters of an algorithm that collects by itself."""

    lr: params.LearningRate = 1e-3
    n_rollout_steps: params.RolloutSteps = 8
    announces: bool = False


class Own(Algorithm):
    """Lets plugins change batches that no collector of Maze made."""

    Config = OwnConfig

    def setup(self, run):
        self._run = run
        if self.config.announces:
            run.hooks.announce("change_transitions")

    def batches(self):
        rows = torch.zeros(4, *self._run.observation_space.shape)
        batch = Batch({"observation": rows}, {}, {"reward": torch.zeros(4)})
        if self.config.announces:
            self._run.hooks.change_transitions(self._run, batch)
        yield batch

    @hookimpl
    def compute_loss(self, policy, batch):
        return Loss(policy.value(batch.obs).square().mean())


class Stepping(Own):
    """Takes all steps itself."""

    def batches(self):
        yield OwnStep(dict, list(self._run.policy.parameters()))


def test_an_algorithm_without_losses_that_does_not_say_so_is_noticed_after_an_epoch(quick):
    quick(SeededWalk, Stepping, callbacks={"mine": with_hooks("on_evaluation")}).train()
    with pytest.raises(ConfigError, match="works by its hook compute_loss, which Stepping never calls"):
        quick(SeededWalk, Stepping, callbacks={"mine": with_hooks("compute_loss")}).train()
    declared = type("Declared", (Stepping,), {"__doc__": "Says so.", "calls": ("compute_loss",)})  # in later epochs
    quick(SeededWalk, declared, callbacks={"mine": with_hooks("compute_loss")}).train()
    with pytest.raises(ConfigError, match="which Silent never calls"):
        _ = quick(
            SeededWalk, type("Silent", (Stepping,), {"calls": ()}), callbacks={"mine": with_hooks("compute_loss")}
        ).run


@pytest.mark.parametrize(
    ("calls", "told"),
    [("compute_loss", "neither a tuple"), (("change_rollouts",), "there is no such hook"), ((3,), "no such hook")],
)
def test_what_an_algorithm_declares_are_hooks(quick, calls, told):
    with pytest.raises(ConfigError, match=rf"Wrong is no algorithm plugin.*its `calls` .*{told}"):
        _ = quick(SeededWalk, type("Wrong", (Own,), {"__doc__": "Wrong.", "calls": calls})).run


def test_only_hooks_are_announced(quick):
    with pytest.raises(PluginError, match="there is no hook 'change_reward' to announce; hooks: make_env, "):
        quick().run.hooks.announce("change_reward")


def test_an_algorithm_that_collects_by_itself_announces_what_it_calls(quick):
    plugin = with_hooks("change_transitions")
    with pytest.raises(ConfigError, match="which Own never calls"):
        _ = quick(SeededWalk, Own, {"algorithm.announces": False}, callbacks={"mine": plugin}).run
    quick(SeededWalk, Own, {"algorithm.announces": True}, callbacks={"mine": plugin}).train()
    assert plugin.seen == 4


@pytest.mark.parametrize(("algorithm", "hook", "name", "way"), [
    ("a2c", "change_rollout", "rollout", "copied"), ("dqn", "change_transitions", "batch", "copied"),
    ("pqn", "change_rollout", "rollout", "copied"), ("pqn", "change_rollout", "rollout", "same"),
    ("dqn", "change_transitions", "batch", "nothing"),
])  # fmt: skip
def test_a_copy_that_nobody_takes_is_refused(quick, algorithm, hook, name, way):
    class Mine(Plugin):
        def _change(self, data):
            return {"copied": copy.copy(data), "same": data, "nothing": None}[way]

        if hook == "change_rollout":
            change_rollout = hookimpl(lambda self, rollout: self._change(rollout))
        else:
            change_transitions = hookimpl(lambda self, batch: self._change(batch))

    context = quick(SeededWalk, algorithm, callbacks={"mine": Mine})
    if way == "copied":
        with pytest.raises(PluginError, match=rf"{hook} of callback plugin 'mine' .*nobody takes\nNext: change what"):
            context.train()
    else:
        context.train()


@pytest.mark.parametrize(("hook", "result", "more"), [
    ("on_epoch_end", {"mine": 1.0}, "; metrics of an epoch are returned from the hook on_metrics"),
    ("on_epoch_end", 3.0, ""), ("on_run_start", [1], ""), ("on_checkpoint", "saved", ""),
])  # fmt: skip
def test_what_an_observer_returns_is_named_once(quick, capfd, hook, result, more):
    mine = type("Mine", (Plugin,), {hook: hookimpl(lambda self, run: result)})
    quick(SeededWalk, "a2c", callbacks={"mine": mine}).train()
    said = [line for line in capfd.readouterr().err.splitlines() if "nobody takes" in line]
    returned = f"returned {type(result).__name__}, which nobody takes{more}"
    assert said == [f"note: {hook} of callback plugin 'mine' {returned}"]
