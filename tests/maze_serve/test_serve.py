"""The server: what it answers and refuses, memories of sessions, several agents, and that it stays on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Doors, Workshop
from maze_serve import sessions
from maze_serve.json_values import UnfitValueError, from_json, to_json
from maze_serve.policy import ServedPolicy

from maze_core.base.errors import ConfigError
from tests import planners
from tests.forked import Forked
from tests.maze_serve.asked import app_of, ask


@pytest.fixture
def client(quick):
    """`client(env, overrides)`: what asks the policy of an untrained run, and the run."""

    def build(env, overrides=None, **parts):
        context = quick(env, "ppo", overrides, **parts)
        return partial(ask, app_of(context)), context

    return build


def test_it_acts_as_the_run_does(client):
    asked, context = client(Workshop, {"model.name": "template"})
    with closing(context.make_env()) as env:
        observation, _ = env.reset(seed=1)
        for _ in range(5):
            sent = json.loads(json.dumps(to_json(observation)))
            answer = asked("/act", {"observation": sent})
            expected = context.compute_action(observation)
            assert answer.json == {"action": to_json(expected)}
            observation, *_ = env.step(expected)
    several = asked("/act", {"observations": [sent] * 3}).json["actions"]
    seen = [from_json(sent, context.policy.observation_space)] * 3
    assert several == [to_json(action) for action in context.compute_actions(seen)]


def test_sessions_remember_apart_and_can_begin_anew(client, monkeypatch):
    asked, context = client(SeededWalk, {"model.memory": "gru", "model.normalize_observations": False})
    agent, steps = context.agent(), [[0.5, 1.0], [2.0, 3.0], [-4.0, 9.0]]
    agent.reset()
    expected = [to_json(agent.act(np.array(each))) for each in steps]

    def played(session):
        return [asked("/act", {"observation": each, "session": session}).json["action"] for each in steps]

    interleaved = [
        asked("/act", {"observation": each, "session": name}).json["action"] for each in steps for name in ("a", "b")
    ]
    assert interleaved == [action for action in expected for _ in range(2)]
    assert asked("/reset", {"session": "a"}).status == 200
    assert played("a") == expected
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 2)
    assert played("c") == played("b" * 200) == expected


def test_agents_are_asked_by_name(quick):
    pettingzoo = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    context = quick({"name": "pettingzoo", "id": "pettingzoo.classic:tictactoe_v3"})
    asked = partial(ask, app_of(context))
    with closing(pettingzoo.env()) as env:
        env.reset(seed=1)
        observation, *_ = env.last()
        sent = to_json(observation)
        agents = context.agents()
        agents.reset()
        expected = int(agents.act("player_1", observation))
        answer = asked("/act", {"observation": sent, "agent": "player_1"})
        assert answer.json == {"action": expected}
        wrong = asked("/act", {"observation": sent, "agent": "nobody"})
        assert wrong.status == 422
        assert "player_1" in wrong.json["error"]
        full = {"observation": {**sent, "action_mask": [0] * 9}, "agent": "player_1"}
        assert asked("/act", full).status == 422


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"[", 400, "not JSON"),
        (b"[1]", 400, "JSON object"),
        (b"{}", 400, "neither"),
        (b'{"observation": [NaN, 0]}', 400, "NaN"),
        (b'{"observation": [1e999, 0]}', 422, "inf"),
        (b'{"observation": [1]}', 422, "shape"),
        (b'{"observation": {"a": 1}}', 422, "observation"),
        (b'{"observation": null}', 422, "observation"),
        (b'{"observation": [[1], [1, 2]]}', 422, "shape"),
        (b'{"observation": ["a", "b"]}', 422, "numbers"),
        (b'{"observation": [1, 2], "agent": "x"}', 422, "no agent"),
        (b'{"observation": [1, 2], "session": 3}', 400, "session"),
        (b'{"observation": [1, 2], "info": 3}', 400, "info"),
        (b'{"observations": 3}', 400, "list"),
        (b'{"observation": ' + b"[" * 100_000, 400, "not JSON"),
        (b"\xff", 400, "not JSON"),
    ],
)
def test_what_it_cannot_answer_is_one_sentence(client, content, status, words):
    asked, _ = client(SeededWalk)
    answer = asked("/act", content)
    assert answer.status == status
    assert words in answer.json["error"]
    assert "\n" not in answer.json["error"]
    assert f'maze_refused_total{{status="{status}"}} 1' in asked("/metrics").body.decode()


def test_masks_without_a_choice_are_refused(client):
    asked, context = client(Doors)
    with closing(context.make_env()) as env:
        observation, _ = env.reset(seed=1)
    sent = to_json(observation)
    assert asked("/act", {"observation": sent}).status == 200
    sent["action_mask"] = [0] * len(sent["action_mask"])
    assert asked("/act", {"observation": sent}).status == 422


def test_pages_of_other_names_get_no_answer(client):
    """A page in a browser may lead a name of its own to 127.0.0.1, or send a form."""
    asked, _ = client(SeededWalk)
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
        assert asked("/health", host=host).status == 403, host
    for host in ("127.0.0.1:8000", "localhost", "localhost:1", "[::1]:80"):
        assert asked("/health", host=host).status == 200, host
    plain = asked("/act", b'{"observation": [1, 2]}', content_type="text/plain")
    assert plain.status == 415


def test_what_is_counted(client):
    asked, _ = client(SeededWalk)
    asked("/act", {"observation": [1, 2]})
    asked("/act", {"observations": [[1, 2]] * 4})
    lines = asked("/metrics").body.decode().splitlines()
    assert "maze_decisions_total 5" in lines
    assert "maze_act_seconds_count 2" in lines
    assert 'maze_act_seconds_bucket{le="+Inf"} 2' in lines


@pytest.mark.parametrize(
    ("space", "value", "problem"),
    [
        (spaces.Discrete(3), 1.5, "whole"),
        (spaces.Discrete(3), True, "not true"),
        (spaces.Box(-1, 1, (2,)), [1, True], "not true"),
        (spaces.Box(-1, 1, (2, 2)), [[0.5, 1], [False, 1]], "not true"),
        (spaces.Box(-1, 1, (2,)), ["0", "1"], "numbers"),
        (spaces.Box(-1, 1, (2,)), {"a": 1}, "an object"),
        (spaces.MultiBinary(2), [True, 0], None),
        (spaces.Box(0, 1, (2,), np.bool_), [True, False], None),
        (spaces.Box(0, 1, (2,), np.bool_), [2, 0], "true and false"),
        (spaces.Discrete(3), [1], "shape"),
        (spaces.Box(0, 255, (2,), np.uint8), [300, 0], "whole numbers of uint8"),
        (spaces.Box(0, 255, (2,), np.uint8), [-1, 0], "whole numbers of uint8"),
        (spaces.Box(0, 255, (2,), np.uint8), [255, 0], None),
        (spaces.MultiDiscrete([2, 3]), [1, 2], None),
        (spaces.MultiBinary(2), [1, 0.5], "whole"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"a": 1, "b": 2}, "'b'"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {}, "no 'a'"),
        (spaces.Tuple([spaces.Discrete(2)]), [1, 1], "1 parts"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,))]), [1, [0.5]], None),
        (spaces.Box(-1, 1, (1,), np.float64), [10**400], "numbers"),
    ],
)
def test_values_of_spaces(space, value, problem):
    if problem is None:
        assert space.contains(from_json(value, space))
    else:
        with pytest.raises(UnfitValueError, match=problem):
            from_json(value, space)


def test_a_run_with_a_planner_needs_the_environment(quick):
    context = quick(planners.Doors, callbacks={"ahead": planners.Ahead})
    with pytest.raises(ConfigError, match="--no-look-ahead"):
        ServedPolicy(context)
    ServedPolicy(context, look_ahead=False)


def served_action(address):
    """Ask the server until it answers."""
    body, deadline = json.dumps({"observation": [0.1, 0, 0, 0]}).encode(), time.monotonic() + 60
    request = urllib.request.Request(f"{address}/act", body, {"Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)["action"]
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.slow
def test_servers_from_the_command_line(quick):
    """One that says where it is, one that finds no place there, and one that takes the place later."""
    context = quick("CartPole-v1")
    context.train()
    words = ["serve", str(context.run_dir), "--port"]
    command = [sys.executable, "-m", "maze_core.cli.main", *words, "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        address = process.stdout.readline().split()[3].rstrip(";")
        assert address.startswith("http://127.0.0.1:")
        assert served_action(address) in (0, 1)
        words.append(address.rpartition(":")[2])
        taken = Forked(words, context.run_dir, os.environ)
        assert "cannot listen" in taken.communicate(60)[1]
        assert taken.returncode == 2
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    later = Forked(words, context.run_dir, os.environ)
    try:
        assert served_action(address) in (0, 1)
    finally:
        later.send_signal(signal.SIGTERM)
        assert later.wait(20) == 143
