"""The check of `make_vector_env`: sources that are sound, and sources that are broken there alone."""

# ruff: noqa: E501 — a line is a plugin

import pytest
from maze_devkit.findings import Check
from maze_devkit.kit import checks

from tests.maze_devkit.sources import ENV

OFFER = """
    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        return gymnasium.vector.SyncVectorEnv([Walk] * num_envs, autoreset_mode=MODE)
"""
WHOLE = '''

class Walks(gymnasium.vector.VectorEnv):
    """All walks in two arrays; one seed for all."""

    def __init__(self, num_envs):
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(-100, 100, (2,), np.float32)
        self.single_action_space = spaces.Discrete(3)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = self.np_random.normal(size=self.num_envs), np.zeros(self.num_envs, int)
        return self.observe(), {}

    def step(self, actions):
        self.at += actions - 1
        self.steps += 1
        reward, terminated, truncated = self.at.copy(), self.np_random.random(self.num_envs) < 0.05, self.steps >= 40
        last, over = self.observe(), terminated | truncated
        self.at[over], self.steps[over] = self.np_random.normal(size=over.sum()), 0
        return self.observe(), reward, terminated, truncated, {"final_obs": last, "_final_obs": over}

    def observe(self):
        return np.stack([np.clip(self.at, -50, 50), np.zeros(self.num_envs)], 1).astype(np.float32)
'''
SOUND = {
    **{
        mode: ENV + OFFER.replace("MODE", f"gymnasium.vector.AutoresetMode.{mode}")
        for mode in ("NEXT_STEP", "SAME_STEP", "DISABLED")
    },
    "whole": ENV.replace("\n\nclass Tested", f"{WHOLE}\n\nclass Tested")
    + OFFER.replace("gymnasium.vector.SyncVectorEnv([Walk] * num_envs, autoreset_mode=MODE)", "Walks(num_envs)"),
}
DRAWN = "        self.at, self.steps = self.np_random.normal(size=self.num_envs)"
ENDLESS = ("bool(self.np_random.random() < 0.05)", "False")


def changed(returned):
    """A vector environment around another, whose step returns something else."""
    lines = [
        "        from gymnasium.vector import SyncVectorEnv, AutoresetMode",
        "        class Changed(gymnasium.vector.VectorWrapper):",
        "            def step(self, actions):",
        "                seen, reward, terminated, truncated, info = self.env.step(actions)",
        f"                return {returned}",
        "        return Changed(SyncVectorEnv([Walk] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP))",
    ]
    return "return gymnasium.vector.SyncVectorEnv", "\n".join(lines).lstrip() + "\n        return gymnasium.Env"


# which source, what is replaced by what, what the check says
BROKEN = [
    ("SAME_STEP", [changed("seen, 2 * reward, terminated, truncated, info")], "step 1 of environment 0 differs"),
    ("SAME_STEP", [ENDLESS, changed("seen, reward, terminated | truncated, 0 * truncated, info")], "is terminated here"),
    ("SAME_STEP", [changed('seen, reward, terminated, truncated, {**info, "final_obs": seen}')], "last observation of"),
    ("NEXT_STEP", [("[Walk] * num_envs", "[Walk]")], "it makes 1"),
    ("NEXT_STEP", [("[Walk] *", "[lambda: gymnasium.wrappers.DtypeObservation(Walk(), np.float64)] *")], "single_observation_space is"),
    ("whole", [("super().reset(seed=seed)\n" + DRAWN, DRAWN.lstrip())], "with the same seed and actions"),
    ("whole", [("normal(size=self.num_envs), np", "normal() + np.zeros(self.num_envs), np"), ("random(self.num_envs)", "random()")],
     "share a seed"),
    ("whole", [("-50, 50), np.z", "-50, 50) + 199 * (self.steps > 20), np.z")], "is not in"),
    ("whole", [('"final_obs": last', '"final_obs": self.observe()')], "is the first observation of the next"),
    ("whole", [ENDLESS, ("self.np_random.random(self.num_envs) < 0.05, self.steps >= 40", "self.steps >= 40, self.steps > 99")],
     "is truncated with `make_env` is terminated here"),
]  # fmt: skip


def vector_env() -> Check:
    return next(check for check in checks("env") if check.name == "vector_env")


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_source_passes(name, publish, findings):
    found = findings(*publish("env", SOUND[name]), ("import",))
    assert [check for check, finding in found.items() if finding.state != "passed"] == [], found["vector_env"]


def test_gymnasiums_own_vectorised_environments_pass(publish, findings):
    source = ENV.replace("return Walk()", "return gymnasium.make('CartPole-v1')") + OFFER.replace(
        "SyncVectorEnv([Walk] * num_envs, autoreset_mode=MODE)", "x"
    ).replace("gymnasium.vector.x", "gymnasium.make_vec('CartPole-v1', num_envs, 'vector_entry_point')")
    assert findings(*publish("env", source), ("import",))["vector_env"].state == "passed"


@pytest.mark.parametrize(("source", "changes", "what"), BROKEN, ids=range(len(BROKEN)))
def test_a_source_that_is_broken_there_is_caught_by_this_check_alone(source, changes, what, publish, findings):
    text = SOUND[source]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    found = findings(*publish("env", text), ("import",))
    failed = {check: finding.what for check, finding in found.items() if finding.state == "failed"}
    assert list(failed) == ["vector_env"], failed
    assert what in failed["vector_env"]


def test_a_source_without_one_is_not_asked(publish, findings):
    found = findings(*publish("env", ENV), ("import",))["vector_env"]
    assert (found.state, found.what) == ("not applicable", "`make_vector_env` returns nothing")
