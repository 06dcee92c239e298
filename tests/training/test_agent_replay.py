"""Off-policy runs in which several agents act: resuming, different spaces, and what is refused."""

import pytest

from maze_core.base.errors import ConfigError
from tests.agents import CrowdSource, MixedSource

SMALL = {
    "model.hidden": [8],
    "model.normalize_observations": True,
    "algorithm.replay_buffer_size": 150,
    "algorithm.initial_buffer_size": 30,
    "algorithm.batch_size": 8,
    "algorithm.num_envs": 2,
}
MEMORY = {
    "model.memory": "gru",
    "model.memory_size": 8,
    "algorithm.sequence_length": 5,
    "algorithm.burn_in": 2,
}
CASES = {
    "sac, mixed": (MixedSource, "sac", {"algorithm.critic_hidden": [8], "algorithm.n_step": 2}),
    "rainbow": (
        CrowdSource,
        "dqn",
        {"algorithm.prioritized": True, "algorithm.priority_beta": 1, "algorithm.n_step": 3, "algorithm.noisy": True},
    ),
    "sac, memory": (MixedSource, "sac", {"algorithm.critic_hidden": [8], "algorithm.n_step": 2, **MEMORY}),
    "dqn, memory": (CrowdSource, "dqn", {**MEMORY, "model.memory": "window"}),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * case.endswith("memory")) for case in CASES]
)
def test_a_resumed_run_equals_the_uninterrupted_one(quick, whole_state, assert_same, case):
    source, algorithm, more = CASES[case]
    more = SMALL | more | {"algorithm.epoch_length": 6}
    whole = quick(source, algorithm, more | {"algorithm.n_epochs": 3})
    whole.train()
    half = quick(source, algorithm, more)
    half.train()
    replay = half.run.algorithm.kept["collector"].replay
    assert replay.open_state()["selector"]["lanes"]["steps"].any() if "model.memory" in more else replay.open
    quick(source, algorithm, more | {"algorithm.n_epochs": 3}, run_dir=None).resume(half.run_dir)

    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
    assert whole.evaluate()["eval/actor/one/length_mean"] > 0


def test_rows_of_agents_that_wait_are_neither_stored_nor_seen_by_the_normaliser(quick):
    run = quick(CrowdSource, "sac", SMALL | {"algorithm.critic_hidden": [8], "algorithm.replay_buffer_size": 5000})
    run.train()
    collector = run.run.algorithm.kept["collector"]
    assert collector.replay.steps + collector.state()["sink"]["open"].sum() == run.run.env_steps
    assert float(run.policy.normalizer.count) == run.run.env_steps


def test_what_cannot_be_replayed_is_refused_before_the_first_step(quick):
    with pytest.raises(ConfigError, match="replay_buffer_size: must be at least 48 where 6 agents act"):
        _ = quick(CrowdSource, "sac", SMALL | {"algorithm.replay_buffer_size": 40}).run
    with pytest.raises(
        ConfigError, match="two sequences of 20 steps and the 2 before them for each of 6 agents need 276 rows"
    ):
        _ = quick(CrowdSource, "sac", SMALL | MEMORY | {"algorithm.sequence_length": 20}).run
    with pytest.raises(ConfigError, match="dqn does not support environments with several actors"):
        _ = quick(CrowdSource, "dqn", SMALL | {"model.groups": "per_actor"}).run
