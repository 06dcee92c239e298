"""A setting that does nothing in a run is named when the run begins; where it counts, nothing is said."""

from typing import Annotated, ClassVar

import pytest

from maze_core import Plugin, hookimpl
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.counting import CountsWith, CountsWithout

GRU, PENDULUM, CART = {"model.memory": "gru"}, "Pendulum-v1", "CartPole-v1"
ONLY = "counts only with"


def idle(context):
    return {note.partition(" has no effect: ")[0]: note for note in context.run.notes if "has no effect" in note}


@pytest.mark.parametrize(
    ("env", "algorithm", "values", "named"),
    [
        (CART, "dqn", {"algorithm.priority_beta": 0.7}, f"{ONLY} algorithm.prioritized=true"),
        (CART, "dqn", {"algorithm.atoms": 9, "algorithm.head": "quantile"}, f"{ONLY} algorithm.head=categorical"),
        (CART, "dqn", {"model.temperature": 0.5}, "no distribution of these actions has it"),
        (CART, "ppo", {"model.log_std_init": -2.0}, "no distribution of these actions has it"),
        (CART, "ppo", {"algorithm.sequence_length": 4}, f"{ONLY} model.memory, which is none"),
        (CART, "ppo", {"model.memory_window": 8, **GRU}, "gru has no setting 'window'"),
        (CART, "ppo", {"model.memory_size": 8}, f"{ONLY} model.memory, which is none"),
        (PENDULUM, "sac", {"algorithm.num_batches_per_iter": 2, "algorithm.utd": 0.5}, "algorithm.utd replaces it"),
        (PENDULUM, "sac", {"algorithm.entropy_coef_lr": 0.1, "algorithm.entropy_tuning": False}, "entropy_tuning=true"),
        (
            PENDULUM,
            "td3",
            {"algorithm.target_noise_clip": 0.1, "algorithm.target_noise": 0},
            "target_noise, which is 0",
        ),
        (CART, "es", {"algorithm.momentum": 0.5}, f"{ONLY} algorithm.optimizer=sgd"),
        (CART, "es", {"model.temperature": 0.5}, "the run takes the most likely actions"),
        (PENDULUM, "cma_es", {"model.log_std_init": -1.0}, "the run takes the most likely actions"),
        (CART, "a2c", {"algorithm.beta1": 0.5, "algorithm.optimizer": "rmsprop"}, f"{ONLY} algorithm.optimizer=adam"),
    ],
)
def test_a_setting_without_effect_is_named(quick, env, algorithm, values, named):
    first = next(iter(values))
    found = idle(quick(env, algorithm, values))
    assert list(found) == [first]
    assert named in found[first]


@pytest.mark.parametrize(
    ("env", "algorithm", "values"),
    [
        (CART, "dqn", {"algorithm.priority_beta": 0.7, "algorithm.prioritized": True}),
        (CART, "ppo", {"algorithm.sequence_length": 4, "model.memory_layers": 2, **GRU}),
        (CART, "ppo", {"model.temperature": 0.5}),
        (PENDULUM, "ppo", {"model.log_std_init": -2.0, "model.state_dependent_std": True}),
        (PENDULUM, "ppo", {"model.critic": "separate"}),
        (CART, "es", {"model.temperature": 0.5, "algorithm.deterministic": False}),
        (CART, "cma_es", {"model.temperature": 0.5, "evaluation.deterministic": False}),
        (PENDULUM, "sac", {"algorithm.utd": 0.5, "algorithm.entropy_coef_lr": 0.1}),
        (CART, "ppo", {"algorithm.sequence_length": None, "model.log_std_init": -0.25}),  # the defaults
    ],
)
def test_a_setting_that_counts_is_not(quick, env, algorithm, values):
    assert idle(quick(env, algorithm, values)) == {}


class HintConfig(PluginConfig):
    """A plugin's own parameters."""

    loud: bool = False
    volume: Annotated[int, CountsWith("loud")] = 3
    seconds: Annotated[float, CountsWithout("steps")] = 1.0
    steps: int | None = None
    lead: Annotated[int, CountsWith("model.memory")] = 0


class Hint(Plugin):
    """Observes nothing."""

    Config: ClassVar[type[PluginConfig]] = HintConfig

    @hookimpl
    def on_run_start(self, run):
        """Do nothing."""


def test_plugins_say_so_of_their_own_settings(quick, also_installed):
    also_installed("callback", "hint", Hint)
    found = idle(quick(callbacks={"hint": {"volume": 5, "seconds": 2.0, "steps": 4, "lead": 2}}))
    assert found == {
        "callbacks.hint.volume": "callbacks.hint.volume has no effect: it counts only with callbacks.hint.loud=true",
        "callbacks.hint.seconds": "callbacks.hint.seconds has no effect: callbacks.hint.steps replaces it",
        "callbacks.hint.lead": "callbacks.hint.lead has no effect: it counts only with model.memory, which is none",
    }


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "impala", "dqn", "es"])
def test_nothing_is_said_of_what_presets_and_algorithms_set(quick, algorithm):
    assert idle(quick(CART, algorithm, preset="CartPole-v1" if algorithm != "es" else "auto")) == {}
