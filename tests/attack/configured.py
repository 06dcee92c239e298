"""Wrong configurations: for every field of every bundled plugin, values that are no such thing, alone and in pairs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.attack import damage
from tests.attack.children import in_child, interrupted_after, maze
from tests.attack.oracle import problems_of
from tests.attack.runs import ENV, RECORDED, SETTINGS
from tests.attack.verdict import Verdict

ALGORITHMS = ("ppo", "sac", "es", "a2c", "impala", "bc", "sacfd")
NOT_BUNDLED = ("maze-ray", "maze-rllib", "maze-optuna")
INTERRUPTED = 130
PATIENCE = 4.0
"""Seconds after which a run that has begun, and would take long, is interrupted."""
VALUES = (
    "null", "true", "-1", "0", "1", "3", "2.5", "1e999", ".nan", ".inf", "-.inf", "-1e308", "1e-320", "1000000000",
    "1000000000000", "9223372036854775807", "9223372036854775808", "100000000000000000000", "''", "x", "'3'", "'none'",
    "[]", "{}", "[1]", "[[]]", "[0]", "[-1]", "[1000000000]", "[.nan]", "[x, y]", "[1, 2, 3, 4, 5, 6, 7, 8]", "{a: 1}",
    "{name: x}", "{name: [1]}", '"\\e[31mred"', '"a\\nerror: b"', '"\\0"', "/dev/zero", "../../x", "~", "2024-01-01",
    "!!python/none x", "!!binary eA==", "*a", "&a [*a]", "'" + "a" * 20_000 + "'", "[" * 60 + "]" * 60, "{", "cuda",
    "'.:X'", "':'", "'a:b:c'", "'CartPole-v1:'", "'os:system'", "'this:X'", "'antigravity:X'",
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """A value of the configuration: where it is set, and what its type is said to be."""

    path: str
    """Such as `algorithm.lr`; that of a wrapper's is the whole list, with `VALUE` for the value."""
    schema: str
    """JSON schema of the value."""

    def assignment(self, value: str) -> str:
        """What `--set` is given."""
        return self.path.replace("VALUE", value) if "VALUE" in self.path else f"{self.path}={value}"


def fields(algorithm: str) -> list[Field]:
    """Every field that a run of the algorithm can have."""
    from maze_core.plugins import discovery
    from maze_core.plugins.config.run import EvaluationConfig, RunConfig

    found: list[Field] = []
    kinds = {"algorithm": (algorithm,), "env": ("gymnasium",), "runner": ("dev", "local")}
    for declared in discovery.declarations():
        if declared.distribution in NOT_BUNDLED or declared.name not in kinds.get(declared.kind, (declared.name,)):
            continue
        if declared.kind in ("memory", "policy", "searcher", "command"):
            continue
        model: Any = discovery.load(declared.kind, declared.name).Config
        for name, schema in _properties(model):
            found.append(Field(_path(declared.kind, declared.name, name), schema))
    found += [Field(f"evaluation.{name}", schema) for name, schema in _properties(EvaluationConfig)]
    found += [Field(name, schema) for name, schema in _properties(RunConfig)]
    return found


@cache
def _properties(model: Any) -> tuple[tuple[str, str], ...]:
    """The names of a configuration's fields with their schemas, the same for every algorithm's run."""
    try:
        properties = model.model_json_schema()["properties"]
        return tuple((name, json.dumps(properties.get(name, {}))) for name in model.model_fields)
    except Exception:  # noqa: BLE001 — a type without a schema
        return tuple((name, "") for name in model.model_fields)


def _path(kind: str, plugin: str, name: str) -> str:
    if kind == "wrapper":
        return "wrappers=[{name: VALUE}]" if name == "name" else f"wrappers=[{{name: {plugin}, {name}: VALUE}}]"
    if kind == "callback":
        return f"callbacks.{plugin}.{name}"
    # Another model or runner than the usual one is named with the value.
    return f"{kind}.{name}" if kind in ("algorithm", "env") else f"{kind}={{name: {plugin}, {name}: VALUE}}"


class Configured:
    """Cases of one algorithm: one or two wrong values on the command line, or a damaged configuration file."""

    def __init__(self, algorithm: str, scratch: Path, seed: int = 1) -> None:
        self._algorithm, self._scratch, self._seed = algorithm, scratch, seed
        self._fields = fields(algorithm)
        self._folder = scratch / "world"
        self._folder.mkdir(parents=True)
        self._number = 0
        if in_child(maze(RECORDED), self._folder, scratch).code:
            raise RuntimeError("nothing was recorded")
        self._file = self._whole_file()

    def names(self, count: int) -> list[str]:
        """So many cases."""
        return [str(number) for number in range(count)]

    def try_(self, name: str) -> Verdict:
        """Train with it: an error at once, or a run."""
        chance = random.Random(f"{self._seed} {self._algorithm} {name}")
        verdict = Verdict(f"configured/{self._algorithm}/{name}", f"wrong configurations: {self._algorithm}")
        self._number += 1
        run_dir = self._folder / f"run{self._number}"
        command = ["train", self._algorithm, "--env", ENV, "--preset", "none", "--run-dir", run_dir.name]
        command += [part for text in self._quick() for part in ("--set", text)]
        if chance.random() < 0.2:
            command, verdict.what = self._damaged_file(chance, run_dir)
        else:
            chosen = chance.sample(self._fields, chance.choice((1, 1, 2)))
            texts = [field.assignment(self._value(chance, field)) for field in chosen]
            command += [part for text in texts for part in ("--set", text)]
            verdict.what = " ".join(texts)[:300]

        def action() -> int:
            with interrupted_after(PATIENCE):
                return maze(command)()

        ending = in_child(action, self._folder, self._scratch)
        began = (run_dir / "checkpoints" / "last").exists()
        if ending.code == INTERRUPTED and began and not ending.timed_out:
            return verdict
        verdict.problems = problems_of(ending, (0, 1, 2) if began else (0, 2))
        if ending.code == INTERRUPTED:
            verdict.problems = [f"after {PATIENCE:.0f} s it has neither refused nor begun"]
        if ending.code == 2 and run_dir.exists() and any(run_dir.iterdir()):
            verdict.problems.append(f"refused, but {run_dir.name} was made")
        if ending.code == 0 and not began and not verdict.problems:
            verdict.problems.append("exit 0, but there is no run")
        return verdict

    def _quick(self) -> list[str]:
        settings = {
            "algorithm.epoch_length": 1,
            "algorithm.n_epochs": 1,
            "evaluation.n_episodes": 1,
            "evaluation.num_envs": 1,
        }
        settings |= {**SETTINGS[self._algorithm], "callbacks.console": "null", "seed": 1}
        return [f"{path}={value}" for path, value in settings.items()]

    def _value(self, chance: random.Random, field: Field) -> str:
        """A value from the schema's own edges, or anything."""
        schema = json.loads(field.schema or "{}")
        edges = [
            str(value + step)
            for key, value in _walk(schema)
            for step in (-1, 0, 1)
            if key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems")
        ]
        edges += [f"{value}x" for key, values in _walk(schema) if key == "enum" for value in values]
        return chance.choice(edges) if edges and chance.random() < 0.2 else chance.choice(VALUES)

    def _whole_file(self) -> bytes:
        """The configuration of a run, as a file."""
        command = ["train", self._algorithm, "--env", ENV, "--preset", "none", "--run-dir", "first"]
        command += [part for text in self._quick() for part in ("--set", text)]
        ending = in_child(maze(command), self._folder, self._scratch)
        if ending.code:
            raise RuntimeError(f"a healthy run ended with {ending.code}: {ending.err}")
        return (self._folder / "first" / "config.yaml").read_bytes()

    def _damaged_file(self, chance: random.Random, run_dir: Path) -> tuple[list[str], str]:
        mutation = chance.choice((*damage.YAML, damage.value_changed, damage.bomb))
        (self._folder / "config.yaml").write_bytes(mutation(chance, self._file))
        command = ["train", "--config", "config.yaml", "--run-dir", run_dir.name]
        return command, f"--config of a file {mutation.__name__}"


def _walk(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield key, value
            yield from _walk(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _walk(value)
