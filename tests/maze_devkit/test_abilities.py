"""Algorithms broken in what they declare: memory, masks, several actors or learners, leaves that critics alone see."""

import pytest
from maze_devkit.kit import checks

from tests.maze_devkit.sources import ALGORITHM

NAMES = ("memory", "masks", "actors", "learners", "tensors", "critic_leaves")
OTHERS = [check.name for check in checks("algorithm") if check.name not in NAMES]

ABLE = ALGORITHM.replace(
    "from maze_core.plugins.config import params",
    "from maze_core.plugins.config import params\nfrom maze_core.models import memory",
)
ABLE = ABLE.replace(
    "    needs_critic = True\n", "    needs_critic = True\n    supports_memory = True\n    supports_actors = True\n"
).replace("policy(batch.obs)", "policy(batch.obs, batch.sequences)")
"""The sound algorithm, for policies with memory and several actors."""

ROLLOUT = "        rollout = self.collector.collect()\n"
SETUP = "        self.run = run\n"
LOSS = "        return Loss(policy_loss"
FORGETS = """
    from maze_core import hookimpl

    @hookimpl(wrapper=True)
    def build_policy(self, observation_space, action_space, config):
        yield
        from maze_models.template import TemplateModel

        config = config.model_copy(update={"memory": "none"})
        return TemplateModel(config).build_policy(observation_space, action_space, config)

    def setup"""
SEES = """
        decide = run.policy.distribution
        run.policy.distribution = lambda obs, *more: decide(
            {**obs, "place": obs["place"] + obs.get("critic/number", 0)} if "place" in obs else obs, *more
        )
"""

UNMASKED = """
        decide = run.policy.distribution
        run.policy.distribution = lambda obs, *more: decide(
            {key: leaf.new_ones(leaf.shape) if "action_mask" in key else leaf for key, leaf in obs.items()}, *more
        )
"""

# the check that is to catch it, what of the sound one is replaced, by what, what the finding says
BROKEN = {
    "a memory that is given no sequences": (
        "memory", "policy(batch.obs, batch.sequences)", "policy(batch.obs)", "without their sequences"),
    "rows that forget what was before them": (
        "memory", "policy(batch.obs, batch.sequences)",
        "policy(batch.obs, memory.separate_rows(policy, len(batch)))",
        "gives no gradient"),
    "a rollout that is read as arrays": (
        "tensors", ROLLOUT, ROLLOUT + "        [leaf.copy() for leaf in rollout.obs.values()]\n",
        "a small run with tensors fails"),
    "tensors that are changed": (
        "tensors", ROLLOUT,
        ROLLOUT + "        [leaf.zero_() for leaf in rollout.obs.values() if hasattr(leaf, 'zero_')]\n",
        "it learns something else"),
    "a memory that is not saved": (
        "memory", '{"collector": self.collector.state()}',
        '{"collector": {**self.collector.state(), **({"memory": {}} if self.run.policy.remembers else {})}}',
        "a resumed run differs"),
    "a memory that is dropped without a word": (
        "memory", "    supports_memory = True\n", "    supports_memory = False\n", "does not refuse it"),
    "an agent that does not look at masks": (
        "masks", SETUP,
        SETUP + UNMASKED, "is masked"),
    "a discount within a decision": (
        "actors", ROLLOUT,
        ROLLOUT + "        import dataclasses\n"
        "        kept = {k: v for k, v in rollout.obs.items() if k != 'turn/elapsed'}\n"
        "        rollout = dataclasses.replace(rollout, obs=kept)\n",
        "it discounts by gamma within a decision"),
    "an actor that does not learn": (
        "actors", LOSS,
        "        if 'turn/actor' in batch.obs:\n"
        "            mine = batch.obs['turn/actor'] == 0\n"
        "            policy_loss = -(log_prob * mine * batch.extra['advantage']).mean()\n" + LOSS,
        "gives no gradient to policies.push"),
    "actors that nothing is declared of": (
        "actors", "    supports_actors = True\n",
        "    supports_actors = False\n\n    def check_actors(self, space): pass\n\n", "does not refuse it"),
    "critics that do not see what is theirs": (
        "critic_leaves", ROLLOUT,
        ROLLOUT + "        if 'critic/number' in rollout.obs: rollout.obs['critic/number'][:] = 0\n",
        "makes no difference"),
    "a policy that sees what is the critics'": ("critic_leaves", SETUP, SETUP + SEES, "the policy's decision depends"),
}  # fmt: skip


BY_ALL = ("a policy that sees what is the critics'",)
"""All checks are asked about it, about others the one that is to catch it."""


@pytest.fixture
def asked(publish, findings):
    """`asked(source, names)`: what these checks find."""

    def ask(source, names=NAMES):
        return findings(*publish("algorithm", source), [*OTHERS, *(name for name in NAMES if name not in names)])

    return ask


@pytest.mark.parametrize("source", [ABLE, ALGORITHM], ids=["declares all", "declares nothing"])
def test_what_is_declared_holds_and_the_rest_is_refused(source, asked):
    found = asked(source)
    assert {name: each.state for name, each in found.items()} == dict.fromkeys(NAMES, "passed"), found


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_algorithm_is_caught_by_the_check_for_it_alone(mistake, asked):
    check, old, new, words = BROKEN[mistake]
    assert ABLE.count(old) == 1
    source = ABLE.replace(old, new)
    if mistake == "a memory that is dropped without a word":
        source = source.replace("\n    def setup", FORGETS)
    found = asked(source, NAMES if mistake in BY_ALL else (check,))
    assert [name for name, each in found.items() if each.state == "failed"] == [check], found
    assert words in found[check].what


TOGETHER = ABLE.replace("    supports_actors = True\n", "    supports_actors = True\n    supports_learners = True\n")
"""It declares several learners, but normalises advantages in the loss: each learner those of its own rows."""
DIVIDED = TOGETHER.replace('normalized(batch.extra["advantage"])', 'batch.extra["advantage"]').replace(
    "        yield rows\n",
    '        rows.extra["advantage"] = normalized(rows.extra["advantage"])\n        yield rows\n',
)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "words"), [(DIVIDED, ""), (TOGETHER, "two learners end elsewhere than one")])
def test_what_two_learners_end_with(source, words, publish, findings):
    """They are processes, which take seconds to start."""
    everything_else = [check.name for check in checks("algorithm") if check.name != "learners"]
    (found,) = findings(*publish("algorithm", source), everything_else).values()
    assert (found.state, found.what[: len(words)]) == ("failed" if words else "passed", words), found
