"""Any configuration that looks valid runs, or is refused by one clear error before the first step."""

import math
from contextlib import closing

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from maze_a2c.config import A2CConfig
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_ppo.config import PPOConfig

from maze_core.base.errors import ConfigError, RunError
from maze_core.collect.pools.dev import DevConfig
from maze_core.envs.sources.factory import FactorySource
from maze_core.models.mlp import MlpConfig
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.config.run import EvaluationConfig
from maze_core.run import api

SMALL = {
    "n_rollout_steps": st.integers(1, 6),
    "epoch_length": st.integers(1, 3),
    "n_epochs": st.integers(0, 3),
    "n_episodes": st.integers(1, 3),
    "num_envs": st.integers(1, 4),
    "n_optimization_epochs": st.integers(1, 2),
    "batch_size": st.integers(1, 9) | st.just(10**15),
    "hidden": st.lists(st.integers(1, 5), max_size=3),
    "device": st.sampled_from(["cpu", "auto"]),
    "distribution": st.sampled_from(["gaussian", "beta", "squashed_gaussian", "categorical", {"name": "gaussian"}]),
    "memory": st.sampled_from(["none", "gru", "lstm", "window", "linear", {"name": "linear", "size": 3}]),
}
"""Values inside the range where large ones would only make the test slow, and names of plugins."""

ODD = st.sampled_from(
    [0, -1, 1e-30, 1e30, 10**15, float("nan"), float("inf"), None, "much", [], [0], [10**9] * 2, {}, True]
)
"""Values for any field: outside its range, of a wrong type, or of a size that no memory holds."""


def strategy(name, schema, definitions):
    """Values inside the range of one field, its edges among them, by its JSON Schema."""
    if name in SMALL:
        return SMALL[name]
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return st.one_of([strategy("", each, definitions) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("type") == "boolean":
        return st.booleans()
    if schema.get("type") == "null":
        return st.none()
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = min(schema.get("maximum", schema.get("exclusiveMaximum", low + 3)), low + 3)
    if schema.get("type") == "integer":
        return st.integers(low + ("exclusiveMinimum" in schema), high)
    if schema.get("type") == "number":
        return st.floats(low, high, exclude_min="exclusiveMinimum" in schema, width=16)
    if schema.get("type") == "array":
        return st.lists(strategy("", schema["items"], definitions), max_size=2)
    if schema.get("type") == "object":
        return st.just({})
    raise AssertionError(f"no values for {name}: {schema}")


def values_of(part, model):
    """Values for every field of a configuration model by path, and its paths."""
    schema = model.model_json_schema()
    fields = {name: field for name, field in schema["properties"].items() if name != "name"}
    return {f"{part}.{name}": strategy(name, field, schema.get("$defs", {})) for name, field in fields.items()}


SPACES = (
    (spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3, start=2)),
    (spaces.Discrete(5), spaces.Box(np.array([-2, 0], np.float32), np.array([1, 5], np.float32))),
    (spaces.Dict({"a": spaces.MultiBinary(2), "b": spaces.Box(-np.inf, np.inf, (1,), np.float64)}),
     spaces.Dict({"c": spaces.MultiDiscrete([2, 3]), "d": spaces.MultiBinary(2)})),
    (spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-np.inf, np.inf, (1,), np.float32)),
)  # fmt: skip


PARTS = {"model": MlpConfig, "runner": DevConfig, "evaluation": EvaluationConfig}
ALGORITHMS = {"ppo": PPOConfig, "a2c": A2CConfig}


@st.composite
def runs(draw):
    """An environment and some values of a run's configuration by path, every other time an odd one among them."""
    algorithm = draw(st.sampled_from(sorted(ALGORITHMS)))
    known = {}
    for part, model in {"algorithm": ALGORITHMS[algorithm], **PARTS}.items():
        known |= values_of(part, model)
    small = {path: value for path, value in known.items() if path.rpartition(".")[2] in SMALL and "hidden" not in path}
    values = draw(st.fixed_dictionaries(small, optional={path: known[path] for path in known if path not in small}))
    if draw(st.booleans()):
        values[draw(st.sampled_from(sorted(known)))] = draw(ODD)
    number = draw(st.integers(-1, len(SPACES) - 1))
    factory = SeededWalk if number < 0 else (lambda: SpacesEnv(*SPACES[number]))
    return factory, {"algorithm.name": algorithm, **values}


UNHEALTHY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.filterwarnings("error")
@settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=UNHEALTHY)
@given(case=runs())
def test_every_configuration_runs_two_updates_or_is_one_error(tmp_path_factory, known_plugins, case):
    factory, values = case
    load = discovery.overlay({("env", "factory"): FactorySource.of(factory)})
    flags = {"env.name": "factory", "seed": 1, "callbacks.console": None, "callbacks.tensorboard": None, **values}
    try:
        config = Assembly(load).assemble(preset="none", flags=flags)
        run = api.start(config, tmp_path_factory.mktemp("fuzz") / "run")
    except ConfigError as error:
        event(f"refused: {error.where or 'several'}")
        return
    with closing(run):
        run.until_epoch = math.ceil(2 / run.epoch_length)
        try:
            summary = api.carry_out(run)
        except RunError as error:
            # Steps of 0.1 in every parameter may well diverge, and the run then says so.
            if "not finite" not in str(error) or getattr(run.config.algorithm, "lr", 0) < 0.1:
                raise
            event("diverged")
            return
    event("ran")
    assert summary.updates >= 2 or summary.outcome == "stopped"
    assert all(parameter.isfinite().all() for parameter in run.policy.parameters())


def test_the_strategies_cover_every_field():
    """A field that is added to a schema and whose type is new here makes this fail."""
    for model in (*ALGORITHMS.values(), *PARTS.values()):
        assert values_of("x", model).keys() == {f"x.{name}" for name in model.model_fields if name != "name"}
