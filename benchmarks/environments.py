"""Does one command train in the environments of other packages? Types what a user would, and follows the advice.

    python benchmarks/environments.py                     those that have no result yet
    python benchmarks/environments.py --only crafter      one, again
    python benchmarks/environments.py --again             all, again

Each is `maze train ppo --env ID --steps 2000` in a process of its own. A command that is refused is repeated with the
options that its message names, letter by letter; no other option is ever added. An environment whose package is not
installed is listed as missing. Results are kept in docs/benchmarks/environments.json after every environment.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from typing import Any, NamedTuple

import results
from command import MAZE, one_thread

PAGE, STEPS, PATIENCE, MOST_ADVICE = "environments", 2000, 900, 4


class Named(NamedTuple):
    """What is typed first, the package that it needs, and that package's further ones."""

    typed: str
    package: str
    install: str


PISTONS = (
    "pistonball_v6 --model cnn --wrappers gray,resize --set wrappers.1.height=42 --set wrappers.1.width=42"
    " --set algorithm.num_envs=1 --set algorithm.n_rollout_steps=100 --set evaluation.n_episodes=2"
)
"""Twenty agents with pictures: by default a rollout is 40,960 steps, and the network has 38 million parameters."""
ENVIRONMENTS = {
    "bsuite catch": Named("bsuite:catch/0", "bsuite", "bsuite"),
    "bsuite memory_len": Named("bsuite:memory_len/0", "bsuite", "bsuite"),
    "POPGym RepeatPrevious": Named("popgym:popgym-RepeatPreviousEasy-v0", "popgym", "popgym"),
    "Crafter": Named("crafter:CrafterReward-v1", "crafter", "crafter gym"),
    "JSSEnv": Named("JSSEnv:jss-v1", "JSSEnv", "JSSEnv"),
    "or-gym Knapsack": Named("or_gym:Knapsack-v0", "or_gym", "or-gym gym"),
    "simple_spread": Named("simple_spread_v3", "mpe2", "mpe2"),
    "Leduc hold'em": Named("leduc_holdem_v4", "rlcard", '"pettingzoo[classic]"'),
    "Pistonball": Named(PISTONS, "pymunk", '"pettingzoo[butterfly]"'),
    "Deep sea treasure": Named("mo_gymnasium:deep-sea-treasure-v0", "mo_gymnasium", "mo-gymnasium"),
    "Highway": Named("highway_env:highway-fast-v0", "highway_env", "highway-env"),
    "Grid2Op's sandbox": Named("grid2op:l2rpn_case14_sandbox", "grid2op", "grid2op lightsim2grid"),
    "gym's CartPole": Named("gym:CartPole-v1", "gym", "gym"),
    "EnvPool's CartPole": Named("envpool:CartPole-v1", "envpool", '"maze-envpool[envpool]"'),
    "Atari Pong": Named("ALE/Pong-v5", "ale_py", '"maze-atari[ale]"'),
}
HEADERS = ["environment", "result", "seconds", "what was typed", "refused before that"]
INTRODUCTION = f"""
# Environments of other packages

One command for each: `maze train ppo --env ID --steps {STEPS}`. Where it is refused, it is repeated with the options
that the message names, letter by letter, and with no other one. The last column has the messages that were followed.
`missing` means that the package is not installed on the machine that made the table.

Made by `python benchmarks/environments.py`, which goes on where it stopped; the figures are in `environments.json`.
"""
_OPTION = r"--(?:set|model|wrappers|env) (?:'[^']*'|[^\s,;]*[^\s,;.:])"
_ADVICE = re.compile(rf"{_OPTION}(?: {_OPTION})*")
"""Options that a message names in one breath; the first such advice is followed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ENVIRONMENTS, help="try this one only")
    parser.add_argument("--again", action="store_true", help="also those that have a result")
    options = parser.parse_args()
    rows = results.load(PAGE)
    for name in options.only or ENVIRONMENTS:
        if options.only or options.again or rows.get(name, {}).get("result") in (None, "missing"):
            rows = results.merge(PAGE, name, tried(ENVIRONMENTS[name]))
            print(f"{name}: {rows[name]['result']} in {rows[name]['seconds']:.0f} s", flush=True)
            results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("Environments", HEADERS, cells_of(rows))
    return int(any(row["result"] not in ("trains", "missing") for row in rows.values()))


def tried(named: Named) -> dict[str, Any]:
    """Train, and follow the advice of each refusal."""
    if find_spec(named.package) is None:
        return {"result": "missing", "seconds": 0.0, "typed": f"pip install {named.install}", "refused": []}
    options, refused, begun = [f"--env {named.typed}"], list[str](), time.monotonic()
    for _ in range(MOST_ADVICE):
        done = train(options)
        if done.returncode not in (1, 2):
            break
        message = refusal(done.stderr)
        advice = _ADVICE.search(message)
        refused.append(message)
        if advice is None or all(each in options for each in re.findall(_OPTION, advice.group())):
            break
        for each in re.findall(_OPTION, advice.group()):
            options = followed(options, each)
    return {
        "result": "trains" if done.returncode == 0 else f"exit code {done.returncode}",
        "seconds": time.monotonic() - begun,
        "typed": " ".join(["maze train ppo", *options, f"--steps {STEPS}"]),
        "refused": refused,
    }


def followed(options: list[str], advice: str) -> list[str]:
    """The options with one more; wrappers join those that are there, an environment takes the place of the other."""
    name = advice.partition(" ")[0]
    path, _, keys = advice.partition("=[")
    if keys and (there := [each for each in options if each.startswith(f"{path}=[")]):  # beside those that are there
        joined = ",".join([there[0].rstrip("]'"), keys])
        return [joined if each == there[0] else each for each in options]
    if advice in options:
        return options
    if name == "--wrappers" and (there := [each for each in options if each.startswith("--wrappers ")]):
        joined = f"{there[0]},{advice.partition(' ')[2]}"
        return [joined if each == there[0] else each for each in options]
    return [*(each for each in options if name == "--set" or not each.startswith(f"{name} ")), advice]


def train(options: list[str]) -> subprocess.CompletedProcess[str]:
    """One command; one that takes too long counts as an error."""
    words = [word for option in options for word in shlex.split(option)]
    with tempfile.TemporaryDirectory() as folder:
        typed = [str(MAZE), "train", "ppo", *words, "--steps", str(STEPS), "--seed", "1", "--run-dir", f"{folder}/run"]
        try:
            return subprocess.run(
                [*typed, "-q"], capture_output=True, text=True, env=one_thread(), check=False, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(typed, 124, "", f"error: took more than {PATIENCE} seconds")


def refusal(text: str) -> str:
    """The error, and what to do, of what a command printed."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("error: ")), max(0, len(lines) - 1))
    return " ".join(line for line in lines[first:] if not line.startswith(("in hook ", "The last intact checkpoint")))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table, environments in their order."""
    return [
        [
            name,
            row["result"],
            f"{row['seconds']:.0f}",
            f"`{row['typed']}`",
            "; ".join(each.replace("|", "\\|") for each in row["refused"]) or "nothing",
        ]
        for name in ENVIRONMENTS
        if (row := rows.get(name)) is not None
    ]


if __name__ == "__main__":
    sys.exit(main())
