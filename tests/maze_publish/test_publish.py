"""`maze publish` and what opens its result: the policy of a run, measured, from wherever it lies."""

import json
import secrets
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread

import pytest
import torch
from maze_publish import card, intervals, manifest
from maze_publish.opening import fetched, open_policy_at
from maze_publish.publishing import Options, publish_policy
from maze_publish.stripping import acting_versions

from maze_core.base.errors import CheckpointError, ConfigError
from maze_core.plugins import discovery
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from maze_core.run.saved.checkpoint import read_checkpoint
from maze_core.run.saved.saved_run import resume

KINDS = {
    "plain": {"env": "CartPole-v1"},
    "memory": {"env": "CartPole-v1", "overrides": {"model.memory": "gru", "model.memory_size": 8}},
    "wrapper that remembers": {"env": "CartPole-v1", "wrappers": ["normalize_observations"]},
}


@pytest.fixture
def trained(quick):
    """`trained(kind)`: the folder of a tiny run."""

    def train(kind="plain"):
        context = quick(algorithm="ppo", **KINDS[kind])
        context.train()
        return context.run_dir

    return train


class Silent(SimpleHTTPRequestHandler):
    """Serves the files of a folder, and says nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path):
    """The URL of a server for the folder of this test."""
    handler = partial(Silent, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("kind", ["memory", "wrapper that remembers"])
def test_a_published_policy_acts_as_its_run_does(trained, tmp_path, kind):
    run = trained(kind)
    done = publish_policy(run, str(tmp_path / "one.zip"), Options(episodes=4, seed=3))
    for seed in (3, 4):
        one, two = (evaluate_saved(Path(each), episodes=4, seed=seed).metrics for each in (run, done.address))
        assert one == two
    assert done.card.memory is (kind == "memory")
    assert done.card.score.mean == evaluate_saved(run, episodes=4, seed=3).metrics["eval/return_mean"]


@pytest.mark.parametrize("form", ["folder", "file:", "store", "HTTP folder"])
def test_every_form_of_address_is_opened_fetched_and_begun_from(trained, quick, tmp_path, maze, site, form, cache):
    run = trained()
    to = {"folder": "at/one", "file:": f"file://{tmp_path}/at/one.zip", "HTTP folder": "at/one"}.get(form, "at/one.zip")
    to = f"memory://{secrets.token_hex(4)}/one" if form == "store" else to
    said = maze("publish", run, "--to", to if ":" in to else tmp_path / to, "--episodes", 2).output.splitlines()
    address = said[1]
    if form.startswith("HTTP"):
        address = f"{site}/{to}#{address.partition('#')[2]}"
    found = json.loads(maze("eval", address, "--episodes", 2, "--seed", 5, "--json").stdout)
    assert found == json.loads(maze("eval", run, "--episodes", 2, "--seed", 5, "--json").stdout)
    maze("eval", address.partition("#")[0], "--episodes", 1)
    assert len(list(cache.iterdir())) == 1
    maze("fetch", address, "--dir", tmp_path / "got")
    begun = quick("CartPole-v1", init_from=address)
    weights = read_checkpoint(run / "checkpoints" / "best").model
    assert all(torch.equal(weights[name], tensor) for name, tensor in begun.policy.state_dict().items())
    shutil.rmtree(tmp_path / "at", ignore_errors=True)
    maze("eval", address, "--episodes", 1)  # what is pinned and cached needs nobody


def test_what_is_published_says_nothing_of_the_machine(quick, tmp_path):
    limits = {"callbacks.mirror.to": f"file://{tmp_path}/copy", "constraints.length.at_most": 50}
    context = quick("CartPole-v1", overrides=limits)
    context.train()
    publish_policy(context.run_dir, str(tmp_path / "one"), Options(episodes=0))
    state = json.loads((tmp_path / "one" / "checkpoints" / "best" / "state.json").read_bytes())
    assert not {"learner", "torch_rng", "callbacks"} & state.keys()
    everything = b"".join(path.read_bytes() for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert str(tmp_path).encode() not in everything
    assert b"jsonl" not in everything
    assert b"at_most: 50" in everything  # what it was trained for
    assert json.loads((tmp_path / "one" / "card.json").read_bytes())["score"] is None
    assert "eval/constraint/length" in evaluate_saved(tmp_path / "one", episodes=1).metrics


def test_the_same_policy_has_the_same_sum_and_a_changed_one_another(trained, tmp_path):
    run = trained()
    one, two, other = (
        publish_policy(run, str(tmp_path / f"{number}.zip"), Options(episodes=0, name="x", note=note)).address[-64:]
        for number, note in enumerate(("", "", "changed"))
    )
    assert one == two != other


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--to", "https://example.org/one.zip"], "can be read, but not written"),
        (["--to", "zoo:one"], "can be read, but not written"),
        (["--to", "taken.zip"], "exists already"),
        (["--to", f"one.zip#sha256={'0' * 64}"], "it cannot be chosen"),
        (["--to", "one.zip", "--checkpoint", "none"], "has no checkpoint none"),
        (["--to", "one.zip", "--episodes", "0", "--film"], "needs an evaluation"),
        (["--to", "one.zip", "--name", "x" * 301], "has 301 characters"),
        (["--to", "nosuch://bucket/one"], "names no store"),
    ],
)
def test_what_cannot_be_published_is_refused(trained, tmp_path, maze, monkeypatch, words, problem):
    run = trained()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.zip").write_bytes(b"mine")
    assert problem in maze("publish", run, *words, code=2).output
    assert (tmp_path / "taken.zip").read_bytes() == b"mine"
    assert not (tmp_path / "one.zip").exists()


def test_a_fetched_policy_is_no_run_to_continue(archive, tmp_path):
    fetched(str(archive()), tmp_path / "got")
    with pytest.raises(CheckpointError, match="published without the state of its training"):
        resume(tmp_path / "got")
    with pytest.raises(ConfigError, match="exists already"):
        fetched(str(archive()), tmp_path / "got")


def test_the_package_that_an_environment_names_is_imported_once_the_user_agrees(archive, contents, tmp_path, maze):
    text = contents["config.yaml"].replace(b"id: CartPole-v1", b"id: minigrid:MiniGrid-Empty-5x5-v0")
    path = archive({"config.yaml": text.partition(b"\n")[2]})
    said = maze("eval", path, code=2).output
    assert "names code of minigrid" in said
    assert "maze fetch" in said
    maze("fetch", path, "--dir", tmp_path / "got")
    with pytest.raises(ConfigError, match="names code of"):
        open_policy_at(str(path))


def test_a_damaged_cache_is_replaced(archive, cache):
    folder = open_policy_at(str(archive()))
    weights = folder / "checkpoints" / "best" / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-1])
    assert open_policy_at(str(archive())) == folder
    assert weights.read_bytes() == before
    assert [each.name for each in cache.iterdir()] == [folder.name]


def test_what_is_not_installed_is_named(monkeypatch, maze, archive):
    entries = discovery.entries
    monkeypatch.setattr(discovery, "entries", lambda group, name: [] if "address" in group else entries(group, name))
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    for words in (["eval", archive()], ["fetch", "zoo:x"], ["train", "ppo", "--init-from", "https://example.org/x"]):
        assert "maze-publish, which is not installed" in maze(*words, code=2).output


def test_zoos_are_listed_and_their_policies_evaluated(archive, maze, monkeypatch, tmp_path):
    from maze_publish import policies_at_hand

    archive()
    monkeypatch.setattr(policies_at_hand, "policies", lambda: {"one-CartPole": tmp_path / "policy.zip"})
    assert "zoo:one-CartPole" in maze("zoo", "list").output
    assert "made by" in maze("zoo", "show", "zoo:one-CartPole").output
    maze("eval", "zoo:one-CartPole", "--episodes", 1)
    assert "Did you mean one-CartPole?" in maze("eval", "zoo:one-CartPol", code=2).output


@pytest.mark.parametrize(
    ("probability", "freedom", "known"),
    [(0.975, 9, 2.262157), (0.975, 19, 2.093024), (0.95, 29, 1.699127), (0.995, 99, 2.626405)],
)
def test_the_quantile_is_that_of_the_tables(probability, freedom, known):
    assert intervals.t_quantile(probability, freedom) == pytest.approx(known, abs=2e-4)


def test_a_mean_of_few_episodes_has_no_interval():
    assert intervals.half_width(1.0, 9) is None
    values = [float(each % 7) for each in range(20)]
    mean = sum(values) / 20
    sample = (sum((each - mean) ** 2 for each in values) / 19) ** 0.5
    population = (sum((each - mean) ** 2 for each in values) / 20) ** 0.5
    assert intervals.half_width(population, 20) == pytest.approx(2.093024 * sample / 20**0.5, rel=1e-4)


def test_the_page_is_made_of_the_facts(contents):
    facts = card.decode(contents[manifest.CARD])
    assert card.page(facts, None) == contents[manifest.PAGE]
    assert facts.environment == "CartPole-v1"
    assert facts.score.low <= facts.score.mean <= facts.score.high


def test_what_only_displays_is_not_among_the_versions(contents):
    """Whoever opens the policy is not told to install what it does not use."""
    kept = {"torch": "2.13.0", "maze-ppo": "0.1.0", "maze-safety": "0.1.0", "of-others": "3"}
    observers = {"tensorboard": "tensorboard", "constraints": "constraints"}
    record = {"observers": observers, "versions": {**kept, "maze-tensorboard": "0.1.0"}}
    assert acting_versions(record) == kept
    versions = json.loads(contents["run.json"])["versions"]
    assert "maze-a2c" in versions
    assert json.loads(contents[manifest.CARD])["versions"] == versions
