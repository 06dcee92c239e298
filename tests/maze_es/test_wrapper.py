"""A policy plugin around the searched policy: in the population, in evaluation, in saved runs."""

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_es.population import LayeredPopulation, make_population
from maze_es.wrapper import PolicyWrapper, WrappedPolicy

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.base import PluginConfig
from maze_core.run.saved import saved_run
from tests.assemblies import assembly_of


class Only(PolicyWrapper):
    """Takes one action where the position is negative, whatever the searched policy would do."""

    class Config(PluginConfig):
        action: int = 2

    def adapt(self, obs, actions):
        assert actions["action"].shape == obs["observation"].shape[:1]
        actions["action"][obs["observation"][:, 0] < 0] = self.config.action
        return actions


TAKEN = []


class Watched(SeededWalk):
    def step(self, action):
        TAKEN.append((self._position, int(action)))
        return super().step(action)


@pytest.fixture
def wrapped(es, also_installed):
    """`wrapped(part, env)`: a context of ES with a policy wrapper; `only` is an installed policy plugin."""
    also_installed("policy", "only", Only)
    TAKEN.clear()
    return lambda part, env=Watched, **overrides: es(env, {"algorithm.policy_wrapper": part} | overrides)


@pytest.mark.parametrize(("part", "action"), [("only", 2), ({"name": "only", "action": 0}, 0)])
def test_the_wrapper_has_the_last_word_everywhere(wrapped, part, action):
    context = wrapped(part, **{"algorithm.deterministic": action == 2})
    assert isinstance(context.policy, WrappedPolicy)
    some = {"observation": torch.randn(4, 2)}
    assert isinstance(make_population(context.policy, context.run.algorithm.space, some), LayeredPopulation)
    context.train()
    negative = {taken for position, taken in TAKEN if position < 0}
    assert negative == {action}
    assert len({taken for position, taken in TAKEN if position >= 0}) > 1 or action == 2
    assert context.compute_action(np.array([-1.0, 0.0])) == action


def test_the_searched_policy_learns_and_is_saved(wrapped):
    context = wrapped("only", env="Acrobot-v1", **{"algorithm.n_epochs": 1, "model.normalize_observations": True})
    before = {name: value.clone() for name, value in context.policy.state_dict().items()}
    context.train()
    changed = {name for name, value in context.policy.state_dict().items() if not value.equal(before[name])}
    assert {name.split(".")[1] for name in changed} == {"encoder", "heads", "normalizer"}
    context.close()
    again = saved_run.open_policy(context.run_dir, assembly=assembly_of(context.run))
    assert isinstance(again.policy, WrappedPolicy)
    again.close()


def test_policies_that_wrap_nothing_are_refused(wrapped):
    with pytest.raises(ConfigError, match="'random' is not a PolicyWrapper"):
        wrapped("random").run  # noqa: B018
    with pytest.raises(ConfigError, match="only wraps another"):
        Only(Only.Config(name="only")).act({}, [])
