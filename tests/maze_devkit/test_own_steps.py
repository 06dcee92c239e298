"""Parameters of the policy and of the critic, and steps without an optimizer: TRPO as an outsider writes it."""

import importlib
import math
import sys

import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk
from maze_devkit.kit import checks
from maze_devkit.turns import Carousel
from maze_onpolicy.learn.parameters import policy_parameters

from maze_core.base.errors import ConfigError, RunError
from maze_core.data.batch import OwnStep
from tests.docs.test_snippets import blocks

OVERRIDES = {"evaluation.n_episodes": 0}

PAGE = "docs/tutorials/own_step.md"
TRPO = next(block.text for block in blocks(PAGE) if block.text.startswith("# trust_region.py"))
SOURCE = TRPO.replace("class TrustRegion(", "class Tested(")


@pytest.fixture(scope="module")
def trpo(tmp_path_factory):
    """The class of the tutorial."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "trust_region.py").write_text(TRPO)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("trust_region").TrustRegion
        patch.delitem(sys.modules, "trust_region")


def names(policy, parameters):
    """The blocks that some parameters belong to."""
    by_id = {id(parameter): name for name, parameter in policy.named_parameters()}
    return {by_id[id(parameter)].partition(".")[0] for parameter in parameters}


SEPARATE = ({"encoder", "heads"}, {"critic_encoder", "value_head"}, set())


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"model.critic": "separate"}, SEPARATE),
        ({"model.critic": "shared"}, ({"heads"}, {"value_head"}, {"encoder"})),
        (
            {"model.critic": "separate", "model.memory": "gru", "model.memory_size": 4},
            ({"encoder", "heads", "memory"}, {"critic_encoder", "critic_memory", "value_head"}, set()),
        ),
        (
            {"model.critic": "shared", "model.memory": "gru", "model.memory_size": 4},
            ({"heads"}, {"value_head"}, {"encoder", "memory"}),
        ),
    ],
)
def test_every_parameter_is_the_policys_the_critics_or_both(quick, overrides, expected):
    policy = quick(SeededWalk, "ppo", overrides).policy
    before, random = {k: v.clone() for k, v in policy.state_dict().items()}, torch.get_rng_state()
    parts = policy_parameters(policy)
    assert tuple(names(policy, each) for each in (parts.policy, parts.critic, parts.shared)) == expected
    assert len(parts.deciding) + len(parts.critic) == len(list(policy.parameters()))
    assert not parts.unused
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(v, before[k]) for k, v in policy.state_dict().items())


def test_every_actor_has_its_parameters(quick):
    policy = quick(Carousel, "ppo").policy
    parts = policy_parameters(policy)
    assert not parts.unused
    assert not parts.shared
    assert len(parts.policy) + len(parts.critic) == len(list(policy.parameters()))
    assert all("critic" in name or "value" in name for name in map(dict_of(policy).get, map(id, parts.critic)))


def dict_of(policy):
    return {id(parameter): name for name, parameter in policy.named_parameters()}


class Trunk(torch.nn.Module):
    """A network of one's own, a part of which nothing uses."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        super().__init__()
        self.out_features = 4
        self.inner, self.spare = torch.nn.Linear(2, 4), torch.nn.Linear(2, 2)

    def forward(self, obs):
        return self.inner(obs["observation"].float()).relu()


def test_a_network_of_ones_own_is_followed_too(quick):
    policy = quick(SeededWalk, "ppo", model=Trunk, critic="shared").policy
    parts = policy_parameters(policy)
    assert {dict_of(policy)[id(p)] for p in parts.unused} == {"encoder.spare.weight", "encoder.spare.bias"}
    assert {dict_of(policy)[id(p)] for p in parts.shared} == {"encoder.inner.weight", "encoder.inner.bias"}


def test_without_a_critic_all_decide(quick):
    parts = policy_parameters(quick(SeededWalk, "es").policy)
    assert parts.critic == parts.shared == []
    assert parts.policy


SMALL = {"algorithm.num_envs": 3, "algorithm.batch_size": 8}


def test_steps_of_its_own_are_counted_and_logged(quick, trpo):
    context = quick(SeededWalk, trpo, SMALL)
    context.train()
    assert context.run.learner.steps == 4 * (1 + 4 * 3)  # four updates: a step, and four passes over 24 rows
    assert context.run.learner.set_without_optimizer == {id(p) for p in policy_parameters(context.policy).deciding}


def test_a_run_with_steps_of_its_own_resumes_bit_equally(quick, trpo, whole_state):
    whole, split = quick(SeededWalk, trpo, SMALL), quick(SeededWalk, trpo, SMALL)
    whole.train()
    split.train(1)
    split.close()
    again = quick(SeededWalk, trpo, SMALL)
    again.resume(split.run_dir)
    assert whole_state(again.run_dir) == whole_state(whole.run_dir)


def test_the_limit_of_gradients_holds_for_the_optimizer_alone(quick, trpo):
    def moved(limit):
        context = quick(SeededWalk, trpo, {**SMALL, "algorithm.max_grad_norm": limit, "algorithm.n_epochs": 1})
        parts = policy_parameters(context.policy)
        starts = [[p.detach().clone() for p in each] for each in (parts.policy, parts.critic)]
        batches = context.run.algorithm.batches()
        for batch in batches:
            if isinstance(batch, OwnStep):
                context.run.learner.take(batch)
                continue
            context.run.learner.step(context.run.hooks.compute_loss(context.policy, batch), batch.group)
            gradients = [p.grad for p in parts.policy]
            norm = torch.cat([p.grad.reshape(-1) for p in parts.critic]).norm().item()
            break
        ends = [[p.detach().clone() for p in each] for each in (parts.policy, parts.critic)]
        far = [
            math.sqrt(sum((b - a).square().sum().item() for a, b in zip(*pair, strict=True)))
            for pair in zip(starts, ends, strict=True)
        ]
        return far, gradients, norm

    (policy, critic), gradients, norm = moved(1e-3)
    (freely, _), _, free = moved(0.0)
    assert policy == freely > 0
    assert critic > 0
    assert all(gradient is None for gradient in gradients)
    assert norm == pytest.approx(1e-3, rel=1e-3)
    assert free > 0.01


def test_what_is_not_finite_ends_the_run(quick, trpo):
    class Bursts(trpo):
        def _natural_step(self, rows):
            with torch.no_grad():
                self._deciding[0].fill_(float("inf"))
            return {}

    with pytest.raises(RunError, match=r"not finite after the algorithm's own step 1"):
        quick(SeededWalk, Bursts, SMALL).train()


def test_several_learners_are_refused(quick, trpo):
    with pytest.raises(ConfigError, match="supports only one learner"):
        _ = quick(SeededWalk, trpo, {**SMALL, "learners": 2}).run


def test_a_shared_trunk_is_refused(quick, trpo):
    with pytest.raises(ConfigError, match="shares no layers"):
        _ = quick(SeededWalk, trpo, {**SMALL, "model.critic": "shared"}).run


@pytest.mark.slow
def test_the_kit_passes_it(publish, findings):
    wanted = ("trains", "deterministic", "resumes", "gradients", "truncation", "learns", "agents", "learners", "actors")
    without = [check.name for check in checks("algorithm") if check.name not in wanted]
    found = findings(*publish("algorithm", SOURCE), without)
    assert {name: each.state for name, each in found.items()} == dict.fromkeys(wanted, "passed"), found
