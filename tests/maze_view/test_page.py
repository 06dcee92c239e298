"""The page in a real browser, with the network off."""

import json
from pathlib import Path

import pytest
from maze_view.page import embedded
from typer.testing import CliRunner

from maze_core.cli.main import app

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def text_of(browser, selector):
    return browser.run(f"document.querySelector({json.dumps(selector)}).innerText")


def slide(browser, step):
    browser.run(
        "(() => { const slider = document.querySelector('#player input[type=range]');"
        f" slider.value = {step}; slider.dispatchEvent(new Event('input')); }})()"
    )


def test_a_run_opens_without_the_network_and_without_an_error(browser, view, cart):
    file, data = view(cart)
    browser.open(file)
    assert browser.problems() == []
    assert browser.requests() == [file.resolve().as_uri()]
    assert text_of(browser, "h1") == browser.run("document.title") == f"ppo on CartPole-v1: {cart}"
    assert browser.run("document.querySelectorAll('#curves svg path').length") == 4
    assert browser.run("document.querySelectorAll('#curves polygon').length") >= 1, "the band of the returns"
    assert browser.run("document.querySelectorAll('img.network').length") == 1
    assert browser.run("document.querySelector('img.network').decode().then(() => true)")
    words = text_of(browser, ".source")
    assert "algorithm.n_rollout_steps" in words
    assert data["sources"][0]["config"].strip() == text_of(browser, "pre").strip()


def test_hovering_reads_the_values_of_an_epoch(browser, view, cart):
    file, data = view(cart, "--episodes", 0)
    browser.open(file)
    curves = data["sources"][0]["curves"]
    browser.move("#curves svg", 0.97)
    read = text_of(browser, "#curves .readout")
    assert f": {curves['eval/return_mean'][-1]:g} (" in read
    assert read.endswith(f"at {curves['env_steps'][-1]}")
    browser.run(
        "(() => { const select = document.querySelector('#curves .charts select');"
        " select.value = 'loss/entropy'; select.dispatchEvent(new Event('change')); })()"
    )
    browser.move("#curves svg", 0.1)
    assert f": {curves['loss/entropy'][0]:g} at {curves['env_steps'][0]}" in text_of(browser, "#curves .readout")
    assert browser.problems() == []


def test_the_slider_moves_through_an_episode(browser, view, cart):
    file, data = view(cart)
    episode = data["sources"][0]["episodes"][1]
    browser.open(file, "#episode=1&step=3")
    pictures = []
    for step in (3, 5, 7):
        slide(browser, step)
        assert f"step {step} of {episode['length']}" in text_of(browser, "#now")
        assert f"value {episode['series']['value'][step]:g}" in text_of(browser, "#now")
        (taken,) = episode["actions"][0]["taken"][step]
        assert text_of(browser, "#actions .taken span") == str(taken)
        shown = [float(each) for each in text_of(browser, "#observations p").split()]
        assert shown == pytest.approx(episode["observations"][0]["values"][step], rel=1e-4, abs=1e-8)
        pictures.append(browser.run("document.querySelector('img.frame').src"))
        assert browser.run("document.querySelector('img.frame').decode().then(() => true)")
    assert len(set(pictures)) == 3
    assert pictures == [dict(episode["frames"])[step] for step in (3, 5, 7)]
    slide(browser, episode["length"])
    assert "terminated" in text_of(browser, "#now")
    assert browser.problems() == []


def test_the_play_button_plays_to_the_end(browser, view, cart):
    file, data = view(cart, "--episodes", 1)
    browser.open(file)
    browser.run("document.querySelector('#player button').click()")
    assert text_of(browser, "#player button") == "Pause"
    ended = "document.querySelector('#player button').textContent === 'Play'"
    wait = f"new Promise((done) => {{ const look = () => {ended} ? done(true) : setTimeout(look, 20); look(); }})"
    assert browser.run(wait)
    length = data["sources"][0]["episodes"][0]["length"]
    assert f"step {length} of {length}" in text_of(browser, "#now")


def test_hostile_names_are_shown_as_text(browser, view, make_run):
    run = make_run("a", [1.0, 2.0], env=HOSTILE, note=HOSTILE + "\u2028\u2029&amp;</script>")
    lines = [{"epoch": i, "env_steps": i, HOSTILE: 1.0, "</script>": 2.0, "__proto__": 3} for i in (1, 2)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(3)"><script>alert(4)</script>{HOSTILE}</svg>'
    (run / "network.svg").write_text(picture)
    named = run.rename(run.parent / f"<script>alert(5)<{'x' * 230}")
    file, _ = view(named)
    assert "alert(1)</script>" not in file.read_text()
    browser.open(file)
    assert browser.problems() == []
    assert browser.requests() == [file.resolve().as_uri()]
    assert browser.run("document.scripts.length") == 2
    assert browser.run("document.images.length") == 1
    assert text_of(browser, "h1") == f"ppo on {HOSTILE}: {named}"
    assert HOSTILE in text_of(browser, ".source table")
    assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    options = "[...document.querySelectorAll('#curves .charts select option')].map((each) => each.textContent)"
    assert {HOSTILE, "</script>", "__proto__"} <= set(browser.run(options))


def test_the_policy_of_the_page_forbids_other_scripts_and_addresses(browser, view, make_run):
    file, _ = view(make_run("a", [1.0, 2.0]))
    text = file.read_text().replace("</body>", "<script>document.title = 'ran'</script></body>")
    file.write_text(text)
    browser.open(file)
    assert browser.run("document.title") != "ran"
    load = (
        "new Promise((done) => { const image = new Image(); image.onload = image.onerror = done; image.src = '%s'; })"
    )
    browser.run(f"{load % 'https://example.org/x.png'}.then(() => 0)")
    assert not browser.run("fetch('https://example.org').then(() => true, () => false)")
    failed = [event["params"] for event in browser.events if event["method"] == "Network.loadingFailed"]
    assert {each.get("blockedReason") for each in failed} == {"csp"}
    refused = [json.dumps(each) for each in browser.problems() if "Content Security Policy" in json.dumps(each)]
    assert len(refused) >= 3, "a script, a picture and a connection"


def test_the_curves_of_several_runs_are_drawn_together(browser, view, make_run):
    runs = [make_run(name, [seed + 1.0, seed + 2.0, None], seed=seed) for seed, name in enumerate("ab")]
    file, data = view(*runs)
    assert [source["episodes"] for source in data["sources"]] == [[], []]
    browser.open(file)
    assert browser.problems() == []
    assert browser.run("document.querySelector('#curves svg').querySelectorAll('path').length") == 2
    browser.move("#curves svg", 0.5)
    assert text_of(browser, "#curves .readout").count(" at ") == 2
    assert str(runs[1]) in text_of(browser, "#curves .legend")


def test_a_thousand_epochs_stay_small(browser, view, make_run):
    run = make_run("long", [0.1234567890123 * i for i in range(1000)])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line.update({f"loss/{i}": line["epoch"] / (i + 3) for i in range(60)})
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    file, data = view(run)
    assert len(data["sources"][0]["curves"]["loss/59"]) == 1000
    assert Path(file).stat().st_size < 1_500_000
    browser.open(file)
    assert browser.problems() == []


def test_events_are_shown_beside_their_step_as_text(browser, view, quick):
    context = quick({"name": "cutting_2d", "orders": 4}, overrides={"model.hidden": [4]})
    context.train()
    file, data = view(context.run_dir, "--episodes", 1, "--frames", 0)
    assert '"fresh_sheet"' in file.read_text()
    file.write_text(file.read_text().replace('"fresh_sheet"', embedded(HOSTILE)))
    browser.open(file, "#episode=0&step=0")
    stock = data["sources"][0]["episodes"][0]["events"][-1][2]
    assert text_of(browser, "#events").startswith(f"events: {HOSTILE} 1")
    slide(browser, 3)
    assert text_of(browser, "#events").endswith(f"stock {stock:g}")
    slide(browser, 4)
    assert text_of(browser, "#events") == ""
    assert browser.problems() == []


def test_a_recording_without_pictures_shows_no_broken_one(browser, view, cart, tmp_path):
    demos = tmp_path / "demos"
    result = CliRunner().invoke(app, ["rollout", str(cart), "--episodes", "1", "--seed", "1", "--record", str(demos)])
    assert result.exit_code == 0, result.output
    file, _ = view(demos)
    browser.open(file)
    assert browser.problems() == []
    assert "step 0 of" in text_of(browser, "#now")
    assert browser.run("document.querySelector('img.frame').getClientRects().length") == 0
    file, _ = view(cart, "--frames", 2)
    browser.open(file)
    assert browser.run("document.querySelector('img.frame').getClientRects().length") == 1
