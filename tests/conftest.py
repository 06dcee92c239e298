"""What tests of training share: runs that take milliseconds, and their whole state for comparison."""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from importlib import metadata
from itertools import count
from multiprocessing.util import Finalize
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from maze_devkit.envs import SeededWalk
from maze_devkit.promise import broken_promises
from maze_local import processes

from maze_core.base.interruption import signal_handlers_kept
from maze_core.plugins import discovery
from tests.forked import one_server
from tests.killed import maze_until_killed
from tests.outsiders import write_package

if TYPE_CHECKING:
    from maze_core.run.context import RunContext

QUICK = {
    "algorithm.n_rollout_steps": 8,
    "algorithm.epoch_length": 2,
    "algorithm.n_epochs": 2,
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": None,
}
SHORTER = {"env.max_episode_steps": 30}
"""For Pendulum-v1: evaluations of its 200 steps are by default half of the time."""


DECLARATIONS = discovery.declarations
"""What is installed, looked up anew."""
DISTRIBUTION = metadata.distribution
"""Looks for a distribution anew."""
MEMORY_DISK = Path("/dev/shm")
ROOM = 6 * 2**30
"""Bytes that must be free there: two runs of all tests leave about a third of it."""


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C, which a shell lets processes in the background ignore; write to memory where there is room.

    Checkpoints are written through to the disk, which is a quarter of the time that the tests of training take. The
    time of a generated example says nothing on a busy machine. What is imported and collected stays to the end, so it
    is never searched for garbage: that takes a fifth of a second each time. What is compiled is kept, as the Makefile
    has it: else every process that a test starts compiles all modules anew, which takes seconds.
    """
    gc.disable()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="maze-tests-")  # of modules that tests have named
    settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy machine")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if MEMORY_DISK.is_dir() and shutil.disk_usage(MEMORY_DISK).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_DISK))
        tempfile.tempdir = tempfile.mkdtemp(prefix="maze-tests-", dir=MEMORY_DISK)
        # After the folders that multiprocessing has in it.
        Finalize(None, shutil.rmtree, (tempfile.tempdir, True), exitpriority=-200)
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):  # it deals out the tests
        shared = ExitStack()
        shared.enter_context(one_server())
        config.add_cleanup(shared.close)


def pytest_collection_finish() -> None:
    """Look for garbage from now on, among what tests make, a tenth as often as Python does by itself."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(7000)


def pytest_unconfigure() -> None:
    """Forget which modules tests have named."""
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def quick_workers() -> Any:
    """Let the fork server import once what every worker would: it unpickles an environment in 5 instead of 70 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "_PRELOADED", (*processes._PRELOADED, "tests.in_workers"))
        yield


@pytest.fixture(autouse=True)
def handlers_kept() -> Any:
    """Leave the handlers of signals as they were: a command that runs in this process sets its own."""
    with signal_handlers_kept():
        yield


@pytest.fixture(scope="session")
def installed() -> Any:
    """The plugins that are installed, looked up once: half of the time that a tiny run takes."""
    return discovery.declarations()


@pytest.fixture(scope="session")
def compatible() -> Any:
    """`compatible(distribution)`: why one that is installed does not fit the core, looked up once for each."""
    return cache(discovery.incompatibility)


@pytest.fixture
def known_plugins(monkeypatch: pytest.MonkeyPatch, installed: Any, compatible: Any) -> None:
    """Spare a test the look-up of plugins at every step: a run loads thirty, and asks for ten versions."""
    monkeypatch.setattr(discovery, "declarations", lambda: installed)
    monkeypatch.setattr(discovery, "incompatibility", compatible)
    monkeypatch.setattr(metadata, "distribution", lambda name: _distribution(name, tuple(sys.path)))


@cache
def _distribution(name: str, folders: tuple[str, ...]) -> metadata.Distribution:
    """Return where a distribution lies in some folders; one that is not there is looked for again."""
    return DISTRIBUTION(name)


@pytest.fixture
def outsider(tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch, known_plugins: None) -> Any:
    """`outsider(module, source, plugins)`: a package of an outsider, installed in a folder of its own; its module.

    It imports promised names alone. `plugins`: its classes by kind and name.
    """
    modules = []

    def install(module: str, source: str, plugins: Any) -> ModuleType:
        site = tmp_path_factory.mktemp("site")
        write_package(site, module, source, plugins)
        monkeypatch.syspath_prepend(site)
        monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        found = DECLARATIONS()
        monkeypatch.setattr(discovery, "declarations", lambda: found)
        modules.append(module)
        assert not broken_promises(module)
        return importlib.import_module(module)

    yield install
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def also_installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`also_installed(kind, name, plugin)`: runs that are built from now on find this class, too."""

    def add(kind: str, name: str, plugin: type[Any]) -> None:
        overlay = discovery.overlay
        monkeypatch.setattr(discovery, "overlay", lambda own, *base: overlay({**own, (kind, name): plugin}, *base))

    return add


@pytest.fixture
def quick(request: pytest.FixtureRequest, tmp_path: Path, known_plugins: None) -> Any:
    """`quick(env, algorithm, overrides, **parts)`: a silent RunContext of two epochs of two updates, seed 1.

    What all tests of a file override is in its `OVERRIDES`: no evaluations, say, a third of the time of so small a run.
    What needs torch is imported by fixtures: the process that deals out tests to others goes without it.
    """
    from maze_core.run.context import RunContext

    numbers = count()
    with ExitStack() as stack:

        def build(env: Any = SeededWalk, algorithm: Any = "ppo", overrides: Any = None, **parts: Any) -> RunContext:
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "silent": True, **parts}
            parts.setdefault("preset", "none")
            slow = request.node.get_closest_marker("slow") is not None
            small = QUICK | ({"evaluation.n_episodes": 2} if slow else {})  # slow tests count on somewhat longer runs
            if algorithm in ("ppo", "a2c"):
                small |= {"algorithm.num_envs": 3} | ({} if slow else {"algorithm.n_rollout_steps": 4})
            if algorithm == "ppo":  # ten passes are by default most of the time that so small a run takes
                small["algorithm.n_optimization_epochs"] = 2
            if algorithm in ("td3", "ddpg", "fast_td3", "flash_sac", "es", "cma_es"):
                small.pop("algorithm.n_rollout_steps")
            small |= SHORTER if env == "Pendulum-v1" else {}
            if "template" in (parts.get("model"), (overrides or {}).get("model.name")):
                small["model.image_features"] = 16  # most of its weights are before these
            if algorithm in ("ppo", "a2c", "impala"):  # its default follows the end of the run, which many tests raise
                small["algorithm.lr_schedule"] = "constant"
            small |= getattr(request.module, "OVERRIDES", {})
            return stack.enter_context(RunContext(env, algorithm, overrides=small | (overrides or {}), **parts))

        yield build


@pytest.fixture
def goes_on_exactly(quick: Any, tmp_path: Path, whole_state: Any, assert_same: Any) -> Any:
    """`goes_on_exactly(env, algorithm, values)`: a run that kill -9 ended, and one on workers, end as an unbroken one.

    `env` is an id; `values` hold whatever `quick` would set otherwise. Returns the context of the unbroken run.
    """

    def compare(env: str, algorithm: str, values: Any) -> RunContext:
        killed = tmp_path / "killed"
        values = (SHORTER if env == "Pendulum-v1" else {}) | values
        sets = [part for path, value in values.items() for part in ("--set", f"{path}={json.dumps(value)}")]
        words = ["--env", env, "--preset", "none", "--seed", "1", "--run-dir", str(killed)]
        maze_until_killed(["train", algorithm, *words, "--set", "callbacks.tensorboard=null", *sets], "before", 3)
        quick(env, algorithm, values, run_dir=None).resume(killed)
        whole = quick(env, algorithm, values)
        whole.train()
        assert_same(whole_state(whole.run_dir), whole_state(killed))
        workers = quick(env, algorithm, values, runner={"name": "local", "workers": 2})
        workers.train()
        assert_same(whole_state(whole.run_dir), whole_state(workers.run_dir))
        return whole

    return compare


@pytest.fixture
def whole_state() -> Any:
    """`whole_state(run_dir, checkpoint)`: everything in a checkpoint as plain values and bytes, but the seconds.

    In which files the rows of replay lie is left out, too: states that are kept after some seconds begin new ones.
    """

    from maze_core.run.saved.checkpoint import read_checkpoint
    from tests.states import plain

    def read(run_dir: Path, name: str = "last") -> Any:
        saved = read_checkpoint(Path(run_dir) / "checkpoints" / name)
        state = {key: value for key, value in saved.state.items() if key != "seconds"}
        return plain({"model": saved.model, **_without_files(state)})

    return read


def _without_files(state: Any) -> Any:
    """Return nested values without lists of files."""
    if not isinstance(state, dict):
        return state
    return {key: _without_files(value) for key, value in state.items() if key != "segments"}


@pytest.fixture
def assert_same() -> Any:
    """`assert_same(a, b)`: two states are equal bit by bit; says which entries are not."""
    from tests.states import plain, walk

    def compare(first: Any, second: Any) -> None:
        left, right = dict(walk(plain(first))), dict(walk(plain(second)))
        assert left, "nothing to compare"
        differing = sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))
        assert not differing, f"{len(differing)} of {len(left)} entries differ: {differing[:12]}"

    return compare


OF_THE_KIT = "tests/maze_devkit/test_bundled.py"
LONG = (OF_THE_KIT, "tests/docs/test_snippets.py")
"""Files whose tests take minutes together and share nothing: each of their tests may run beside the others."""
ON_LOCAL_RAY = "one local Ray"
"""The name of the tests of `LONG` that share a Ray."""
CLUSTERS = tuple(f"tests/maze_ray/test_{each}.py" for each in ("cluster", "losses", "session"))
"""Tests of the runner `ray` that need a process without a local Ray: once it had one, Ray cancels its workers on a
cluster. They measure how soon something happens, so they run one after the other."""


MARKED_SLOW = "mark.slow"
"""What a file with a slow test says."""
WHOLE = ("tests/maze_rllib/", "tests/attack/", "tests/training/test_resume.py", "tests/maze_devkit/scaffold/")
"""Files that take a minute or two each in one process."""
PAGES_OF_MINUTES = ("docs/guide/", "docs/tutorials/", "docs/environments/", "docs/quickstart.md")
"""The pages of `LONG` that take up to a minute."""


def pytest_ignore_collect(collection_path, config):
    """Leave out files without a slow test where only those are asked for: their imports take most of the collection."""
    if config.getoption("markexpr", "") != "slow" or not collection_path.match("test_*.py"):
        return None
    return None if _names_slow_tests(collection_path) else True


@cache
def _names_slow_tests(path):
    """Whether a file marks a test as slow, in its own text."""
    return MARKED_SLOW in path.read_text(encoding="utf-8")


def pytest_collection_modifyitems(config, items):
    """Put what takes longest in one piece first, and what comes in small pieces last, so that no process ends late."""

    hidden = {item.path for item in items if item.get_closest_marker("slow") and not _names_slow_tests(item.path)}
    if hidden:
        raise pytest.UsageError(f"slow, without the word {MARKED_SLOW!r}, so `-m slow` leaves it out: {hidden}")
    by_file = config.getoption("dist", "no") == "loadfile"  # else every test is a piece of its own

    def place(item):
        if item.path.parent.name == "maze_ray":
            return int(not item.nodeid.startswith(CLUSTERS))
        long = item.nodeid.startswith(LONG)
        if not by_file:
            return 2 + (not long)
        if not long:
            return 3 + (not item.nodeid.startswith(WHOLE))
        if together(item.nodeid) == ON_LOCAL_RAY:
            return 2
        if any(part in item.nodeid for part in PAGES_OF_MINUTES):
            return 5
        return 6 + (not item.nodeid.startswith(OF_THE_KIT))  # other pages take a few seconds each

    items.sort(key=place)


def together(nodeid):
    """Return the name of the tests that run in one process: those of a file, but for `LONG` and `CLUSTERS`."""
    if nodeid.startswith(CLUSTERS):
        return "clusters"
    if nodeid.startswith(LONG):
        return ON_LOCAL_RAY if "rllib-" in nodeid or "runner ray" in nodeid else nodeid
    return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Deal out tests as `together` says, where they are dealt out by file."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return together(nodeid)

    return Together(config, log)
