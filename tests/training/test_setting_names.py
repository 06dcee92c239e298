"""Errors of collectors name the setting that is wrong, also of algorithms that call their settings otherwise."""

from __future__ import annotations

import pytest
from maze_offpolicy.collect.replay_collector import ReplayCollector
from maze_offpolicy.collect.replay_memory import ReplayMemory
from maze_offpolicy.collect.sizes import check_sequences

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig

pytest.importorskip("maze_sac")


class OwnConfig(PluginConfig):
    """An algorithm of somebody else, with names of its own."""

    name: str = "own"
    room: int = 50


@pytest.fixture
def collector(quick, monkeypatch):
    """`collector(own, arguments)`: a collector of a run whose algorithm has the settings of SAC, or its own."""

    def build(own, *arguments, steps=None, model="none", **named):
        context = quick(algorithm="sac", overrides={"model.memory": model})
        run = context.run
        algorithm = OwnConfig().bound_to(type(run.algorithm), discovery.load) if own else run.config.algorithm
        monkeypatch.setattr(run, "config", run.config.model_copy(update={"algorithm": algorithm, "steps": steps}))
        return ReplayCollector(run, 1, *arguments, **named)

    return build


CASES = {
    "a small buffer": ((2, 15), {"initial_steps": 4}, "replay_buffer_size", r"the buffer must have at least 16 rows"),
    "many first steps": ((2, 50), {"initial_steps": 60}, "initial_buffer_size", "the first 60 steps do not fit into a"),
    "a short run": ((2, 50), {"initial_steps": 40, "steps": 30}, "initial_buffer_size", "the run has only 30"),
    "no such policy": ((2, 50), {"first_policy": "nobody"}, "initial_sampling_policy", "unknown policy 'nobody'"),
    "no goals": ((2, 50), {"her_goals": 4}, "her_goals", "goal"),
    "too much": ((2, 10**13), {"initial_steps": 4}, "replay_buffer_size", "memory"),
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_field_is_named_where_there_is_one(collector, case, own):
    arguments, named, field, message = CASES[case]
    with pytest.raises(ConfigError, match=message) as caught:
        collector(own, *arguments, **named)
    if own:
        assert caught.value.where in ("algorithm", "first_policy.name")
        assert "algorithm." not in str(caught.value).replace("algorithm.her_goals=0", "")
    else:
        assert caught.value.where.startswith(f"algorithm.{field}")


@pytest.mark.parametrize("own", [False, True])
def test_sequences_too(quick, own):
    run = quick(algorithm="sac", overrides={"model.memory": "gru"}).run
    memory, config = ReplayMemory.of(run.policy, 8, 2), run.config
    config = config.model_copy(update={"algorithm": OwnConfig()} if own else {})
    with pytest.raises(ConfigError, match="2 before them for each of 4 environments need 88 rows") as caught:
        check_sequences(config, memory, 20, 4, 4)
    assert caught.value.where == ("algorithm" if own else "algorithm.sequence_length")
