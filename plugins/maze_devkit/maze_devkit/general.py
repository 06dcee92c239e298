"""The checks of every plugin: packaging, import, configuration and construction."""

from __future__ import annotations

import re
from importlib import metadata

from pydantic import ValidationError

from maze_core import MazeError, PluginConfig, PluginError
from maze_core.base.bundled import distributions, packages, publisher
from maze_core.plugins import discovery
from maze_core.plugins.kinds import WITHOUT_HOOKS
from maze_core.plugins.summaries import locate, summarise
from maze_devkit import marks
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.fresh import LEARNS
from maze_devkit.promise import broken_promises, imported_libraries
from maze_devkit.subject import Subject, hook_problem

NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
COMMAND = re.compile(rf"{NAME.pattern}(\.{NAME.pattern})*")
SECONDS = 1.0
"""Processor time that importing a plugin may take, in addition to what its kind needs."""
HEAVY = ("ray", "tensorflow", "jax", "pandas", "scipy", "sklearn", "matplotlib", "tensorboard", "cv2", "pygame",
         "optuna", "transformers", "mujoco", "numba", "pyarrow", "wandb", "mlflow", "IPython")  # fmt: skip
"""Packages that no plugin needs before it is used."""
BASES = {
    "algorithm": ("maze_core.learn.algorithm", "Algorithm"),
    "memory": ("maze_core.models.memory", "Memory"),
    "runner": ("maze_core.collect.pools.runner", "Runner"),
    "policy": ("maze_core.collect.policies.base", "ActingPolicy"),
    "distribution": ("maze_core.models.distributions.family", "Family"),
    "searcher": ("maze_sweep.searchers.base", "Searcher"),
    "teacher": ("maze_curricula.teacher", "Teacher"),
}
"""The module of each kind's base class; other kinds act through hooks and need none."""
WITH_TORCH = ("algorithm", "model", "distribution", "memory", "callback")
"""Kinds used in the learning process, where torch is imported anyway."""


def _entry_point(subject: Subject) -> None:
    name = subject.name
    if not (COMMAND if subject.kind == "command" else NAME).fullmatch(name):
        raise Failed(f"the name {name!r} does not consist of lower-case words joined by _ or -")
    claims = discovery.claims(subject.kind, name)
    if len(claims) > 1:
        raise Failed(discovery.clash(claims))
    claim = subject.claim
    if reason := shadowed(claim.kind, name, claim.distribution, claim.entry_point.module):
        raise Failed(reason)


def _core_version(subject: Subject) -> None:
    from packaging.requirements import Requirement

    claim = subject.claim
    if claim.distribution == discovery.CORE:
        raise NotApplicable("it is part of the core")
    lines = [Requirement(line) for line in metadata.requires(claim.distribution) or []]
    found = [line for line in lines if _normal(line.name) == discovery.CORE]
    if not found:
        raise Failed(f"{claim.distribution} does not depend on {discovery.CORE}")
    signs = {specifier.operator for line in found for specifier in line.specifier}
    if not signs & {"<", "<=", "==", "~=", "==="}:
        raise Failed(f"its dependency {found[0]} has no upper bound")
    if not signs & {">", ">=", "==", "~=", "==="}:
        raise Failed(f"its dependency {found[0]} has no lower bound")
    if reason := discovery.incompatibility(claim.distribution):
        raise Failed(reason)


def _libraries(subject: Subject) -> None:
    from packaging.requirements import Requirement

    claim = subject.claim
    if claim.distribution == discovery.CORE:
        raise NotApplicable("it is part of the core")
    subject.plugin  # noqa: B018 — where it cannot be imported, another check says so
    lines = [Requirement(line) for line in metadata.requires(claim.distribution) or []]
    always = {_normal(line.name) for line in lines if line.marker is None or "extra" not in str(line.marker)}
    wanted = [package.replace("_", "-") for package in imported_libraries(claim.entry_point.module)]
    if missing := [each for each in wanted if each not in always]:
        raise Failed(
            f"it imports {missing[0].replace('-', '_')}, and {claim.distribution} does not depend on {missing[0]}"
        )


def _normal(name: str) -> str:
    """Return the name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _loads(subject: Subject) -> None:
    try:
        plugin = discovery.import_claim(subject.claim)
    except PluginError as error:
        raise Failed(str(error)) from error
    if reason := discovery.misfit(subject.kind, plugin):
        raise Failed(reason)
    if subject.kind in BASES:
        module, name = BASES[subject.kind]
        if not issubclass(plugin, getattr(__import__(module, fromlist=[name]), name)):
            raise Failed(f"{plugin.__name__} does not derive from {module}.{name}")


def _described(subject: Subject) -> None:
    entry_point = subject.claim.entry_point
    if subject.kind == "command" and not summarise(entry_point, locate(entry_point)):
        raise Failed(f"the source has no docstring that `maze --help` can show for {entry_point.value}")
    if subject.kind != "command" and not vars(subject.plugin).get("__doc__"):
        raise Failed(f"the class {subject.plugin.__name__} has no docstring")


def _import(subject: Subject) -> None:
    subject.plugin  # noqa: B018 — where it cannot be imported, another check says so
    module = subject.claim.entry_point.module
    learns = subject.kind in WITH_TORCH[:-1]
    first = [each for each in LEARNS if learns or each != "maze_core.learn.algorithm"]
    done = subject.bench.fresh.call(first, "maze_devkit.process:imported", module, cut_off=True)
    if done.result is None:
        raise Failed(f"importing it in a new process fails: {done.reason}")
    seconds, modules, changed = done.result
    heavy = [name for name in (*HEAVY, *(() if subject.kind in WITH_TORCH else ("torch",))) if name in modules]
    if heavy:
        pulled = ", ".join(f"{name}, which {modules[name]} imports" for name in heavy)
        raise Failed(f"importing {module} pulls in {pulled}")
    if changed:
        raise Failed(f"importing {module} changes {', '.join(changed)}")
    if seconds > SECONDS and "torch" not in modules:
        raise Failed(f"importing {module} takes {seconds:.1f} s of processor time")


def _promised(subject: Subject) -> None:
    claim = subject.claim
    named = claim.distribution == discovery.CORE or claim.distribution.replace("-", "_") in packages()
    if named and claim.entry_point.module.partition(".")[0] in packages():
        raise NotApplicable("it is released together with the core")
    subject.plugin  # noqa: B018 — where it cannot be imported, another check says so
    if found := broken_promises(claim.entry_point.module):
        raise Failed(f"it imports modules that may move: {', '.join(found[:3])}")


def _config_described(subject: Subject) -> None:
    fields = subject.model.model_fields
    bare = [name for name, info in fields.items() if not (info.description or "").strip()]
    if bare:
        raise Failed(f"{subject.model.__name__} does not describe {', '.join(bare)}")


def _config_frozen(subject: Subject) -> None:
    config = subject.config
    field = next(iter(type(config).model_fields))
    try:
        setattr(config, field, getattr(config, field))
    except ValidationError:
        return
    raise Failed(f"a value of {type(config).__name__} can be changed, such as {field}")


def _config_closed(subject: Subject) -> None:
    config = subject.config
    try:
        type(config).model_validate({**config.model_dump(), "no_such_parameter": 1})
    except ValidationError:
        return
    raise Failed(f"{type(config).__name__} accepts an unknown parameter `no_such_parameter`")


def _config_round_trip(subject: Subject) -> None:
    config: PluginConfig = subject.config
    again = type(config).model_validate_json(config.model_dump_json())
    if again != config:
        lost = [k for k, v in again.model_dump().items() if v != config.model_dump().get(k)]
        raise Failed(f"written as JSON and read again, {', '.join(lost) or 'the configuration'} has changed")


def _builds(subject: Subject) -> None:
    try:
        config = subject.model.model_validate({"name": subject.name, **subject.own_trial.parameters})
    except ValidationError as error:
        missing = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
        raise Failed(f"{subject.model.__name__} is not valid as it is: {missing}") from error
    try:
        subject.made(config)
    except MazeError as error:
        raise Failed(f"{subject.plugin.__name__}(config) refuses its configuration: {error}") from error


def _hooks(subject: Subject) -> None:
    if subject.kind in WITHOUT_HOOKS:
        raise NotApplicable(f"a {subject.kind} has no hooks")
    if problem := hook_problem(subject, subject.construct()):
        raise Failed(problem)


CHECKS = (
    Check(
        "entry_point",
        "The name consists of lower-case words joined by `_` or `-`, and no other distribution claims it. Neither the "
        "name, nor the package, nor the distribution is one that comes with Maze.",
        "Users type the name in commands and files; a name that two distributions claim cannot be used. A package with "
        "the name of another hides it.",
        "Rename the entry point, the package or the distribution in pyproject.toml and install again.",
        _entry_point,
    ),
    Check(
        "core_version",
        "The distribution depends on `maze-core` with a lower and an upper bound that hold for this core.",
        "Bounds prevent an installation with an untested core, and `maze plugins list` can report a wrong version.",
        'Write dependencies = ["maze-core>=0.1,<0.2"] in pyproject.toml, with the versions you test against.',
        _core_version,
    ),
    Check(
        "libraries",
        "The distribution depends on the libraries of Maze that its package imports.",
        "Who installs the plugin alone has no library that nothing asks for, and the plugin cannot be imported.",
        'Write it among the dependencies in pyproject.toml with bounds, such as "maze-onpolicy>=0.1,<0.2".',
        _libraries,
    ),
    Check(
        "loads",
        "The entry point refers to a class of its kind with a `Config`; for a command, to a Typer app or a function.",
        "A plugin that cannot be imported is listed as broken, and no run can use it.",
        "Correct the import, or the entry point in pyproject.toml; derive from the base class of the kind.",
        _loads,
    ),
    Check(
        "docstring",
        "The plugin class has a docstring; a command has one, or a Typer app has `help`.",
        "`maze plugins list` and `maze train --help` show its first line.",
        "Write a docstring whose first line says what the plugin does.",
        _described,
    ),
    Check(
        "import",
        "Importing the plugin takes less than a second, imports no heavy packages, and changes nothing in the process.",
        "Help and every worker process import the plugin: a heavy import makes each of them slow, a changed state "
        "changes other people's results.",
        "Import heavy packages inside the functions that use them; do not change seeds, variables or settings.",
        _import,
    ),
    Check(
        "promised_imports",
        "The plugin's package imports only those modules of Maze that are promised to stay.",
        "Other modules may move or change with any version of the core, and the plugin would break.",
        "Import the name from `maze_core` or from a module that docs/guide/compatibility.md lists.",
        _promised,
    ),
    Check(
        "config_described",
        "Every parameter has a description.",
        "Flags, `maze plugins info` and the reference are generated from the descriptions.",
        "Write a string literal below each field of the Config.",
        _config_described,
    ),
    Check(
        "config_frozen",
        "The configuration is immutable.",
        "A run directory must record the configuration that the run used.",
        "Derive from PluginConfig (AlgorithmConfig for algorithms) and do not override `frozen`.",
        _config_frozen,
    ),
    Check(
        "config_closed",
        "An unknown parameter is refused.",
        "A misspelt parameter would silently do nothing.",
        'Derive from PluginConfig and do not override `extra="forbid"`.',
        _config_closed,
    ),
    Check(
        "config_round_trip",
        "Written as JSON and read again, the configuration is the same.",
        "Configurations are saved, resumed and sent to workers in this form.",
        "Make validators accept the output of serialisers; use plain types.",
        _config_round_trip,
    ),
    marks.CHECK,
    Check(
        "builds",
        "The plugin can be built from its defaults, or from the parameters of its `Trial`.",
        "Users begin with the defaults.",
        "Give fields defaults. Where a parameter is required, set a value in an entry point of `maze.conformance`.",
        _builds,
    ),
    Check(
        "hooks",
        "Hook implementations use arguments of the hook and the decorator `@hookimpl`; wrappers use "
        "`wrapper=True` and one `yield`. The core calls each of them for plugins of that kind.",
        "A hook with wrong arguments fails every run with the plugin; a hook that is never called has no effect.",
        "Compare with docs/reference/hooks.md.",
        _hooks,
    ),
)  # fmt: skip
"""The checks of every plugin."""


def shadowed(kind: str, name: str, distribution: str, module: str) -> str:
    """Return what of those published with the core a plugin of a distribution hides; empty if it hides nothing.

    `module`: the one that has the plugin.
    """
    if distribution == "maze-core":
        return ""
    known, owner = distribution in distributions(), publisher(kind, name)
    if known and owner != distribution:
        return f"the distribution {distribution} comes with Maze and has no {kind} {name!r}: this one has its name"
    if owner not in (None, distribution):
        return f"{kind} {name!r} is the name of a plugin that comes with Maze, in {owner}"
    top = module.partition(".")[0]
    if not known and top in packages():
        return f"its package {top} has the name of one that comes with Maze, and hides it"
    return ""
