"""Training speed beside other frameworks, as ratios of paired runs.

    python benchmarks/speed.py                              all rows; makes .venv-bench for the peers first
    python benchmarks/speed.py --only ppo-CartPole-v1 --pairs 3
    python benchmarks/speed.py --peer-python /path/to/venv/bin/python

Machines drift while a benchmark runs. So each framework runs in turn, as a process of its own, again and again
(ours, peer, ours, peer, …), and each ratio is of two neighbouring runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
from command import figures
from statistics_of_runs import spread

HERE = Path(__file__).parent
VENV = HERE.parent / ".venv-bench"
PAGE = "speed"


@dataclass(frozen=True)
class Row:
    """One workload. Scripts take the settings as JSON and print `env_steps_per_second` and `peak_rss_kib` as JSON."""

    name: str
    settings: dict[str, Any]
    ours: str
    peers: dict[str, str]
    """Script below benchmarks/ by the peer's name."""
    gates: dict[str, float]
    """Least ratio to a peer, by its name."""


ON_POLICY = {
    "env": "CartPole-v1",
    "num_envs": 8,
    "n_rollout_steps": 128,
    "hidden": [64, 64],
    "lr": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "entropy_coef": 0.0,
    "value_loss_coef": 0.5,
    "max_grad_norm": 0.5,
    "normalize_advantages": True,
    "warmup_updates": 5,
    "measured_updates": 50,
}
NATIVE = {"vectorization": "native"}
PPO = {**ON_POLICY, "algorithm": "ppo", "batch_size": 256, "n_optimization_epochs": 4, "clip_range": 0.2}
WIDE = {
    **PPO,
    **NATIVE,
    "num_envs": 1024,
    "batch_size": 8192,
    "warmup_updates": 2,
    "measured_updates": 8,
}
RECURRENT = {**PPO, "hidden": [64], "memory": "lstm", "memory_size": 64, "warmup_updates": 2, "measured_updates": 10}
A2C = {**ON_POLICY, "algorithm": "a2c"}
IMPALA = {
    **PPO,
    "impala": {
        "num_actors": 2,
        "envs_per_actor": 8,
        "actors_batch_size": 8,
        "n_rollout_steps": 100,
        "lr": 5e-4,
        "gamma": 0.98,
        "max_grad_norm": 0.0,
        "epoch_length": 100,
        "n_epochs": 5,
    },
}
SAC = {
    "algorithm": "sac",
    "env": "Pendulum-v1",
    "hidden": [256, 256],
    "lr": 1e-3,
    "gamma": 0.99,
    "tau": 0.005,
    "batch_size": 256,
    "initial_buffer_size": 100,
    "replay_buffer_size": 100_000,
    "warmup_updates": 500,
    "measured_updates": 2000,
}
DQN = {
    **SAC,
    "algorithm": "dqn",
    "env": "CartPole-v1",
    "tau": 1.0,
    "target_update_interval": 500,
    "measured_updates": 4000,
}
TD3, TQC = {**SAC, "algorithm": "td3"}, {**SAC, "algorithm": "tqc", "measured_updates": 1000}
CROSSQ = {**SAC, "algorithm": "crossq", "critic_hidden": [512, 512], "measured_updates": 1000}
COMPILED = {"compile": "on"}
WIDER = {**WIDE, **COMPILED, "num_envs": 2048, "n_rollout_steps": 32}
RLLIB_IMPALA, EARLIER_MAZE_ES, SB3_PPO = 2043, 804, 4028
"""Env steps/s of RLlib's IMPALA with two actors, of the ES of the Maze before this one (evaluation counted) and of
stable-baselines3's PPO, measured on one machine: the gates of three times RLlib and fifty times Maze, scaled to the
machine at hand by a run of PPO."""
SB3, SB3_ON_PPO = "stable-baselines3", "stable-baselines3 PPO"
SBX, REJAX, RECURRENT_SB3 = "SBX, by JAX", "rejax, by JAX with the environment", "sb3-contrib RecurrentPPO"
CONTRIB = "sb3-contrib"
ON_POLICY_PEERS = {
    SB3: "peers/sb3_onpolicy.py",
    "rlox": "peers/rlox_ppo.py",
    REJAX: "peers/rejax_ppo.py",
}
OFF_POLICY_PEERS = {SB3: "peers/sb3_offpolicy.py", SBX: "peers/sbx_offpolicy.py"}
SB3_ON_POLICY = {SB3: "peers/sb3_onpolicy.py"}
SBX_ALONE = {SBX: "peers/sbx_offpolicy.py"}
PPO_OF_SB3 = {SB3_ON_PPO: "peers/sb3_onpolicy.py"}
RLLIB_GATE, ES_GATE = round(3 * RLLIB_IMPALA / SB3_PPO, 2), round(50 * EARLIER_MAZE_ES / SB3_PPO, 2)
ROWS = (
    Row("ppo-CartPole-v1", PPO, "ours_onpolicy.py", ON_POLICY_PEERS, {SB3: 3.0}),
    Row("ppo-1024-CartPole-v1", WIDE, "ours_onpolicy.py", {REJAX: "peers/rejax_ppo.py"}, {REJAX: 0.9}),
    Row(
        "recurrent-ppo-CartPole-v1",
        RECURRENT,
        "ours_onpolicy.py",
        {RECURRENT_SB3: "peers/sb3_onpolicy.py"},
        {RECURRENT_SB3: 3.0},
    ),
    Row("a2c-CartPole-v1", A2C, "ours_onpolicy.py", SB3_ON_POLICY, {SB3: 3.0}),
    Row("impala-CartPole-v1", IMPALA, "ours_impala.py", PPO_OF_SB3, {SB3_ON_PPO: RLLIB_GATE}),
    Row("es-CartPole-v1", PPO, "ours_es.py", PPO_OF_SB3, {SB3_ON_PPO: ES_GATE}),
    Row("sac-Pendulum-v1", SAC, "ours_offpolicy.py", OFF_POLICY_PEERS, {SB3: 2.0, SBX: 1.1}),
    Row("td3-Pendulum-v1", TD3, "ours_offpolicy.py", OFF_POLICY_PEERS, {SB3: 1.5, SBX: 1.1}),
    Row("dqn-CartPole-v1", DQN, "ours_offpolicy.py", OFF_POLICY_PEERS, {SBX: 1.1}),
    Row("sac-compiled-Pendulum-v1", {**SAC, **COMPILED}, "ours_offpolicy.py", OFF_POLICY_PEERS, {SB3: 1.5, SBX: 1.1}),
    Row("td3-compiled-Pendulum-v1", {**TD3, **COMPILED}, "ours_offpolicy.py", OFF_POLICY_PEERS, {SB3: 1.5, SBX: 1.1}),
    Row("dqn-compiled-CartPole-v1", {**DQN, **COMPILED}, "ours_offpolicy.py", SBX_ALONE, {SBX: 1.1}),
    Row(
        "tqc-compiled-Pendulum-v1",
        {**TQC, **COMPILED},
        "ours_offpolicy.py",
        {CONTRIB: "peers/sb3_offpolicy.py", **SBX_ALONE},
        {CONTRIB: 1.5, SBX: 1.0},
    ),
    Row("crossq-compiled-Pendulum-v1", {**CROSSQ, **COMPILED}, "ours_offpolicy.py", SBX_ALONE, {SBX: 1.0}),
    Row("ppo-compiled-CartPole-v1", {**PPO, **COMPILED}, "ours_onpolicy.py", SB3_ON_POLICY, {SB3: 3.0}),
    Row(
        "ppo-native-compiled-CartPole-v1", {**PPO, **COMPILED, **NATIVE}, "ours_onpolicy.py", SB3_ON_POLICY, {SB3: 3.0}
    ),
    Row("a2c-compiled-CartPole-v1", {**A2C, **COMPILED}, "ours_onpolicy.py", SB3_ON_POLICY, {SB3: 3.0}),
    Row("a2c-native-CartPole-v1", {**A2C, **NATIVE}, "ours_onpolicy.py", SB3_ON_POLICY, {SB3: 3.0}),
    Row(
        "ppo-1024-compiled-CartPole-v1",
        {**WIDE, **COMPILED},
        "ours_onpolicy.py",
        {REJAX: "peers/rejax_ppo.py"},
        {REJAX: 0.9},
    ),
    # The environment in JAX on both sides: rollouts are compiled here, too.
    Row("ppo-jax-CartPole-v1", {**PPO, **COMPILED}, "ours_jax.py", {REJAX: "peers/rejax_ppo.py"}, {REJAX: 0.4}),
    Row("ppo-jax-2048-CartPole-v1", WIDER, "ours_jax.py", {REJAX: "peers/rejax_ppo.py"}, {REJAX: 1.2}),
)

INTRODUCTION = """
# Training speed

Environment steps per second of training, evaluation not counted, after a warm-up; one torch thread; the same networks,
environments side by side, rollouts, minibatches, passes and hyperparameters on both sides. They run in turn as separate
processes, and each ratio is that of two neighbouring runs, because the speed of a machine drifts. Shown is the median
(min to max) over the pairs. Memory is the peak resident memory of the process.

The row of ES is that of a whole run with the preset that ships, evaluation counted. The off-policy algorithms step one
environment and take one optimizer step on 256 rows for each step, so their rate is that of updates as well. SBX
compiles its updates with JAX, and rejax the environment as well. Rows with `compiled` in their name have Maze's
`compile=on`, others none. The time of compiling is not counted; the memory of Maze's compiler, a process of its own,
is. TQC shared the machine with other runs on its second core, so both sides are slower than elsewhere. CrossQ has
critics of 512 units. rlox steps environments and gathers rollouts in Rust. With 1,024 environments, and where a row has
`native` in its name, Maze steps gymnasium's vectorised CartPole. Recurrent PPO has an LSTM of 64 units in policy and
critic, and a layer of 64 units: before the LSTM in Maze, after it in the peer.

Made by `python benchmarks/speed.py`; the figures of every run are in `speed.json`.
"""
HEADERS = ["work", "env steps/s", "peak memory, MiB", "maze ÷ peer", "gate"]


def main() -> int:
    options = parse_options()
    peer_python = options.peer_python or prepare_venv()
    rows, missed = results.load(PAGE), 0
    for row in ROWS:
        if options.only and row.name not in options.only:
            continue
        result = measure(row, options.pairs, peer_python)
        missed += not passes(result)
        rows = results.merge(PAGE, row.name, result)
        results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
    results.show("Training speed", HEADERS, cells_of(rows))
    return 1 if missed else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="measure this row only")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each framework (default 5)")
    parser.add_argument("--peer-python", type=Path, help="python of an environment that has the peers")
    return parser.parse_args()


def prepare_venv() -> Path:
    """Make the peers' environment where there is none, or none with these requirements; return its python."""
    python = VENV / "bin" / "python"
    done = VENV / "complete"
    requirements, constraints = HERE / "peers" / "requirements.txt", HERE.parent / "constraints.txt"
    wanted = requirements.read_text()
    if not (done.exists() and done.read_text() == wanted):
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        pip = [str(python), "-m", "pip", "install"]
        others = VENV / "constraints.txt"
        others.write_text(without_named(constraints.read_text(), wanted))
        subprocess.run([*pip, "-r", str(requirements), "-c", str(others)], check=True)
        done.write_text(wanted)
    return python


def without_named(constraints: str, requirements: str) -> str:
    """Return constraints without the packages that requirements pin: the peers need other versions."""
    named = {line.split("==")[0] for line in requirements.splitlines() if "==" in line}
    return "".join(line for line in constraints.splitlines(keepends=True) if line.split("==")[0] not in named)


def measure(row: Row, pairs: int, peer_python: Path) -> dict[str, Any]:
    """Run ours and each peer in turn, `pairs` times. Returns the figures of every run by framework."""
    contenders = {"maze": (Path(sys.executable), row.ours)}
    contenders |= {peer: (peer_python, script) for peer, script in row.peers.items()}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for pair in range(pairs):
        for name, (python, script) in contenders.items():
            result = run_once(python, script, {**row.settings, "seed": pair + 1})
            runs[name].append(result)
            print(
                f"{row.name}  {pair + 1}/{pairs}  {name:<20} {result['env_steps_per_second']:>8,.0f} steps/s",
                flush=True,
            )
    return {"settings": row.settings, "gates": row.gates, "runs": runs}


def run_once(python: Path, script: str, settings: dict[str, Any]) -> dict[str, float]:
    """One process, one measurement."""
    return figures(python, HERE / script, json.dumps(settings))


def ratios(result: dict[str, Any], peer: str) -> list[float]:
    """Ours divided by the peer's rate, pair by pair."""
    return [
        ours["env_steps_per_second"] / theirs["env_steps_per_second"]
        for ours, theirs in zip(result["runs"]["maze"], result["runs"][peer], strict=True)
    ]


def passes(result: dict[str, Any]) -> bool:
    """Whether the median ratio to each peer with a gate reaches it."""
    return all(reaches(result, peer) for peer in result["gates"])


def reaches(result: dict[str, Any], peer: str) -> bool:
    """Whether the median ratio to a peer reaches its gate."""
    return bool(statistics.median(ratios(result, peer)) >= result["gates"][peer])


def peers_of(result: dict[str, Any]) -> list[str]:
    return [name for name in result["runs"] if name != "maze"]


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table of all rows measured so far."""
    return [line for name, result in rows.items() for line in lines_of(name, result)]


def lines_of(name: str, result: dict[str, Any]) -> results.Cells:
    """The table lines of one row: ours, then each peer with the ratio to it."""
    lines = [[f"{name}: maze", *_figures(result, "maze", ""), ""]]
    for peer in peers_of(result):
        least = result["gates"].get(peer)
        gate = "" if least is None else f"≥ {least:g}: {'met' if reaches(result, peer) else 'missed'}"
        lines.append([f"{name}: {peer}", *_figures(result, peer, spread(ratios(result, peer), ".2f")), gate])
    return lines


def _figures(result: dict[str, Any], name: str, ratio: str) -> list[str]:
    runs = result["runs"][name]
    memory = statistics.median(run["peak_rss_kib"] for run in runs) / 1024
    return [spread([run["env_steps_per_second"] for run in runs], ",.0f"), f"{memory:.0f}", ratio]


if __name__ == "__main__":
    sys.exit(main())
