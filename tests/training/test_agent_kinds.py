"""Runs in which agents have different spaces, or networks of their own."""

import numpy as np
import pytest

from maze_core.base.errors import ConfigError
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from tests.agents import CrowdSource, Mixed, MixedSource

SMALL = {"model.hidden": [8], "model.normalize_observations": True, "algorithm.n_rollout_steps": 9}
IMPALA = {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}


class Watch(Plugin):
    """Notes the rows of each agent that acted, and the metrics of a run."""

    seen: dict = {}  # noqa: RUF012 — emptied by the test that reads it
    metrics: dict = {}  # noqa: RUF012

    @hookimpl
    def change_rollout(self, run, rollout):
        for number in range(3):
            rows = rollout.valid & (rollout.obs["turn/actor"][:-1] == number)
            leaf = rollout.obs["two" if number == 1 and "two" in rollout.obs else "one/x"][:-1]
            self.seen.setdefault(number, []).append(leaf[rows])

    @hookimpl
    def on_epoch_end(self, run, epoch):
        self.metrics.update(epoch.metrics)


@pytest.mark.parametrize(("algorithm", "runner"), [("ppo", "dev"), ("impala", "dev"), ("impala", "local")])
def test_each_network_learns_from_the_rows_of_its_own_agents(quick, algorithm, runner):
    Watch.seen.clear()
    more = SMALL | {"runner.name": runner} | (IMPALA if algorithm == "impala" else {})
    run = quick(MixedSource, algorithm, more, callbacks={"watch": Watch})
    before = {key: value.clone() for key, value in run.run.policy.state_dict().items()}
    run.train()
    shared, own = (run.policy.policies[f"{name}_policy"] for name in ("one", "two"))
    rows = {number: np.concatenate(found) for number, found in Watch.seen.items()}
    assert run.run.env_steps == sum(map(len, rows.values()))
    both = np.concatenate([rows[0], rows[2]])
    assert (float(shared.normalizer.count), float(own.normalizer.count)) == (len(both), len(rows[1]))
    np.testing.assert_allclose(shared.normalizer.x_mean, both.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(own.normalizer.observation_mean, rows[1].mean(0), rtol=1e-4, atol=1e-5)
    for name, parameter in run.policy.named_parameters():
        assert not parameter.equal(before[name]), name
    shares = [Watch.metrics[f"train/actor/{name}/share"] for name in ("one", "two", "late")]
    assert sum(shares) == pytest.approx(1)
    assert {"train/actor/two/return_mean", "eval/actor/one/return_mean"} <= Watch.metrics.keys()


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ("per_actor", ["late_policy", "one_policy", "two_policy"]),
        ({"team": ["one", "late"], "rival": ["two"]}, ["rival_policy", "team_policy"]),
    ],
)
def test_agents_with_equal_spaces_may_have_networks_of_their_own(quick, groups, names):
    run = quick(CrowdSource, "ppo", SMALL | {"model.groups": groups, "model.joint_critic": True})
    run.train()
    assert sorted(run.policy.policies) == names
    assert ("actor_id" in run.policy.policies[names[-1]].observation_space.spaces) == (names[-1] == "team_policy")
    assert run.policy.joint_critic is not None
    assert run.evaluate()["eval/episodes"] > 0


def test_groups_that_do_not_fit_are_refused_before_the_first_step(quick):
    with pytest.raises(ConfigError, match="the actors 'one' and 'two' of the group 'team' have different spaces"):
        _ = quick(MixedSource, "ppo", SMALL | {"model.groups": {"team": ["one", "two"], "rest": ["late"]}}).run
    with pytest.raises(ConfigError, match="names the unknown actor 'three'"):
        _ = quick(CrowdSource, "ppo", SMALL | {"model.groups": {"team": ["one", "two", "three"]}}).run


class Rich(Mixed):
    """`two` is paid a thousand times as much as the others."""

    def turn(self, rewards, terminated, truncated):
        return super().turn({n: r * (1000 if n == "two" else 1) for n, r in rewards.items()}, terminated, truncated)


class RichSource(CrowdSource):
    @hookimpl
    def make_agents_env(self, config, seed, index):
        return Rich()


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_rewards_of_another_size_do_not_change_what_the_other_networks_learn(quick, algorithm):
    """Advantages are normalised for each network apart; else those of the poor would vanish."""
    more = SMALL | {"algorithm.normalize_advantages": True, "algorithm.max_grad_norm": 1e9}
    runs = [quick(source, algorithm, more) for source in (MixedSource, RichSource)]
    networks = []
    for run in runs:
        run.train(n_epochs=1)
        networks.append({k: v for k, v in run.policy.state_dict().items() if k.startswith("policies.one_policy")})
    assert any("heads" in key for key in networks[0])
    for key, value in networks[0].items():
        np.testing.assert_allclose(value, networks[1][key], rtol=1e-4, atol=1e-6, err_msg=key)
