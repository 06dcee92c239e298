"""Good plugins that the kit must not refuse, and a few more mistakes that it names."""

import pytest
from maze_devkit.kit import checks

from tests.maze_devkit.sources import ALGORITHM, CALLBACK, ENV, MODEL, WRAPPER


@pytest.fixture
def checked(publish, findings):
    """`checked(kind, source, *names)`: the findings of these checks alone, by name."""

    def run(kind, source, *names):
        return findings(*publish(kind, source), [check.name for check in checks(kind) if check.name not in names])

    return run


def starter(template):
    """The source of a starter, with the names that the kit's tests expect."""
    from maze_devkit.scaffold.names import Names
    from maze_devkit.scaffold.package import package_files

    names = Names("algorithm", "tested", template)
    return package_files(names)[f"{names.package}/{names.name}.py"]


def test_q_learning_with_a_huber_loss_bootstraps_at_time_limits(checked):
    found = checked("algorithm", starter("off_policy_algorithm"), "truncation", "gradients", "deterministic")
    assert {name: each.state for name, each in found.items()} == dict.fromkeys(found, "passed"), found


def test_q_learning_that_takes_a_time_limit_for_an_end_is_found(checked):
    source = starter("off_policy_algorithm").replace("* following", "* 0 * following")
    assert checked("algorithm", source, "truncation")["truncation"].state == "failed"


OWN_MODEL = (
    ALGORITHM
    + """

from maze_devkit import Trial


def trial(case):
    return Trial(run={"model.name": "mlp", "model.hidden": [4]})
"""
)


@pytest.mark.parametrize("values", ['{"model.name": "bare"}', '{"model": {"name": "bare"}}', '{"model": "bare"}'])
def test_an_algorithm_may_bring_a_model_without_the_usual_sizes(publish, checked, values):
    publish("model", MODEL, name="bare")
    source = OWN_MODEL.replace('{"model.name": "mlp", "model.hidden": [4]}', values)
    found = checked("algorithm", source, "trains")
    assert found["trains"].state == "passed", found["trains"]


def test_a_trial_may_change_the_sizes_of_the_usual_models(checked):
    assert checked("algorithm", OWN_MODEL, "trains")["trains"].state == "passed"


VECTORISED = """
import gymnasium
""".join(("", ENV)).replace(
    """    def make_env(self, config, seed, index):
        return Walk()
""",
    """    def make_vector_env(self, config, num_envs, seed):
        return gymnasium.vector.SyncVectorEnv([Walk] * num_envs)
""",
)


def test_a_source_may_have_vectorised_environments_only(checked):
    found = checked("env", VECTORISED, "hooks", "makes", "gymnasium", "seeds", "honesty", "time_limit", "vector_env")
    assert {name: each.state for name, each in found.items()} == dict.fromkeys(found, "passed"), found


def test_a_hook_that_is_never_called_is_found(checked):
    source = CALLBACK + "\n    @hookimpl(wrapper=True)\n    def make_env(self):\n        return (yield)\n"
    found = checked("callback", source, "hooks")["hooks"]
    assert (found.state, "make_env would never be called" in found.what) == ("failed", True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import torch", "torch, which tested_"),
        ("import maze_core.models.mlp", "torch, which maze_core."),
    ],
)
def test_the_module_that_pulls_in_a_heavy_package_is_named(checked, line, said):
    found = checked("wrapper", WRAPPER.replace("import gymnasium\n", f"import gymnasium\n{line}\n", 1), "import")[
        "import"
    ]
    assert (found.state, said in found.what) == ("failed", True), found.what


def test_a_sound_model_still_passes(checked):
    assert checked("model", MODEL, "hooks")["hooks"].state == "passed"
