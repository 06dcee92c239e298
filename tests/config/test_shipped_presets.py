"""All presets are valid; those of the actor-critics are untouched by a change of defaults."""

from pathlib import Path

import pytest

from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.counting import idle_settings
from maze_core.plugins.config.preferences import preferences
from maze_core.plugins.config.presets import presets, presets_of_source
from tests.repository import files

pytestmark = pytest.mark.usefixtures("known_plugins")
ALGORITHMS = ("ppo", "a2c", "impala")


def shipped(algorithm):
    return presets(discovery.load("algorithm", algorithm), algorithm)


ROOT = Path(__file__).parents[2]
SHIPPED = sorted({(path.relative_to(ROOT).parts[2], path.stem) for path in files("*/presets/**/*.yaml")})
"""The package and the name of every preset in the repository."""
OF_SOURCES = [
    ("maze_atari", "ALE-Breakout-v5"),
    ("maze_atari", "ALE-Pong-v5"),
    ("maze_cutting_2d", "cutting"),
    ("maze_cutting_2d", "cutting-structured"),
    ("maze_pettingzoo", "connect_four_v3"),
    ("maze_pettingzoo", "simple_spread_v3"),
    ("maze_pettingzoo", "tictactoe_v3"),
]
"""Those in packages of env sources."""
ANYWHERE = ("classic", "rainbow")
"""Presets that name no environment."""
NEEDED = {"bc": {"algorithm.dataset": "x"}, "sacfd": {"algorithm.initial_demonstrations": "x"}}
"""Parameters without a default."""


@pytest.mark.parametrize(("package", "name"), SHIPPED)
def test_every_preset_is_valid_for_each_algorithm_of_its_package(package, name):
    """A parameter that was renamed must be renamed in presets too: they apply without being asked for. All count."""
    pytest.importorskip(package)
    algorithms = [claim for claim in discovery.declarations() if claim.kind == "algorithm"]
    claims = [claim for claim in algorithms if claim.entry_point.module.startswith(f"{package}.")]
    own = [claim.name for claim in claims if name in shipped(claim.name)]
    assert own or (package, name) in OF_SOURCES
    for algorithm in own:
        env = "CartPole-v1" if name in ANYWHERE else name
        config = assemble(algorithm, env, preset=name, flags=NEEDED.get(algorithm, {}))
        assert config.env.id == env
        usual = preferences(discovery.load("algorithm", algorithm))
        assert list(idle_settings(config, usual)) == []


@pytest.mark.parametrize(("package", "name"), OF_SOURCES)
def test_presets_of_env_sources_are_valid(package, name):
    claims = [claim for claim in discovery.declarations() if claim.kind == "env"]
    (source,) = [claim.name for claim in claims if claim.entry_point.module.startswith(f"{package}.")]
    algorithms = [owner for title, owner in presets_of_source(discovery.load("env", source)) if title == name]
    assert algorithms
    ids = {"maze_atari": name.replace("-", "/", 1), "maze_pettingzoo": f"games:{name}"}
    env = {"env.name": source} | ({"env.id": ids[package]} if package in ids else {})
    for algorithm in algorithms:
        config = assemble(algorithm, preset=name, flags=env)
        assert (config.algorithm.name, config.env.name) == (algorithm, source)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_preset_says_what_classic_says(algorithm):
    """A value that a preset leaves to the defaults would change its published scores when a default changes."""
    found = shipped(algorithm)
    for name, preset in found.items():
        for part, values in found["classic"].items():
            assert not values.keys() - preset[part].keys(), (name, part)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "my_package:MyEnv-v0"])
def test_classic_fits_any_environment(algorithm, env):
    config = assemble(algorithm, env, preset="classic")
    assert (config.env.id, config.steps, config.algorithm.epoch_length) == (env, None, 25)
    assert (config.model.normalize_observations, config.model.log_std_init) == (False, 0.0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("model", ["mlp", "cnn", "template", "custom"])
def test_a_presets_model_values_hold_for_the_model_that_was_named(algorithm, model):
    """Naming a model drops the rest of the preset's part, but must not bring the algorithm's preferences back."""

    def first_std(preset, *overrides):
        config = assemble(algorithm, "X-v0", preset, flags={"model.name": model}, overrides=overrides).model
        return getattr(config, "log_std_init", None)

    assert first_std("none") == {"ppo": -0.25, "a2c": -1.0, "impala": -1.0}[algorithm]
    assert first_std("classic") == 0.0
    assert first_std("classic", "model.log_std_init=-1") == -1
    assert first_std("none", "model.log_std_init=0") == 0.0


@pytest.mark.parametrize(("algorithm", "wanted"), [("ppo", False), ("a2c", True), ("impala", True)])
def test_normalised_observations_are_preferred_where_they_were_measured_to_help(algorithm, wanted):
    assert assemble(algorithm, "X-v0", "none").model.normalize_observations is wanted
