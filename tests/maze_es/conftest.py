"""What tests of ES share."""

import pytest

SMALL = {"algorithm.n_rollout_steps": None, "algorithm.n_rollouts_per_update": 6, "model.hidden": [4]}


@pytest.fixture
def es(quick):
    """`es(env, overrides, **parts)`: a silent RunContext of ES, two epochs of two updates of three pairs."""

    def build(env="CartPole-v1", overrides=None, **parts):
        if callable(parts.get("model")):
            parts["overrides"] = SMALL | {"model.hidden": None} | (overrides or {})
        else:
            parts["overrides"] = SMALL | (overrides or {})
        return quick(env, "es", **parts)

    return build
