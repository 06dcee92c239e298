"""From rollouts to what PPO and A2C learn from: values, advantages, old log-probabilities."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import CountingEnv, SeededWalk, SpacesEnv
from maze_devkit.probes import Doors, Workshop
from maze_onpolicy.learn import advantages
from maze_onpolicy.learn.advantages import normalized
from torch import nn

from maze_core.base.errors import ConfigError, RunError
from maze_core.plugins import discovery
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run import api
from tests.training.counted import Table, counting

GAMMA, LAMBDA, STEPS = 0.9, 0.8, 7


def expected_rows(truncate, first, last):
    """Steps `first` to `last` of the three environments as they must be seen: value, advantage, target [T, 3]."""
    rows = []
    for tag in range(3):
        episode, step, seen = 0, 0, []
        for _ in range(last):
            value = 100 * tag + 10 * episode + step
            step += 1
            following = 100 * tag + 10 * episode + step
            over = step == 3 + tag
            future = 0 if over and tag not in truncate else GAMMA * following
            seen.append((value, tag + step / 100 + future - value, over))
            if over:
                episode, step = episode + 1, 0
        rows.append(seen[first:])
    values = np.array([[seen[t][0] for seen in rows] for t in range(last - first)], float)
    advantages = np.array([[discounted(seen[t:]) for seen in rows] for t in range(last - first)])
    return values, advantages, values + advantages


def discounted(seen):
    total = 0.0
    for later, (_, delta, over) in enumerate(seen):
        total += (GAMMA * LAMBDA) ** later * delta
        if over:
            break
    return total


def table_overrides(**more):
    return {
        "algorithm.gamma": GAMMA,
        "algorithm.gae_lambda": LAMBDA,
        "algorithm.normalize_rewards": False,
        "algorithm.n_rollout_steps": STEPS,
        "evaluation.n_episodes": 3,
        **more,
    }


@pytest.mark.parametrize("truncate", [(), (0, 1, 2), (1,)])
def test_bootstrap_from_the_final_observation(quick, truncate):
    """V(s) = index tells final, reset and current observation apart, over two rollouts."""
    run = quick(counting(truncate, 3), "a2c", table_overrides(), model=Table).run
    for number in range(2):
        (batch,) = run.algorithm.batches()
        expected = expected_rows(truncate, number * STEPS, (number + 1) * STEPS)
        for key, array in zip(("value", "advantage", "target"), expected, strict=True):
            np.testing.assert_allclose(
                batch.extra[key].reshape(STEPS, 3).numpy(), array, rtol=1e-5, atol=1e-4, err_msg=key
            )


class NativeCounting(Plugin):
    """The same three environments, vectorised by gymnasium, which gives filler rows."""

    Config = PluginConfig

    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        makers = [lambda tag=tag: CountingEnv(3 + tag, tag, truncate=tag == 1) for tag in range(num_envs)]
        mode = gymnasium.vector.AutoresetMode.NEXT_STEP
        return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=mode)

    @hookimpl
    def make_env(self, config, seed, index):
        return CountingEnv()


def native_run(run_dir, algorithm="a2c", **more):
    load = discovery.overlay({("env", "native"): NativeCounting, ("model", "table"): TableModel})
    flags = {"env": {"name": "native"}, "model": {"name": "table"}, "algorithm.name": algorithm, "seed": 1}
    flags |= {"algorithm.num_envs": 3, "callbacks.console": None} | table_overrides(**more)
    return api.start(Assembly(load).assemble(flags=flags), run_dir)


class TableModel(Plugin):
    Config = PluginConfig

    @hookimpl
    def build_policy(self, observation_space, action_space, config):
        return Table(observation_space, action_space)


def test_filler_rows_are_not_learnt_from(tmp_path):
    """With gymnasium's filler rows the learner sees the same transitions."""
    run = native_run(tmp_path / "run", **{"algorithm.n_rollout_steps": 12})
    (batch,) = run.algorithm.batches()
    assert len(batch) == run.env_steps < 3 * 12
    values, _, targets = expected_rows((1,), 0, 12)
    for tag in range(3):
        mine = batch.obs["observation"][:, 0] == tag
        count = int(mine.sum())
        np.testing.assert_allclose(batch.extra["value"][mine].numpy(), values[:count, tag])
        whole = 12 // (4 + tag) * (3 + tag)  # episodes that ended inside: the rollout's end does not touch them
        np.testing.assert_allclose(
            batch.extra["target"][mine][:whole].numpy(), targets[:whole, tag], rtol=1e-5, atol=1e-4
        )
    run.close()


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
@pytest.mark.filterwarnings("error")
def test_a_rollout_of_nothing_but_filler(tmp_path, algorithm):
    """With one step per rollout every row may be filler; that update changes nothing and is not nan."""
    small = {"algorithm.n_rollout_steps": 1, "algorithm.num_envs": 1, "algorithm.n_epochs": 1}
    run = native_run(tmp_path / "run", algorithm, **small, **{"algorithm.epoch_length": 9})
    api.carry_out(run)
    assert (run.updates, run.env_steps) == (9, 7)
    assert all(parameter.isfinite().all() for parameter in run.policy.parameters())
    run.close()


def probe_of(context, name="probe"):
    return next(each.plugin for each in context.run.hooks.members if each.name == name)


class Ratios(Plugin):
    """Keeps every batch and how far the probability ratio is from 1 when its loss is computed."""

    def __init__(self, config):
        super().__init__(config)
        self.distances, self.batches = [], []

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        with torch.no_grad():
            log_prob = policy.distribution(batch.obs).log_prob(batch.actions)
            self.distances.append(((log_prob - batch.extra["log_prob"]).exp() - 1).abs().max().item())
        self.batches.append(batch.map(torch.clone))
        return (yield)


class Dropout(nn.Module):
    out_features = 16

    def __init__(self, observation_space):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.5), nn.BatchNorm1d(16))

    def forward(self, obs):
        return self.layers(obs["observation"])


PARTS = {
    "discrete": (SeededWalk, None, {}),
    "shared critic": (SeededWalk, None, {"model.critic": "shared"}),
    "normaliser": (SeededWalk, None, {"model.normalize_observations": True}),
    "dropout": (SeededWalk, Dropout, {}),
    "everything": (Workshop, "template", {"model.normalize_observations": True}),
    "squashed": (Workshop, "template", {"model.distribution": "squashed_gaussian"}),
    "beta": (Workshop, "template", {"model.distribution": "beta"}),
    "masks": (Doors, None, {}),
}


@pytest.mark.parametrize("name", PARTS)
def test_the_ratio_is_one_before_the_first_step_on_a_rollout(quick, name):
    """Acting and learning see the same network, statistics, heads and masks."""
    env, model, overrides = PARTS[name]
    one_pass = {"algorithm.n_optimization_epochs": 1, "algorithm.batch_size": 1000, "algorithm.lr": 0.01}
    context = quick(env, "ppo", one_pass | overrides, model=model, callbacks={"probe": Ratios})
    context.train()
    distances = probe_of(context).distances
    assert len(distances) == 4
    assert max(distances) < 1e-5
    if name == "dropout":  # the test could fail: in training mode the network is another one
        obs = probe_of(context).batches[0].obs
        assert not torch.equal(context.policy.train().value(obs), context.policy.eval().value(obs))


def test_the_ratio_moves_once_steps_were_taken(quick):
    """The probe of the test above detects a ratio that moves."""
    context = quick(overrides={"algorithm.lr": 0.05}, callbacks={"probe": Ratios})
    context.train()
    assert max(probe_of(context).distances) > 1e-2


class Seen(Plugin):
    """Keeps how many rows the normaliser has seen whenever a loss is computed."""

    def __init__(self, config):
        super().__init__(config)
        self.counts = []

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        self.counts.append(int(policy.normalizer.count))
        return (yield)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_a_rollout_is_learnt_from_with_the_statistics_that_acted(quick, algorithm):
    """The normaliser sees its rows after the last step on it."""
    context = quick(SeededWalk, algorithm, {"model.normalize_observations": True}, callbacks={"probe": Seen})
    context.train()
    assert sorted(set(probe_of(context).counts)) == [0, 12, 24, 36]


def test_masks_are_those_of_acting(quick):
    """The stored mask allows the stored action, and masked choices have probability 0."""
    context = quick(Doors, callbacks={"probe": Ratios}, overrides={"algorithm.n_rollout_steps": 30})
    context.train()
    for batch in probe_of(context).batches:
        mask, actions = batch.obs["action_mask"].bool(), batch.actions["action"]
        rows = torch.arange(len(batch))
        assert mask[rows, actions[:, 0]].all()
        assert mask[rows, 3 + actions[:, 1]].all()
        distribution = context.policy.distribution(batch.obs)
        for first, second in itertools.product(range(3), range(4)):
            pair = torch.tensor([[first, second]]).expand(len(batch), 2)
            forbidden = ~(mask[:, first] & mask[:, 3 + second])
            assert (distribution.log_prob({"action": pair}).exp()[forbidden] < 1e-20).all()


class StrictDoors(Doors):
    """Refuses to go on where it has locked every choice."""

    def step(self, action):
        if not self._mask[3:].any():
            raise ValueError("no way through")
        return super().step(action)


@pytest.mark.parametrize("doors", [Doors, StrictDoors])
def test_a_mask_that_leaves_nothing_is_named(quick, doors):
    """All actions masked, whether the environment takes an action then or not."""
    context = quick(lambda: doors(locked=True))
    with pytest.raises(RunError, match="'action_mask' forbids every choice of action 'action', member 1"):
        context.train()


def test_log_probabilities_add_up_over_heads(quick):
    """The stored log-probability is the joint action's; the probabilities of all joint actions sum to 1."""
    action_space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiDiscrete([2, 2])})
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    run = quick(lambda: SpacesEnv(observation_space, action_space), "ppo", {"algorithm.num_envs": 1}).run
    batch = next(run.algorithm.batches())
    distribution = run.policy.distribution(batch.obs)
    total, stored = torch.zeros(len(batch)), torch.zeros(len(batch))
    for a, b, c in itertools.product(range(3), range(2), range(2)):
        joint = {"a": torch.full((len(batch),), a), "b": torch.tensor([[b, c]]).expand(len(batch), 2)}
        probability = distribution.log_prob(joint).exp()
        assert probability.shape == (len(batch),)
        total += probability
        here = (batch.actions["a"] == a) & (batch.actions["b"] == torch.tensor([b, c])).all(-1)
        stored[here] = probability[here]
    torch.testing.assert_close(total, torch.ones(len(batch)))
    torch.testing.assert_close(batch.extra["log_prob"].exp(), stored)


ROWS = 12


@pytest.mark.parametrize(
    ("batch_size", "normalize"), [(1, False), (1, True), (2, True), (ROWS - 1, True), (ROWS, False), (ROWS + 1, True)]
)
def test_every_batch_size_works_or_is_refused(quick, batch_size, normalize):
    """A remainder of one row is neither nan nor lost."""
    overrides = {"algorithm.batch_size": batch_size, "algorithm.normalize_advantages": normalize}
    overrides |= {"algorithm.n_optimization_epochs": 1, "algorithm.n_epochs": 1}
    if normalize and batch_size == 1:
        with pytest.raises(ConfigError, match="batch_size"):
            quick(overrides=overrides)
        return
    context = quick(overrides=overrides, callbacks={"probe": Ratios})
    context.train()
    batches = probe_of(context).batches
    assert sum(map(len, batches)) == 2 * ROWS
    assert min(map(len, batches)) > 1 or batch_size == 1
    assert all(parameter.isfinite().all() for parameter in context.policy.parameters())


def test_a_rollout_of_one_row_with_normalised_advantages(quick):
    """Nothing can be normalised over a single row: no optimizer step, no nan."""
    small = {"algorithm.n_rollout_steps": 1, "algorithm.num_envs": 1, "algorithm.normalize_advantages": True}
    context = quick(overrides=small)
    context.train()
    assert all(parameter.isfinite().all() for parameter in context.policy.parameters())


def test_normalised():
    advantage = torch.tensor([1.0, 2.0, 3.0, 10.0])
    numbers = advantage.numpy().astype(float)
    np.testing.assert_allclose(normalized(advantage), (numbers - numbers.mean()) / numbers.std(), rtol=1e-6)
    assert normalized(torch.tensor([3.0])).tolist() == [0.0]
    apart = normalized(torch.tensor([1.0, 500, 3, 700, 9]), torch.tensor([2, 0, 2, 0, 5]))
    np.testing.assert_allclose(apart, [-1, -1, 1, 1, 0], rtol=1e-6)
    for value in (3.0, 0.1, -7.7, 123.456):  # rounding must not become an advantage
        assert normalized(torch.full((256,), value)).tolist() == [0.0] * 256


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_what_cannot_be_trained_is_refused_before_anything_is_built(quick, algorithm):
    with pytest.raises(ConfigError, match=r"model\.critic: .* needs a critic"):
        _ = quick(algorithm=algorithm, overrides={"model.critic": "none"}).run
    with pytest.raises(ConfigError, match=r"algorithm\.lr_schedule: .* needs to know when the run ends"):
        _ = quick(algorithm=algorithm, overrides={"algorithm.lr_schedule": "linear", "algorithm.n_epochs": 0}).run


@pytest.mark.parametrize("critic", ["shared", "separate"])
@pytest.mark.parametrize("values_at_once", [1, 17, 10_000])
def test_log_probabilities_come_with_the_values(quick, monkeypatch, critic, values_at_once):
    """One pass for both, in parts of any size, gives the values and log-probabilities of a pass for each."""
    monkeypatch.setattr(advantages, "_CHUNK", values_at_once)
    run = quick("CartPole-v1", "ppo", {"model.critic": critic, "algorithm.n_rollout_steps": 40}).run
    rollout = run.algorithm.kept["collector"].collect()
    rows, _ = advantages.advantage_rows(run.policy, rollout, GAMMA, LAMBDA, run.device, log_probs=True)
    alone, _ = advantages.advantage_rows(run.policy, rollout, GAMMA, LAMBDA, run.device)
    assert "log_prob" not in alone.extra
    with torch.no_grad():
        expected = run.policy.distribution(rows.obs).log_prob(rows.actions)
    torch.testing.assert_close(rows.extra["log_prob"], expected)
    for key, leaf in alone.extra.items():
        torch.testing.assert_close(rows.extra[key], leaf, atol=1e-5, rtol=1e-5)
