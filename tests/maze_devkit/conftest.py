"""Plugins that are published for a test: real distributions in a folder of their own."""

from contextlib import closing
from itertools import count

import pytest
from maze_devkit.bench import Bench
from maze_devkit.fresh import Fresh
from maze_devkit.kit import checks, examine, find
from maze_devkit.subject import Subject

from maze_core.plugins import discovery

NUMBERS = count()
REQUIRES = "maze-core>=0.1,<0.2\nRequires-Dist: maze-onpolicy>=0.1,<0.2"
"""Algorithms build on that library."""


@pytest.fixture
def publish(tmp_path, monkeypatch, installed):
    """`publish(kind, source, name, requires)`: install a plugin class `Tested`; its kind and name."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def install(kind, source, name="tested", requires=REQUIRES):
        module = f"tested_{next(NUMBERS)}"  # a module is imported once in a process
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        distribution = module.replace("_", "-")
        lines = ["Metadata-Version: 2.1", f"Name: {distribution}", "Version: 1.0", f"Requires-Dist: {requires}"]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        text = f"[{discovery.KINDS[kind]}]\n{name} = {module}:Tested\n"
        if "\ndef trial(" in source:
            text += f"[maze.conformance]\n{kind}.{name} = {module}:trial\n"
        (info / "entry_points.txt").write_text(text)
        monkeypatch.undo()
        monkeypatch.syspath_prepend(site)
        found = discovery.declarations()
        monkeypatch.setattr(discovery, "declarations", lambda: found)
        return kind, name

    return install


@pytest.fixture(scope="session")
def fresh():
    """New processes."""
    with closing(Fresh()) as fresh:
        yield fresh


@pytest.fixture
def findings(tmp_path, monkeypatch, fresh):
    """`findings(kind, name, without)`: what every check but those in `without` finds, by check."""
    with closing(Bench(fresh)) as bench:

        def run(kind, name, without=()):
            monkeypatch.chdir(tmp_path)  # a broken callback writes where it is
            claim = find(kind, name)
            wanted = [check for check in checks(kind) if check.name not in without]
            for check in wanted:
                (tmp_path / check.name).mkdir(exist_ok=True)
            return {check.name: examine(check, Subject(claim, tmp_path / check.name, bench)) for check in wanted}

        yield run
