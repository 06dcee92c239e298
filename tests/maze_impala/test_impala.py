"""What IMPALA learns from and by: batches, loss, burn-in; on the runner `dev`."""

from contextlib import closing

import numpy as np
import pytest
import torch
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_devkit.probes import Workshop
from maze_impala.config import IMPALAConfig
from maze_impala.trajectories import clipped_rewards

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import Assembly, assemble
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run import api
from tests.training.counted import Table, counting

GAMMA = 0.9
SMALL = {
    "algorithm.num_actors": 2,
    "algorithm.envs_per_actor": 2,
    "algorithm.actors_batch_size": 4,
    "algorithm.n_rollout_steps": 9,
}


def test_classic_is_the_original_maze():
    found = assemble("impala", "Acrobot-v1", preset="classic").algorithm.model_dump()
    expected = {
        "n_epochs": 0,
        "epoch_length": 25,
        "critic_burn_in_epochs": 0,
        "n_rollout_steps": 100,
        "lr": 5e-4,
        "gamma": 0.98,
        "policy_loss_coef": 1.0,
        "value_loss_coef": 0.5,
        "entropy_coef": 0.01,
        "max_grad_norm": 0.0,
        "queue_out_of_sync_factor": 1,
        "actors_batch_size": 8,
        "num_actors": 8,
        "vtrace_clip_rho_threshold": 1.0,
        "vtrace_clip_pg_rho_threshold": 1.0,
        "reward_clipping": "none",
        "device": "cpu",
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("clipping", "expected"),
    [
        ("none", [-20, -1, 0, 0.5, 20]),
        ("abs_one", [-1, -1, 0, 0.5, 1]),
        ("soft_asymmetric", [-1.4989942, -0.29606298, 0, 0.49834, 4.9966464]),
    ],
)
def test_reward_clipping(clipping, expected):
    clipped = clipped_rewards(np.array([-20, -1, 0, 0.5, 20], np.float32), clipping)
    np.testing.assert_allclose(clipped, expected, rtol=1e-5)


STEPS = 9


def expected_steps(tag, truncate, first, last):
    """Steps `first` to `last` of one environment: reward, discount, continues, bootstrap, as they must be."""
    episode, step, rows = 0, 0, []
    for number in range(last):
        step += 1
        over = step == 3 + tag
        reached = 100 * tag + 10 * episode + step
        cut = over and tag in truncate
        discount = 0.0 if over and not cut else GAMMA
        bootstrap = reached if cut or (number == last - 1 and not over) else None
        rows.append((tag + step / 100, discount, float(not over), bootstrap))
        if over:
            episode, step = episode + 1, 0
    return rows[first:]


@pytest.mark.parametrize("truncate", [(), (0, 1, 2, 3), (1, 2)])
def test_batches_hold_whole_trajectories_and_final_values(small, truncate):
    """V(s) = index tells the final, the reset and the current observation apart, over two updates."""
    overrides = {"algorithm.gamma": GAMMA, "evaluation.n_episodes": 4, "evaluation.num_envs": 4}
    overrides["algorithm.normalize_rewards"] = False
    run = small(counting(truncate, 4), overrides=overrides, model=Table).run
    for number in range(2):
        batches = run.algorithm.batches()
        batch = next(batches)
        data = {name: leaf.reshape(STEPS, 4).numpy() for name, leaf in batch.extra.items()}
        for tag in range(4):
            rows = expected_steps(tag, truncate, number * STEPS, (number + 1) * STEPS)
            for t, (reward, discount, continues, bootstrap) in enumerate(rows):
                assert data["reward"][t, tag] == pytest.approx(reward)
                assert data["discount"][t, tag] == pytest.approx(discount)
                assert data["continues"][t, tag] == continues
                if bootstrap is not None:
                    assert data["bootstrap"][t, tag] == pytest.approx(bootstrap)
        assert (data["weight"] == 1).all()
        list(batches)
    assert run.env_steps == 2 * STEPS * 4


class NativeCounting(Plugin):
    """Environments vectorised by gymnasium in a mode that gives filler rows."""

    Config = PluginConfig

    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        import gymnasium

        makers = [lambda tag=tag: CountingEnv(3 + tag, tag, truncate=tag == 1) for tag in range(num_envs)]
        return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP)

    @hookimpl
    def make_env(self, config, seed, index):
        return CountingEnv()


def test_filler_rows_weigh_nothing_and_are_not_counted(small, tmp_path):
    load = discovery.overlay({("env", "native"): NativeCounting})
    config = Assembly(load).assemble("impala", None, "none", flags=SMALL | {"env.name": "native", "seed": 1})
    with closing(api.start(config, tmp_path / "native")) as run:
        check_filler(run)


def check_filler(run):
    batch = next(run.algorithm.batches())
    weight = batch.extra["weight"].reshape(STEPS, 4).numpy()
    # Lengths 3 and 4, each followed by a filler row, on both actors.
    expected = np.ones((STEPS, 2))
    expected[[3, 7], 0] = 0
    expected[[4], 1] = 0
    assert np.array_equal(weight, np.concatenate([expected, expected], 1))
    assert run.env_steps == expected.sum() * 2
    loss = run.hooks.compute_loss(policy=run.policy, batch=batch)
    rubbish = batch.map(lambda leaf: leaf)
    rubbish.extra["reward"] = torch.where(batch.extra["weight"] > 0, batch.extra["reward"], 1e6)
    assert run.hooks.compute_loss(policy=run.policy, batch=rubbish).total == loss.total


def written_loss(config, policy, batch, shape):
    """Total loss by the formulas of the paper, one trajectory and step at a time."""
    distribution, value = policy(batch.obs)
    log_prob = distribution.log_prob(batch.actions)
    entropy = distribution.entropy().mean()
    steps, count = shape
    data = {name: leaf.reshape(shape).double() for name, leaf in batch.extra.items()}
    rhos = (log_prob.detach().double() - batch.extra["log_prob"].double()).exp().reshape(shape)
    values = value.detach().double().reshape(shape)
    advantages, targets = torch.zeros(shape).double(), torch.zeros(shape).double()
    for i in range(count):
        following, correction = None, 0.0
        for t in reversed(range(steps)):
            followed = t < steps - 1 and data["continues"][t, i] == 1
            next_value = values[t + 1, i] if followed else data["bootstrap"][t, i]
            next_target = following if followed else data["bootstrap"][t, i]
            gamma, reward = data["discount"][t, i], data["reward"][t, i]
            rho = min(1.0, rhos[t, i].item())
            delta = rho * (reward + gamma * next_value - values[t, i])
            # Remark 1 of the paper: the recursive form.
            correction = delta + (gamma * rho * correction if followed else 0.0)
            advantages[t, i] = rho * (reward + gamma * next_target - values[t, i])
            targets[t, i] = following = values[t, i] + correction
    policy_loss = -(log_prob * advantages.reshape(-1).float()).mean()
    critic_loss = (value - targets.reshape(-1).float()).square().mean()
    return config.policy_loss_coef * policy_loss + config.value_loss_coef * critic_loss - config.entropy_coef * entropy


def gradients(policy, loss):
    return torch.autograd.grad(loss, list(policy.parameters()), allow_unused=True)


def test_the_loss_and_its_gradient(small):
    """Off-policy, with Dict observations and actions, masks, truncations and terminations inside."""
    overrides = {"algorithm.value_loss_coef": 0.7, "algorithm.entropy_coef": 0.03, "algorithm.n_rollout_steps": 30}
    run = small(Workshop, overrides=overrides, model="template").run
    batch = next(run.algorithm.batches())
    with torch.no_grad():
        for parameter in run.policy.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    batch.extra["bootstrap"] += 3.0
    loss = run.hooks.compute_loss(policy=run.policy, batch=batch)
    expected = written_loss(run.algorithm.config, run.policy, batch, (30, 4))
    assert loss.metrics["rho"] != pytest.approx(1.0, abs=1e-3)
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-4)
    for ours, theirs in zip(gradients(run.policy, loss.total), gradients(run.policy, expected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_behaviour_log_probabilities_are_those_of_the_acting_policy(small, precision):
    """To the learner's rounding: importance weights have no noise of their own."""
    run = small(Workshop, model="template", overrides={"model.image_precision": precision}).run
    for name, parameter in run.policy.heads.named_parameters():
        if not name.endswith("log_std"):
            parameter.data.mul_(100)  # heads begin so small that no rounding shows
    batch = next(run.algorithm.batches())
    with torch.no_grad():
        log_prob = run.policy.distribution(batch.obs).log_prob(batch.actions)
    assert log_prob.isfinite().all()
    torch.testing.assert_close(batch.extra["log_prob"], log_prob, rtol=1e-5, atol=1e-5)


def test_actors_act_with_the_newest_parameters_and_normaliser(small):
    run = small(SeededWalk, overrides={"model.normalize_observations": True}).run
    for _ in range(3):
        batches = run.algorithm.batches()
        batch = next(batches)
        with torch.no_grad():
            log_prob = run.policy.distribution(batch.obs).log_prob(batch.actions)
            torch.testing.assert_close(batch.extra["log_prob"], log_prob, rtol=1e-5, atol=1e-5)
            for parameter in run.policy.parameters():
                parameter += 0.1
        list(batches)
    assert run.policy.normalizer.count == 3 * STEPS * 4


def test_only_the_critic_learns_at_first(small):
    context = small(SeededWalk, overrides={"algorithm.critic_burn_in_epochs": 1, "algorithm.n_epochs": 2})
    policy = context.policy
    before = {name: p.detach().clone() for name, p in policy.named_parameters()}
    context.train(n_epochs=1)
    changed = {name for name, p in policy.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {name for name in before if name.startswith(("critic_encoder", "value_head"))}
    context.train(n_epochs=1)
    assert any(not torch.equal(p, before[n]) for n, p in policy.named_parameters() if n.startswith("heads"))


def test_runs_repeat_and_noise_differs_between_actors_and_rollouts(small):
    seen = []
    for _ in range(2):
        run = small(SeededWalk).run
        rows = []
        for _ in range(3):
            batches = run.algorithm.batches()
            batch = next(batches)
            rows.append((batch.obs["observation"].reshape(STEPS, 4, 2).clone(), batch.actions["action"].clone()))
            list(batches)
        seen.append(rows)
    for (obs, actions), (obs_again, actions_again) in zip(*seen, strict=True):
        assert torch.equal(obs, obs_again)
        assert torch.equal(actions, actions_again)
    seeds = {tuple(obs[0, :, 1].tolist()) for obs, _ in seen[0]}
    assert len(set(next(iter(seeds)))) == 4  # four environments with seeds of their own
    assert len({tuple(actions.tolist()) for _, actions in seen[0]}) == 3
    first = seen[0][0][1].reshape(STEPS, 4)
    assert not torch.equal(first[:, :2], first[:, 2:])


def test_a_resumed_run_is_bit_by_bit_the_uninterrupted_one(small, whole_state, assert_same):
    """Also in the middle of an epoch and of episodes."""
    overrides = {"algorithm.n_epochs": 3, "algorithm.epoch_length": 3, "model.normalize_observations": True}
    parts = {"overrides": overrides, "model": "template"}
    stopped = small(Workshop, **parts)
    stopped.train(n_epochs=1)
    stopped.close()
    resumed = small(Workshop, **parts)
    resumed.resume(stopped.run_dir)
    whole = small(Workshop, **parts)
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))


def test_wrong_settings_are_refused(small):
    with pytest.raises(ConfigError, match="multiple of envs_per_actor"):
        small(SeededWalk, overrides={"algorithm.actors_batch_size": 5})
    with pytest.raises(ConfigError, match="needs a critic"):
        small(SeededWalk, overrides={"model.critic": "none"}).train()
    with pytest.raises(ConfigError, match="needs to know when the run ends"):
        small(SeededWalk, overrides={"algorithm.lr_schedule": "linear", "algorithm.n_epochs": 0}).train()


@pytest.mark.parametrize(
    "values",
    [
        {"actors_batch_size": 10**15},
        {"n_rollout_steps": 10**15},
        {"queue_out_of_sync_factor": 1000, "actors_batch_size": 10**9},
        {"queue_out_of_sync_factor": float("inf")},
        {"num_actors": 10**15},
    ],
)
def test_what_no_memory_holds_is_refused_before_anything_is_built(small, values):
    with pytest.raises(ConfigError, match=r"algorithm\."):
        small(SeededWalk, overrides={f"algorithm.{name}": value for name, value in values.items()}).train()


@pytest.mark.parametrize(
    ("factor", "actors", "envs", "batch", "under_way", "bound"),
    [(1, 8, 1, 8, 16, 2.0), (1, 2, 1, 8, 10, 1.25), (2, 2, 4, 8, 6, 3.0), (0, 1, 1, 8, 8, 0.125)],
)
def test_how_much_is_under_way(factor, actors, envs, batch, under_way, bound):
    config = IMPALAConfig(
        name="impala",
        queue_out_of_sync_factor=factor,
        num_actors=actors,
        envs_per_actor=envs,
        actors_batch_size=batch,
    )
    assert config.rollouts_under_way == under_way
    assert config.max_staleness == bound
