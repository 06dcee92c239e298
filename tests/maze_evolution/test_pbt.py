"""Population-based training: who goes on from whom, the toy of its paper, and sweeps that kill -9 cannot hurt."""

import json
from pathlib import Path

import pytest
from maze_evolution.pbt import PBTConfig, PopulationBasedTraining
from maze_sweep.api import run_sweep
from maze_sweep.plan import make_plan
from maze_sweep.searchers.base import Search, Searcher, Wait, Whole
from maze_sweep.searchers.space import Choices, Range
from maze_sweep.sweep import Sweep
from maze_sweep.trials import read_trials

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from tests.maze_sweep.fake_pool import FakePool

SPACE = {
    "algorithm.lr": Range(1e-5, 1e-1, log=True),
    "algorithm.batch_size": Range(8, 64),
    "a.b": Choices(("x", "y", "z")),
}


def searcher(folder, space=SPACE, trials=40, seed=0, maximize=True, **config):
    made = PopulationBasedTraining(PBTConfig(name="pbt", **config))
    assert made.setup(Search(space, seed, trials, maximize, folder, Whole(1000.0, "steps"))) == trials
    return made


def asked(made, numbers):
    points = {number: made.ask(number) for number in numbers}
    assert not any(isinstance(point, Wait) for point in points.values())
    return points


def test_the_worst_go_on_from_the_best_and_the_others_from_themselves(tmp_path):
    made = searcher(tmp_path, population=8, resample=0.0)
    first = asked(made, range(8))
    assert all(made.parent(number) is None for number in first)
    for number in (3, 0, 1, 2, 4, 5, 6):
        assert isinstance(made.ask(8), Wait)
        made.tell(number, first[number], float(number))
    made.tell(7, first[7], None)  # a failed run is worse than all
    points = asked(made, range(8, 16))
    parents = {number: made.parent(number) for number in points}
    assert {number: parents[number] for number in range(9, 15)} == {number: number - 8 for number in range(9, 15)}
    assert all(points[number] == first[number - 8] for number in range(9, 15))
    for copy in (8, 15):
        assert parents[copy] in (5, 6)
        before = first[parents[copy]]
        for path, dimension in SPACE.items():
            if isinstance(dimension, Choices):
                places = [dimension.values.index(each[path]) for each in (before, points[copy])]
                assert abs(places[0] - places[1]) <= 1
            else:
                assert dimension.low <= points[copy][path] <= dimension.high
        factor = points[copy]["algorithm.lr"] / before["algorithm.lr"]
        assert factor == pytest.approx(1.25) or factor == pytest.approx(0.8)
        assert isinstance(points[copy]["algorithm.batch_size"], int)


def test_set_up_again_it_says_the_same(tmp_path):
    def told():
        made = searcher(tmp_path, population=4)
        for number in range(8):
            point = made.ask(number)
            made.tell(number, point, -abs(number - 5.0))
        return [(made.ask(number), made.parent(number)) for number in range(8, 12)]

    assert told() == told()


def test_minimisation_turns_the_order(tmp_path):
    made = searcher(tmp_path, population=4, maximize=False)
    for number, point in asked(made, range(4)).items():
        made.tell(number, point, float(number))
    asked(made, range(4, 8))
    assert made.parent(4) == 0
    assert made.parent(7) == 0


def test_the_toy_of_the_paper_is_solved_as_no_fixed_setting_can(tmp_path):
    """Maximise 1.2 - t0² - t1² by the gradient of 1.2 - h0 t0² - h1 t1², where only one of the h is not 0."""
    space = {"h": Choices(((1, 0), (0, 1)))}

    def train(weights, point):
        for _ in range(4):
            weights = [t - 0.02 * h * t for t, h in zip(weights, point["h"], strict=True)]
        return weights

    def best(choose):
        made = searcher(tmp_path, space, 80, population=2, generations=40, quantile=0.5, resample=0.0)
        weights, values = {}, []
        for number in range(80):
            point, parent = choose(made, number)
            weights[number] = train([0.9, 0.9] if parent is None else weights[parent], point)
            values.append(1.2 - sum(t * t for t in weights[number]))
            made.tell(number, point, values[-1])
        return max(values)

    fixed = best(lambda made, number: (made.ask(number % 2), None if number < 2 else number - 2))
    evolved = best(lambda made, number: (made.ask(number), made.parent(number)))
    assert fixed < 0.4  # 1.2 - 0.81 at most
    assert evolved > 1.0


def test_bad_input_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="8 members have 80 stretches in 10 generations, not 81"):
        searcher(tmp_path, trials=81)
    with pytest.raises(ConfigError, match="1000 steps are too few for 2000 generations"):
        searcher(tmp_path, generations=2000)
    with pytest.raises(ConfigError, match=r"^--steps: pbt divides how far runs train, and their end is open"):
        PopulationBasedTraining(PBTConfig(name="pbt")).setup(Search(SPACE, 0, None, True, tmp_path))
    made = searcher(tmp_path, population=2, generations=20)
    for number, point in asked(made, range(2)).items():
        made.tell(number, point, None)
    with pytest.raises(ConfigError, match="all members have failed"):
        made.ask(2)


@pytest.mark.parametrize(
    ("over", "said"),
    [
        (
            {"model.hidden": [[8], [16]]},
            "over.model.hidden: pbt cannot change it: a trial that goes on from another one",
        ),
        ({"env.id": ["CartPole-v1", "Acrobot-v1"]}, "over.env.id: pbt cannot change it: a trial that goes on"),
        ({"algorithm.num_envs": [2, 3]}, "over.algorithm.num_envs: pbt cannot change it in a run that goes on from"),
        ({"steps": [100, 200]}, "over.steps: pbt divides how far runs train, which is the same for all"),
    ],
)
def test_what_a_fork_cannot_change_is_refused_by_name(tmp_path, known_plugins, over, said):
    fixed = {"algorithm.n_rollout_steps": 4, **({} if "steps" in over else {"steps": 4000})}
    made = Sweep(make_plan({**RAW, "over": {**over, "algorithm.lr": [0.1, 0.2]}, "overrides": fixed}), tmp_path / "s")
    with pytest.raises(ConfigError) as caught:
        made.check()
    assert str(caught.value).startswith(said)
    assert not (tmp_path / "s").exists()


RAW = {
    "algorithm": "ppo", "env": "CartPole-v1", "over": {"algorithm.lr": "0.1..4"}, "seeds": 2,
    "overrides": {"steps": 4000}, "searcher": {"name": "pbt", "population": 2, "quantile": 0.5, "generations": 4},
}  # fmt: skip


def test_a_sweep_hands_the_parents_runs_to_the_jobs_and_remembers_them(tmp_path, known_plugins):
    sources = {}

    class Pool(FakePool):
        def start(self, job):
            sources[job.name] = job.fork_of, job.config["callbacks"]["budget"]["steps"]
            super().start(job)

    made = Sweep(make_plan(RAW), tmp_path / "s")
    made.check()
    made.begin()
    made.carry_out(Pool(), lambda sweep, end: None)
    made.close()
    assert sources["t000-s0"] == (None, 1000)
    for trial in made.trials[2:]:
        for run in trial.runs:
            source = str(tmp_path / "s" / "runs" / f"t{trial.parent:03}-s{run.seed}")
            assert sources[run.name] == (source, 1000 * (1 + trial.number // 2))
    again = read_trials(tmp_path / "s", made.plan)
    assert [(each.parent, each.until) for each in again] == [(each.parent, each.until) for each in made.trials]
    assert {trial.parent for trial in again[:2]} == {None}


def test_new_seeds_follow_their_parents_one_after_the_other(tmp_path, known_plugins):
    class Pool(FakePool):
        def start(self, job):
            if job.fork_of is not None:
                assert json.loads((Path(job.fork_of) / "run.json").read_text())["summary"], job.name
            super().start(job)

    def sweep(pool, **changes):
        made = Sweep(make_plan({**RAW, **changes}), tmp_path / "s")
        made.begin()
        made.carry_out(pool, lambda sweep, end: None)
        made.close()
        return made

    sweep(Pool(size=1), seeds=1)
    half = tmp_path / "s" / "runs" / ".t000-s1.0123abcd.new"  # of a fork that was killed
    (half / "checkpoints").mkdir(parents=True)
    made = sweep(Pool(size=3, outcomes={"t000-s1": "failed"}), seeds=2)
    states = {run.name: run.state for run in made.runs}
    heirs = [trial.number for trial in made.trials if trial.parent == 0]
    assert heirs
    assert all(states[f"t{number:03}-s1"] == "failed" for number in heirs)
    assert "t000-s1, from which it goes on, has not finished" in {run.reason for run in made.runs}
    assert states["t001-s1"] == "finished"
    assert not half.exists()


@pytest.mark.parametrize("parent", [3, -1, "0", True])
def test_a_parent_that_is_no_earlier_trial_is_refused(tmp_path, known_plugins, parent):
    class Wrong(Searcher):
        def setup(self, search):
            return 2

        def ask(self, number):
            return {"algorithm.lr": 0.5}

        def parent(self, number):
            return parent if number else None

    plan = {**RAW, "searcher": "random", "trials": 2}
    load = discovery.overlay({("searcher", "random"): Wrong})
    made = Sweep(make_plan(plan, load), tmp_path / "s", load)
    made.begin()
    with pytest.raises(ConfigError, match=r"as the parent of trial 1, no earlier trial"):
        made.carry_out(FakePool(), lambda sweep, end: None)
    made.close()


@pytest.mark.learning
@pytest.mark.slow
def test_members_with_bad_learning_rates_are_lifted(tmp_path):
    """Of learning rates over five powers of ten some teach nothing in 6,144 steps; all members end near the best, 5.

    Actions are drawn in evaluations, too: the most likely one is soon the right one.
    """
    plan = {
        "algorithm": "ppo", "env": "maze_devkit.probes:Signal", "over": {"algorithm.lr": "1e-6..1e-1:log"},
        "overrides": {
            "steps": 6144, "algorithm.lr_schedule": "constant", "algorithm.gamma": 0.5, "algorithm.n_rollout_steps": 32,
            "algorithm.epoch_length": 2, "algorithm.n_optimization_epochs": 4, "model.hidden": [32],
            "evaluation.n_episodes": 40, "evaluation.num_envs": 8, "evaluation.deterministic": False,
            "callbacks.tensorboard": None,
        },
        "searcher": {"name": "pbt", "population": 4, "generations": 4},
    }  # fmt: skip
    sweep = run_sweep(plan, tmp_path / "s", jobs=2)
    means = [trial.spread(sweep.plan).mean for trial in sweep.trials]
    assert min(means[:4]) < 2
    assert min(means[-4:]) > 4.7
