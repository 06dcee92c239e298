"""Publishes the policy of a run: measures it, writes its card, and puts the files where others can fetch them."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maze_core import ConfigError
from maze_core.base import files
from maze_core.base.terminal_text import argument, printable
from maze_core.plugins.config.record import read_record
from maze_core.run.episodes.saved_evaluation import Evaluation, evaluate_saved
from maze_core.run.saved.found_run import find_run
from maze_core.run.saved.saved_run import open_policy
from maze_publish import card, manifest
from maze_publish.address import Address, masked, parse
from maze_publish.archive import packed
from maze_publish.card import Card, Score
from maze_publish.intervals import half_width
from maze_publish.limits import LIMITS
from maze_publish.opening import imports_of, place
from maze_publish.sources import file_system
from maze_publish.stripping import acting_versions, private_values, stripped

_TO = "--to"
_RETURN, _DEVIATION = "eval/return_mean", "eval/return_std"
_OF_RETURNS = ("eval/return_min", "eval/return_max", "eval/episodes", "eval/steps")
_FILM_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """How a policy is published."""

    checkpoint: str | None = None
    """best, last or previous; None: best, or last."""
    episodes: int = 100
    """To measure it with; 0: not at all."""
    seed: int = 0
    """Of these episodes."""
    stochastic: bool | None = None
    """Sample actions; None: as configured."""
    name: str | None = None
    """On the card; None: the last part of the address."""
    note: str = ""
    command: str | None = None
    """What trains it again; None: the command with its configuration."""
    film: bool = False
    overrides: tuple[str, ...] = field(default=())
    """Changes of the configuration for the evaluation, as `path=value` texts."""


@dataclass(frozen=True, slots=True)
class Published:
    """What was published."""

    address: str
    """Pinned by the sum of its manifest."""
    card: Card
    bytes: int
    private: list[str]
    """Settings that look like paths or addresses of this machine."""


def publish_policy(run: Path, to: str, options: Options | None = None) -> Published:
    """Publish the policy of a run at a new address: an archive where it ends in `.zip`, else a folder.

    Raises:
        ConfigError: the address is taken, cannot be written or is one of HTTP; or the run cannot be evaluated.
        CheckpointError: the checkpoint is missing or damaged.
    """
    options = options or Options()
    address = _target(to)
    run_dir = find_run(run)
    with tempfile.TemporaryDirectory(prefix="maze-publish-") as folder:
        here = Path(folder)
        contents = stripped(run_dir, options.checkpoint, here / "stripped")
        score, film = _measured(run_dir, options, here / "film")
        facts = _card(run_dir, contents, options, score, options.name or address.name)
    if film is not None:
        contents[film[0]] = film[1]
    contents[manifest.CARD] = facts.encode()
    contents[manifest.PAGE] = card.page(facts, None if film is None else film[0])
    listed = manifest.encode(contents)
    _check_readable(listed, facts)
    _put(address, {**contents, manifest.NAME: listed})
    size = sum(map(len, contents.values()))
    return Published(address.pinned(manifest.sum_of(listed)), facts, size, private_values(contents))


def _target(to: str) -> Address:
    try:
        address = parse(to)
    except ConfigError as error:
        raise ConfigError(error.message, _TO, error.hint) from None
    if address.sum is not None:
        raise ConfigError("the sum is that of what is written; it cannot be chosen", _TO, "Next: without #sha256=")
    if address.kind in ("zoo", "http"):
        hint = "Next: publish it to a folder, and copy that to the server." if address.kind == "http" else None
        raise ConfigError(f"{masked(to)} can be read, but not written", _TO, hint)
    if address.kind == "path" and Path(address.place).exists():
        raise _taken(address)
    return address


def _taken(address: Address) -> ConfigError:
    return ConfigError(f"{masked(address.place)} exists already", _TO, "Next: a new address; a published one stays.")


def _measured(run_dir: Path, options: Options, folder: Path) -> tuple[Score | None, tuple[str, bytes] | None]:
    """Return the score of a run's policy, and its film with the name of the file."""
    if not options.episodes:
        if options.film or options.overrides:
            raise ConfigError("needs an evaluation", "--film" if options.film else "--set", "Next: --episodes 100")
        return None, None
    found = evaluate_saved(
        run_dir,
        episodes=options.episodes,
        seed=options.seed,
        deterministic=None if options.stochastic is None else not options.stochastic,
        checkpoint=options.checkpoint,
        video=folder if options.film else None,
        overrides=options.overrides,
    )
    film = None
    for path in found.videos[:1]:
        film = (f"film{path.suffix}", files.read_bytes(path, _FILM_BYTES))
        if film[0] not in manifest.FILMS:
            raise ConfigError(f"a film cannot be a file {printable(path.suffix)}", "--film")
    return score_of(found, options.episodes, _deterministic(run_dir, options)), film


def _deterministic(run_dir: Path, options: Options) -> bool:
    if options.stochastic is not None:
        return not options.stochastic
    from maze_core.plugins.config.checksummed_yaml import read_checksummed

    evaluation = read_checksummed(run_dir / manifest.CONFIG).get("evaluation")
    return bool(evaluation.get("deterministic", True)) if isinstance(evaluation, dict) else True


def score_of(found: Evaluation, episodes: int, deterministic: bool) -> Score:
    """Return the score that an evaluation has measured.

    Raises:
        ConfigError: it has no return.
    """
    metrics = {name: float(value) for name, value in found.metrics.items()}
    mean, deviation = metrics.pop(_RETURN), metrics.pop(_DEVIATION)
    if mean != mean or abs(mean) == float("inf"):
        raise ConfigError("the evaluation has no return that is a number", "--episodes")
    half = half_width(deviation, episodes)
    others = {name.removeprefix("eval/"): value for name, value in metrics.items() if name not in _OF_RETURNS}
    finite = {name: value for name, value in list(others.items())[:50] if abs(value) < float("inf")}
    return Score(
        mean=mean,
        low=None if half is None else mean - half,
        high=None if half is None else mean + half,
        deviation=deviation,
        episodes=episodes,
        seed=found.seed,
        deterministic=deterministic,
        others=finite,
    )


def _card(run_dir: Path, contents: dict[str, bytes], options: Options, score: Score | None, name: str) -> Card:
    record = read_record(run_dir)
    with closing(open_policy(run_dir, options.checkpoint, ("runner={name: dev}",))) as run:
        config, state = run.config, run.state
        algorithm, environment = config.algorithm.name, config.env_title
        trains = f"maze train {algorithm} --config {manifest.CONFIG} --seed {config.seed}"
        return Card(
            name=name,
            algorithm=algorithm,
            environment=environment,
            source=config.env.name,
            imports=imports_of(contents[manifest.CONFIG]),
            memory=bool(getattr(run.policy, "memory_cells", None) or getattr(config.model, "memory", "none") != "none"),
            agents=bool(run.environments.kind.agents),
            score=score,
            seed=config.seed or 0,
            steps=state.env_steps,
            epoch=state.epoch,
            seconds=float((record.get("summary") or {}).get("seconds") or state.seconds),
            parameters=int(record["parameters"].get("total", 0)),
            trained=str(record["started"]),
            versions=acting_versions(record),
            command=options.command or trains,
            note=options.note,
        )


def _check_readable(listed: bytes, facts: Card) -> None:
    """Refuse to publish what nobody could open."""
    try:
        manifest.decode(listed, LIMITS.bytes)
        card.decode(facts.encode())
    except ValueError as error:
        raise ConfigError(f"the policy cannot be published: {error}", "RUN") from None


def _put(address: Address, contents: dict[str, bytes]) -> None:
    """Write the files; an archive or folder of this machine appears when it is complete."""
    path = Path(address.place)
    try:
        if address.kind == "store":
            _put_into_store(address, contents)
        elif address.is_archive:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(path, packed(contents))
        else:
            place(contents, path)
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 — a file system may raise anything
        reason = printable(getattr(error, "strerror", None) or error, 200)
        raise ConfigError(f"{masked(address.place)} cannot be written: {reason}", _TO) from None


def _put_into_store(address: Address, contents: dict[str, bytes]) -> None:
    system: Any
    system, root = file_system(address.place)
    if system.exists(root if address.is_archive else f"{root}/{manifest.NAME}"):
        raise _taken(address)
    if address.is_archive:
        system.pipe_file(root, packed(contents))
        return
    # The manifest comes last: without it there is no policy.
    for name in sorted(contents, key=lambda each: each == manifest.NAME):
        system.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
        system.pipe_file(f"{root}/{name}", contents[name])


def next_commands(address: str) -> list[str]:
    """Return what to do with a published policy."""
    return [f"maze eval {argument(address)}", f"maze train ALGORITHM --env ID --init-from {argument(address)}"]
