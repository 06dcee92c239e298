"""The zoo: trains the policies that are missing, publishes them, and evaluates all of them again.

    python benchmarks/zoo.py            # evaluates each policy of the zoo: is its return in the interval of its card?
    python benchmarks/zoo.py train      # trains the rows of zoo_rows.py that have no archive, one after the other
    python benchmarks/zoo.py train NAME # this one alone, again
    python benchmarks/zoo.py film       # films an episode of each policy that has none and can be rendered

A training that was killed continues where it stopped. The archives go to `plugins/maze_zoo/maze_zoo/policies`.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from zoo_rows import ROWS, SEED

ROOT = Path(__file__).parents[1]
ARCHIVES = ROOT / "plugins" / "maze_zoo" / "maze_zoo" / "policies"
WORK = ROOT / "build" / "zoo"
EPISODES = 100
FEWER = {"alphazero-tictactoe_v3": 20}
"""Policies whose episodes take long."""
EPISODES_SEED = 1000
MAZE = str(Path(sys.executable).with_name("maze"))
FILM, MOST_FILM = "film.mp4", 300_000
TOLERANCE = 0.01
"""Share of the mean by which an interval is widened: other machines round in other ways."""


def main() -> None:
    """Train, or evaluate again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("check", "train", "film"), default="check")
    parser.add_argument("names", nargs="*", help="of zoo_rows.py; default: all")
    arguments = parser.parse_args()
    names = arguments.names or list(ROWS)
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"zoo_rows.py has no {unknown[0]}")
    if arguments.what == "train":
        for name in names:
            if arguments.names or not archive(name).exists():
                make(name)
    elif arguments.what == "film":
        for name in names:
            if archive(name).exists():
                film(name)
    elif check(names):
        sys.exit(1)


def archive(name: str) -> Path:
    """Return the archive of a policy."""
    return ARCHIVES / f"{name}.zip"


def make(name: str, work: Path = WORK) -> None:
    """Train a policy, or continue its training, and publish it in place of an older one."""
    run = work / name
    if not finished(run):
        arguments = ["resume", str(run)] if (run / "checkpoints" / "last").is_dir() else training(name, run)
        print(f"{name}: maze {shlex.join(arguments)}", flush=True)
        subprocess.run([MAZE, *arguments], check=True)
    publish(name, run)


def training(name: str, run: Path) -> list[str]:
    """Return the arguments that begin a training."""
    return ["train", *ROWS[name].split(), "--seed", SEED, "--quiet", "--run-dir", str(run)]


def finished(run: Path) -> bool:
    """Return True if a training has ended."""
    record = run / "run.json"
    return record.is_file() and '"outcome": "finished"' in record.read_text(encoding="utf-8")


def publish(name: str, run: Path) -> None:
    """Measure a policy and write its archive."""
    from maze_publish.publishing import Options, publish_policy

    fresh = run.with_name(f"{name}.zip")
    fresh.unlink(missing_ok=True)
    command = f"maze train {ROWS[name]} --seed {SEED}"
    options = Options(episodes=FEWER.get(name, EPISODES), seed=EPISODES_SEED, name=name, command=command)
    done = publish_policy(run, str(fresh), options)
    shutil.move(fresh, archive(name))
    film(name)
    print(f"{name}: {'' if done.card.score is None else done.card.score.text}, {done.bytes:,} bytes", flush=True)


def film(name: str) -> None:
    """Put a film of one episode into the archive of a policy that has none, if its environment can be rendered."""
    from maze_publish import card, manifest
    from maze_publish.address import parse
    from maze_publish.archive import packed
    from maze_publish.opening import card_of, find

    from maze_core import MazeError
    from maze_core.run.episodes.saved_evaluation import evaluate_saved

    policy = find(parse(str(archive(name))))
    if policy is None or any(each in policy.parts for each in manifest.FILMS):
        return
    contents = policy.contents()
    del contents[manifest.NAME]
    with tempfile.TemporaryDirectory() as folder:
        try:
            address = Path(f"zoo:{name}")
            (made,) = evaluate_saved(address, episodes=1, seed=EPISODES_SEED, video=Path(folder) / "film").videos
        except MazeError as error:
            print(f"{name}: no film: {error.message}", flush=True)
            return
        data = made.read_bytes()
    if len(data) > MOST_FILM:
        print(f"{name}: no film: {len(data):,} bytes", flush=True)
        return
    contents[FILM] = data
    contents[manifest.PAGE] = card.page(card_of(archive(name)), FILM)
    archive(name).write_bytes(packed({**contents, manifest.NAME: manifest.encode(contents)}))
    print(f"{name}: a film of {len(data):,} bytes", flush=True)


def check(names: list[str]) -> list[str]:
    """Evaluate policies again, on the episodes of their cards; return those that are outside of their intervals."""
    from maze_publish.opening import card_of

    from maze_core.run.episodes.saved_evaluation import evaluate_saved

    wrong, there = [], [name for name in names if archive(name).exists()]
    for name in there:
        score = card_of(archive(name)).score
        if score is None or score.low is None or score.high is None:
            wrong.append(name)
            print(f"{name}: its card has no interval")
            continue
        found = evaluate_saved(
            Path(f"zoo:{name}"), episodes=score.episodes, seed=score.seed, deterministic=score.deterministic
        ).metrics["eval/return_mean"]
        slack = TOLERANCE * abs(score.mean)
        within = score.low - slack <= found <= score.high + slack
        print(f"{name}: {found:,.4g}, the card says {score.text}{'' if within else '  OUTSIDE'}", flush=True)
        wrong += [] if within else [name]
    missing = [name for name in names if name not in there]
    print(
        f"{len(there) - len(wrong)} of {len(there)} within their intervals; not trained: {', '.join(missing) or 'none'}"
    )
    return wrong


if __name__ == "__main__":
    main()
