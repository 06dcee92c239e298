"""What the documentation says to type is typed here, page by page, in a new folder each.

- The commands of a `bash` block run one by one; each must succeed.
- A block whose first line is a comment that holds nothing but a file name is written to that file.
- Any other `python` block runs as a program.

Comments right before a block change that: `<!-- test: … -->` with
  skip (reason)           it is not run
  needs MODULE            it is run where the module is installed
  replace A -> B          A, which must be in the block, becomes B
  exit N                  it must end with exit code N
  kill once PATH          its process group gets SIGKILL as soon as PATH exists
  output                  the block's lines must be in what the block before it printed

A package that cannot be required, for its licence, is used where it is installed; else one of `stand_ins` has its name.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.repository import files

ROOT = Path(__file__).resolve().parents[2]
NOT_TYPED = ("docs/reference/", "docs/benchmarks/", "docs/architecture.md", "docs/guide/notebooks.md")
"""`tests/maze_notebook` runs the last one, as cells of one notebook."""
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *files("README.md")]
    if not str(page.relative_to(ROOT)).startswith(NOT_TYPED)
)
QUICK = ("README.md", "docs/guide/python.md", "docs/algorithms/ppo.md")
"""The pages that a change most often breaks; the others are left to the slow tests."""
DIRECTIVE = re.compile(r"<!-- test: (.+?) -->")
FILE_NAME = re.compile(r"# ([\w./-]+\.\w+)\n")
PLAIN = re.compile(
    r"(cd [\w./-]+ && |\w+=[\w,-]+ )?(maze|(python -m )?pytest|pip install|python [\w./-]+\.py\b)[^<>|&;$`]*"
    r"(> [\w./-]+)?"
)
WANTED_LATE = (
    *("pytest", "torch._dynamo", "torch.export._trace", "torch.onnx._internal.exporter._core", "networkx"),
    *("onnxscript.function_libs.torch_lib.ops", "sympy.tensor.tensor", "setuptools.build_meta", "pygame", "imageio.v2"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
)
LATE = tuple(each for each in WANTED_LATE if importlib.util.find_spec(each.partition(".")[0]) is not None)
"""What exports, optimizers of torch's own, pictures and packaging import in a second or two each, and starts no thread.
The quick pages have none."""
TYPED = Path(__file__).with_name("typed.py").read_text(encoding="utf-8")
STAND_INS = Path(__file__).with_name("stand_ins")
LIMIT = 300


@dataclass
class Block:
    """A fenced block of a page."""

    line: int
    language: str
    text: str = ""
    directives: list[str] = field(default_factory=list)

    def argument(self, name: str) -> str | None:
        """What follows a directive's name; None where the block has no such directive."""
        found = [
            each.removeprefix(name).strip() for each in self.directives if each.split(" ")[0] == name.split(" ")[0]
        ]
        return found[0] if found else None

    @property
    def program(self) -> str:
        """The text with its replacements made."""
        text = self.text
        for directive in self.directives:
            if directive.startswith("replace "):
                old, _, new = directive.removeprefix("replace ").partition(" -> ")
                assert old in text, f"line {self.line}: nothing to replace: {old!r}"
                text = text.replace(old, new)
        return text


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page in order."""
    found: list[Block] = []
    directives: list[str] = []
    inside: Block | None = None
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if inside is not None:
            if line.startswith("```"):
                inside = None
            else:
                inside.text += line + "\n"
        elif line.startswith("```"):
            inside = Block(number, line[3:].strip(), directives=directives)
            found.append(inside)
            directives = []
        elif line.strip():
            directives = [*directives, *DIRECTIVE.findall(line)] if line.startswith("<!--") else []
    return found


@pytest.mark.parametrize(
    "page", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in PAGES]
)
def test_what_the_page_says_works(page: str, tmp_path: Path, changes: dict[str, str]) -> None:
    printed = ""
    for block in blocks(page):
        place = f"{page}:{block.line}"
        file = FILE_NAME.match(block.text)
        needed = block.argument("needs")
        if block.argument("skip") is not None or (needed and importlib.util.find_spec(needed) is None):
            continue
        if block.argument("output") is not None:
            for line in block.text.splitlines():
                assert line.strip() in printed, f"{place}: {line!r} was not printed, but:\n{printed}"
        elif file:
            path = tmp_path / file[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.program, encoding="utf-8")
        elif block.language in ("bash", "python"):
            printed = run(block, place, tmp_path, changes, () if page in QUICK else LATE)


def run(block: Block, place: str, folder: Path, changes: dict[str, str], late: tuple[str, ...]) -> str:
    """Run a block, command by command; what it printed."""
    log = folder / f"block_{block.line}.log"
    log.touch()
    once = block.argument("kill once")
    wanted = -signal.SIGKILL if once else int(block.argument("exit") or 0)
    for command in _commands(block, folder):
        process = _start(command, folder, log, changes, late)
        deadline = time.monotonic() + LIMIT
        while process.poll() is None and time.monotonic() < deadline and not (once and (folder / once).exists()):
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed = log.read_text(encoding="utf-8")
        assert process.returncode == wanted, f"{place} ended with {process.returncode}:\n{command}\n{printed}"
    return log.read_text(encoding="utf-8")


def _commands(block: Block, folder: Path) -> list[list[str]]:
    """A program, or the lines of a script; what is more than a plain `maze …` in a folder is left to a shell."""
    if block.language == "python":
        program = folder / f"block_{block.line}.py"
        program.write_text(block.program, encoding="utf-8")
        return [[str(program)]]
    lines = [line for line in block.program.replace("\\\n", " ").splitlines() if line.strip()]
    shell = ["bash", "-euo", "pipefail", "-c"]
    return [shlex.split(line, comments=True) if PLAIN.fullmatch(line) else [*shell, line] for line in lines]


def _start(argv: list[str], folder: Path, log: Path, changes: dict[str, str], late: tuple[str, ...]) -> Forked:
    given = {"root": str(ROOT), "folder": str(folder), "log": str(log), "changes": changes, "argv": argv}
    return Forked([json.dumps(given)], folder, os.environ, TYPED, late)


@pytest.fixture
def changes(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment: this Python's commands first, one thread, no screen, packages go into the page's folder."""
    site = tmp_path / "site-packages"
    site.mkdir()
    # Python looks at `.pth` files, which editable installs are made of, only in folders that are made known so.
    (site / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(site)!r})\n", encoding="utf-8")
    for stand_in in STAND_INS.glob("*.py"):
        if importlib.util.find_spec(stand_in.stem) is None:
            shutil.copy(stand_in, site)
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "MAZE_TESTS": str(ROOT / "tests"),
        "PYTHONPATH": str(site),
        "XDG_CACHE_HOME": str(tmp_path_factory.getbasetemp() / "cache"),
        "SDL_VIDEODRIVER": "dummy",
        "PIP_TARGET": str(site),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
