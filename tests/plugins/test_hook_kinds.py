"""A hook that would never be called, or would replace another plugin's answer, is refused before the run begins."""

import pytest

from maze_core import ConfigError, Plugin, hookimpl
from maze_core.base.errors import PluginError
from maze_core.collect.policies.base import ActingPolicy
from maze_core.collect.pools.dev import DevRunner
from maze_core.plugins import discovery
from maze_core.plugins.manager import Hooks
from maze_core.plugins.members import Member

ARGUMENTS = {"make_env": "config, seed, index", "build_policy": "config", "compute_loss": "batch"}


def implementing(hook, wrapper=False, base=Plugin):
    """A plugin class with one hook, called with the first arguments that it may have."""
    body = "yield" if wrapper else "return None"
    names: dict = {}
    exec(f"def {hook}(self, {ARGUMENTS.get(hook, 'run')}):\n    {body}", names)
    return type("Mine", (base,), {hook: hookimpl(wrapper=wrapper)(names[hook])})


REFUSED = [
    ("callback", "make_env", True, "its make_env would never be called: only env sources and wrappers"),
    ("algorithm", "make_env", True, "its make_env would never be called"),
    ("model", "make_env", False, "its make_env would never be called"),
    ("env", "on_epoch_end", False, "its on_epoch_end would be called for another object .*; move it to a callback"),
    ("wrapper", "compute_loss", True, "its compute_loss would be called for another object"),
    ("wrapper", "change_rollout", False, "its change_rollout would be called for another object"),
    ("wrapper", "make_env", False, "its make_env would replace what the env answers"),
    ("callback", "compute_loss", False, r"its compute_loss would replace .* algorithm answers; use @hookimpl\(wrapper"),
    ("callback", "build_policy", False, "its build_policy would replace what the model answers"),
]


@pytest.mark.parametrize(("kind", "hook", "wrapper", "message"), REFUSED)
def test_a_hook_of_the_wrong_kind_is_refused_by_name(kind, hook, wrapper, message):
    with pytest.raises(PluginError, match=rf"^{kind} plugin 'mine' \(distribution d 1\): {message}"):
        Hooks([Member(kind, "mine", implementing(hook, wrapper)(None), "d 1")])


ACCEPTED = [
    ("env", "make_env", False),
    ("wrapper", "make_env", True),
    ("wrapper", "build_policy", True),
    ("model", "on_epoch_end", False),
    ("algorithm", "build_policy", False),
    ("algorithm", "on_checkpoint", False),
    ("callback", "build_policy", True),
    ("callback", "change_transitions", False),
]


@pytest.mark.parametrize(("kind", "hook", "wrapper"), ACCEPTED)
def test_a_hook_of_its_kind_is_accepted(kind, hook, wrapper):
    Hooks([Member(kind, "mine", implementing(hook, wrapper)(None))])


@pytest.mark.parametrize(("kind", "base"), [("runner", DevRunner), ("policy", ActingPolicy)])
def test_a_kind_without_hooks_has_none(kind, base):
    members = {"act": lambda self, obs, rngs: {}} if kind == "policy" else {}
    plain = type("Plain", (base,), members)
    assert discovery.misfit(kind, plain) == ""
    reason = discovery.misfit(kind, implementing("on_epoch_end", base=plain))
    assert reason == f"class Mine: its on_epoch_end would never be called: a {kind} has no hooks"


def test_a_run_from_python_is_refused_too(quick):
    with pytest.raises(PluginError, match="callback plugin 'mine': its make_env would never be called"):
        _ = quick(callbacks={"mine": implementing("make_env", True)}).run
    with pytest.raises(ConfigError, match=r"Mine is no runner plugin: .* a runner has no hooks"):
        quick(runner=implementing("on_epoch_end", base=DevRunner))
