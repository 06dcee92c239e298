"""Runs in environments with several agents: what they learn from, report, save and refuse."""

import numpy as np
import pytest
from maze_actors.agents import Round

from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.context import RunContext
from tests.agents import CrowdConfig, CrowdSource, Script

SMALL = {"model.hidden": [8], "model.normalize_observations": True, "algorithm.n_rollout_steps": 5}
ALGORITHMS = {
    "ppo": {},
    "a2c": {},
    "impala": {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4},
    "appo": {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4},
}
NAMES = ("one", "two", "late")


class Watch(Plugin):
    """Notes the rollouts and the metrics of a run."""

    rollouts: list = []  # noqa: RUF012 — read by the test that empties it
    metrics: dict = {}  # noqa: RUF012

    @hookimpl
    def change_rollout(self, run, rollout):
        self.rollouts.append((rollout.valid.copy(), rollout.obs["x"][:-1].copy()))

    @hookimpl
    def on_epoch_end(self, run, epoch):
        self.metrics.update(epoch.metrics)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_on_policy_algorithms_learn_from_rows_that_acted_and_report_each_agent(quick, algorithm):
    Watch.rollouts.clear()
    run = quick(CrowdSource, algorithm, SMALL | ALGORITHMS[algorithm], callbacks={"watch": Watch})
    run.train()
    acted = np.concatenate([x[valid] for valid, x in Watch.rollouts])
    assert 0 < len(acted) < sum(valid.size for valid, _ in Watch.rollouts)
    assert run.run.env_steps == len(acted)
    assert float(run.policy.normalizer.count) == len(acted)
    np.testing.assert_allclose(run.policy.normalizer.x_mean, acted.mean(0), rtol=1e-4, atol=1e-6)
    for kind in ("train", "eval"):
        assert {f"{kind}/actor/{name}/return_mean" for name in NAMES[:2]} <= Watch.metrics.keys()
        assert Watch.metrics[f"{kind}/length_median"] <= 12


def test_evaluation_plays_the_requested_episodes_whatever_the_number_of_copies(quick):
    results = []
    for copies in (1, 3):
        run = quick(CrowdSource, "ppo", SMALL | {"evaluation.n_episodes": 5, "evaluation.num_envs": copies})
        results.append(run.evaluate())
    for metrics in results:
        metrics.pop("time/evaluation_seconds")
    assert results[0]["eval/episodes"] == 5
    assert results[0] == pytest.approx(results[1], nan_ok=True)


@pytest.mark.parametrize("runner", ["dev", "local"])
def test_a_resumed_run_equals_the_uninterrupted_one(quick, whole_state, assert_same, runner):
    """Open transitions, unfinished episodes and normaliser included; in workers too."""
    more = SMALL | {"runner.name": runner}
    whole = quick(CrowdSource, "ppo", more | {"algorithm.n_epochs": 3})
    whole.train()
    half = quick(CrowdSource, "ppo", more)
    half.train()
    state = whole_state(half.run_dir)
    assert any(row for row in state["algorithm"]["collector"]["open"])
    resumed = quick(CrowdSource, "ppo", more | {"algorithm.n_epochs": 3}, run_dir=None)
    resumed.resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))


def test_workers_and_this_process_give_the_same_run(quick, whole_state, assert_same):
    runs = [quick(CrowdSource, "ppo", SMALL | {"runner.name": runner}) for runner in ("dev", "local")]
    for run in runs:
        run.train()
    assert_same(*(whole_state(run.run_dir)["model"] for run in runs))


@pytest.mark.parametrize("algorithm", ["pqn", "es", "rllib-ppo"])
def test_algorithms_that_cannot_are_refused_in_one_line_before_the_first_step(known_plugins, tmp_path, algorithm):
    if algorithm.startswith("rllib"):
        pytest.importorskip("maze_rllib")
    context = RunContext(CrowdSource, algorithm, run_dir=tmp_path / "run", silent=True, preset="none")
    with context, pytest.raises(ConfigError, match="agents act in th") as caught:
        _ = context.run
    assert "\n" not in str(caught.value).partition("\nNext")[0]
    assert not (tmp_path / "run").exists()


class InTurn(Plugin):
    """A game of two agents in turn."""

    Config = CrowdConfig

    @hookimpl
    def make_agents_env(self, config, seed, index):
        first, second = np.zeros(1, np.float32), np.ones(1, np.float32)
        ends = Round({}, {"a": 1, "b": -1}, {"a": second, "b": second})
        return Script([Round({"a": first}), Round({"b": second}), Round({"a": first}), Round({"b": second}), ends])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_updates_in_which_no_transition_was_closed_change_nothing(quick, algorithm):
    small = {"algorithm.n_rollout_steps": 1, "algorithm.epoch_length": 6, "model.hidden": [4]}
    more = {"algorithm.num_actors": 1, "algorithm.actors_batch_size": 1} if algorithm in ("impala", "appo") else {}
    run = quick(InTurn, algorithm, small | more)
    run.train()
    assert run.run.env_steps > 0


def test_a_source_that_returns_something_else_is_named(quick):
    class Wrong(InTurn):
        @hookimpl
        def make_agents_env(self, config, seed, index):
            return 5

    with pytest.raises(PluginError, match="make_agents_env of 'Wrong' returned int"):
        _ = quick(Wrong).run
