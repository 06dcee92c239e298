"""Where the distribution is not installed, what needs it says what to install, and everything else works."""

import pytest
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install


@pytest.mark.parametrize("asked", [True, False])
def test_normalising_names_the_distribution_that_does_it(quick, monkeypatch, asked):
    others = tuple(each for each in discovery.declared() if each.distribution != "maze-normalizers")
    monkeypatch.setattr(discovery, "declared", lambda: others)
    context = quick(SeededWalk, overrides={"model.normalize_observations": asked})
    if not asked:
        assert context.train().env_steps > 0
        return
    with pytest.raises(ConfigError) as refusal:
        context.train()
    assert str(refusal.value).splitlines() == [
        "model.normalize_observations: normalising observations needs maze-normalizers, which is not installed",
        f"Next: {how_to_install('maze-normalizers')}",
    ]
