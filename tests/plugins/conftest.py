"""Fake distributions on disk, and the command line run beside them in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import Forked

GOOD = '''
"""A module."""
from maze_core.plugins.base import Plugin

class Good(Plugin):
    """Does nothing, well."""
'''


class Installation:
    """A folder of fake distributions."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        self.site.mkdir()
        self.cache = folder / "cache"
        self.cwd = Path.cwd()

    def add(self, name, source=GOOD, entry="wrapper:good = {module}:Good", version="1.0", requires=()):
        module = name.replace("-", "_")
        kind, _, line = entry.partition(":")
        (self.site / f"{module}.py").write_text(source)
        info = self.site / f"{module}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "entry_points.txt").write_text(f"[maze.{kind}s]\n{line.format(module=module)}\n")

    def python(self, code, **environment):
        """A program where everything but these distributions is imported already."""
        return _ended(Forked([], self.cwd, self._environment(environment), code))

    def fresh_python(self, code):
        """A program in a new interpreter."""
        command, environment = [sys.executable, "-c", code], self._environment({})
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    def maze(self, *arguments, **environment):
        return _ended(Forked(arguments, self.cwd, self._environment(environment)))

    def _environment(self, environment):
        added = {"PYTHONPATH": str(self.site), "XDG_CACHE_HOME": str(self.cache), "COLUMNS": "200"}
        return {**os.environ, **added, **environment}


def _ended(process):
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def installation(tmp_path):
    return Installation(tmp_path)
