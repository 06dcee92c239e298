"""What the fork server of the tests imports and looks up once, so that no worker that is forked from it has to.

A worker imports the module of a test for the environment that is in it, and pytest with it.
"""

# ruff: noqa: F401 — imported for what is forked from here

import gymnasium.envs.classic_control
import gymnasium.wrappers
import maze_devkit.envs
import pytest

import tests.agents
import tests.planners
from maze_core.plugins import discovery

discovery.declared()
