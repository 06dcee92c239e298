"""What a request may say: every key takes effect or is refused, and a refused request leaves nothing behind."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest
from maze_devkit.envs import SeededWalk
from maze_serve import sessions
from maze_serve.json_values import to_json

from tests.maze_serve.asked import app_of, ask

MEMORY = {"model.memory": "gru", "model.normalize_observations": False}
ONE, OTHER, HUGE = [0.5, 1.0], [-4.0, 9.0], [1e300, 0]


@pytest.fixture
def asked(quick):
    """What asks a policy without memory."""
    return partial(ask, app_of(quick(SeededWalk, "ppo")))


@pytest.fixture
def remembering(quick):
    """What asks a policy with memory, and its run."""
    context = quick(SeededWalk, "ppo", MEMORY)
    return partial(ask, app_of(context)), context


def test_what_would_have_no_effect_is_refused(asked):
    for body, words in (
        ({"observation": ONE, "sesion": "a"}, "'sesion' in /act; did you mean session"),
        ({"observation": ONE, "Session": "a"}, "did you mean session"),
        ({"obs": ONE}, "'obs'"),
        ({"observation": ONE, "deterministic": False}, "'deterministic'"),
        ({"observation": ONE, "observations": [ONE]}, "both"),
        ({"observation": ONE, "observations": None}, "list"),
        ({"observation": ONE, "reward": 1.0}, "does not act by rewards"),
        ({"observation": ONE, "info": {"action_mask": [1, 0]}}, "not in 'info'"),
        ({"observation": ONE, "info": {}}, "not in 'info'"),
        ({"observation": ONE, "info": 0}, "object"),
        ({"observations": [ONE], "info": {}}, "one 'observation'"),
        ({"observations": [ONE], "reward": None}, "one 'observation'"),
        ({"observation": ONE, "session": ""}, "1 to 200"),
        ({"observation": ONE, "session": "a" * 201}, "1 to 200"),
        ({"observation": ONE, "session": None}, "1 to 200"),
        ({"observation": ONE, "agent": 1}, "1 to 200"),
        (b'{"observation": [0, 1], "observation": [1, 1]}', "twice"),
        (b'{"observation": {"a": 1, "a": 2}}', "twice"),
        (b'{"observation": [0, 1], "session": "a", "session": "b"}', "'session' occurs twice"),
        (b'{"observation": [-Infinity, 1]}', "-Infinity"),
        ('{"observation": [0, 1]}'.encode("utf-16"), "not JSON"),
        (b"", "not JSON"),
    ):
        answer = asked("/act", body)
        assert (answer.status, words in answer.json["error"]) == (400, True), (body, answer.json)
    nested = b'{"observation":' + b'{"a":' * 900 + b"1" + b"}" * 901
    assert asked("/act", nested).status in (400, 422)
    for body in ({"session": "a", "agent": "b"}, {"sessions": "a"}, {"observation": ONE}, {"session": 1}, []):
        assert asked("/reset", body).status == 400, body
    for body in ([1, True], ["0", "1"], "[0, 1]", {"observation": ONE}, [ONE], [1, None], True):
        assert asked("/act", {"observation": body}).status == 422, body


def test_what_is_asked_in_the_wrong_way(asked):
    body = {"observation": ONE}
    for answer, status in (
        (asked("/act?session=a", body), 400),
        (asked("/act?", body), 400),
        (asked("/health?verbose=1"), 400),
        (asked("/acts", body), 404),
        (asked("/act/", body), 404),
        (asked("/act"), 405),
        (asked("/health", {}), 405),
        (asked("/act", body, method="PUT"), 405),
        (asked("/act", body, method="OPTIONS"), 405),
        (asked("/health", b"{}", method="GET"), 400),
        (asked("/act", body, content_type="application/x-www-form-urlencoded"), 415),
        (asked("/act", body, content_type=""), 415),
        (asked("/act", body, content_type="application/json; charset=latin-1"), 415),
        (asked("/act", body, content_encoding="gzip"), 415),
        (asked("/act", body, host="localhost:x"), 403),
    ):
        assert answer.status == status, answer
        assert answer.json["error"]
    assert asked("/act", body, content_type="Application/JSON; charset=UTF-8").status == 200
    assert asked("/health", method="HEAD").status == 200
    counted = asked("/metrics").body.decode()
    assert 'maze_refused_total{status="405"} 4' in counted


def test_a_policy_that_remembers_is_told_in_which_episode(remembering):
    asked, _ = remembering
    assert asked("/").status == 200
    for path, body in (("/act", {"observation": ONE}), ("/act", {"observations": [ONE]}), ("/reset", {})):
        answer = asked(path, body)
        assert (answer.status, "'session'" in answer.json["error"]) == (400, True), path
    assert asked("/act", {"observation": ONE, "session": "a"}).status == 200


@pytest.mark.parametrize("wrong", [HUGE, [1], ["a", "b"], [1, True], {"a": 1}, None])
def test_a_refused_batch_is_not_remembered(remembering, wrong):
    asked, context = remembering
    agent = context.agent()
    agent.reset()
    for number, seen in enumerate([[ONE, OTHER], [OTHER, OTHER, ONE]]):
        refused = asked("/act", {"observations": [*seen, wrong, ONE], "session": "a"})
        assert refused.status == 422
        assert f"observations.{len(seen)}:" in refused.json["error"]
        assert asked("/act", {"observation": wrong, "session": "a"}).status == 422
        expected = [to_json(agent.act(np.array(each))) for each in seen]
        assert asked("/act", {"observations": seen, "session": "a"}).json["actions"] == expected, number


def test_a_refused_request_draws_no_random_numbers(quick):
    """A policy that samples acts after it as if it had not been sent."""
    import torch
    from maze_serve.app import App
    from maze_serve.policy import ServedPolicy

    context = quick(SeededWalk, "ppo", MEMORY)

    def sampled(*before):
        torch.manual_seed(1)
        asked = partial(ask, App(ServedPolicy(context, deterministic=False), {}))
        for body in before:
            assert asked("/act", {**body, "session": "a"}).status == 422
        return [asked("/act", {"observation": ONE, "session": "a"}).json for _ in range(8)]

    assert sampled({"observations": [ONE, OTHER, HUGE]}, {"observation": [1]}) == sampled()


def test_a_forgotten_session_does_not_go_on_without_a_word(remembering, monkeypatch):
    asked, _ = remembering
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 2)
    act = lambda name: asked("/act", {"observation": ONE, "session": name})  # noqa: E731
    first = [act("a").json for _ in range(3)]
    for name in ("b", "c"):
        assert act(name).status == 200
    forgotten = act("a")
    assert (forgotten.status, "/reset" in forgotten.json["error"]) == (410, True)
    assert asked("/act", {"observation": HUGE, "session": "d"}).status == 422  # what is refused displaces nobody
    assert act("b").status == act("c").status == 200
    assert asked("/reset", {"session": "a"}).status == 200
    assert [act("a").json for _ in range(3)] == first


def test_a_refused_batch_of_one_of_several_agents_is_not_remembered(quick):
    pettingzoo = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    context = quick({"name": "pettingzoo", "id": "pettingzoo.classic:tictactoe_v3"}, "ppo", MEMORY)
    asked, agents = partial(ask, app_of(context)), context.agents()
    agents.reset()
    with closing(pettingzoo.env()) as env:
        env.reset(seed=1)
        seen = env.last()[0]
    sent, body = to_json(seen), {"agent": "player_1", "session": "a"}
    for wrong in (None, {**sent, "action_mask": [0] * 9}, {"observation": 1}):
        assert asked("/act", {**body, "observations": [sent, sent, wrong]}).status == 422
    expected = [to_json(agents.act("player_1", seen)) for _ in range(3)]
    assert asked("/act", {**body, "observations": [sent] * 3}).json["actions"] == expected
    needs = asked("/act", {"observation": sent, "session": "a"})
    assert (needs.status, "'agent'" in needs.json["error"]) == (400, True)


def test_several_agents_are_told_what_takes_effect(quick):
    pettingzoo = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    asked = partial(ask, app_of(quick({"name": "pettingzoo", "id": "pettingzoo.classic:tictactoe_v3"})))
    with closing(pettingzoo.env()) as env:
        env.reset(seed=1)
        sent = to_json(env.last()[0])
    act = lambda **more: asked("/act", {"observation": sent, "agent": "player_1", **more})  # noqa: E731
    nobody = asked("/act", {"observation": sent})
    assert (nobody.status, "player_1" in nobody.json["error"]) == (400, True)
    assert act().status == act(info={}).status == act(session="a").status == 200
    assert "info.lives" in act(info={"lives": 3}).json["error"]
    assert act(info={"action_mask": [1] * 9}).status in (400, 422)  # its mask is in the observation
    assert act(observation={**sent, "extra": 1}).status == 422
    assert act(observation={**sent, "action_mask": ["1"] * 9}).status == 422
    assert act(reward=1.0).status == 400
