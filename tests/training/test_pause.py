"""A run that pauses where a callback says goes on as one that has not paused."""

import signal

import pytest

from maze_core import ConfigError

MORE = {"algorithm.n_epochs": 3}


@pytest.mark.parametrize(("env", "algorithm", "values"), [
    ("CartPole-v1", "ppo", {}),
    ("Pendulum-v1", "sac", {"algorithm.initial_buffer_size": 20, "algorithm.batch_size": 8}),
])  # fmt: skip
def test_a_run_that_pauses_goes_on_as_one_that_has_not(quick, whole_state, assert_same, env, algorithm, values):
    whole = quick(env, algorithm, MORE | values)
    whole.train()
    steps = range(1, whole.run.env_steps // 2, max(1, whole.run.env_steps // 4))
    folder = None
    for count in steps:
        parts = quick(env, algorithm, MORE | values | {"callbacks.budget.steps": count})
        done = parts.train() if folder is None else parts.resume(folder)
        folder = folder or parts.run_dir
        assert (done.outcome, done.reason) == ("stopped", f"its budget of {count:,} steps is spent")
        assert done.env_steps >= count
        assert done.final_evaluation
        again = quick(env, algorithm, MORE | values | {"callbacks.budget.steps": count}).resume(folder)
        assert again.updates == done.updates
        assert again.final_evaluation["eval/return_mean"] == done.final_evaluation["eval/return_mean"]
    last = quick(env, algorithm, MORE | values | {"callbacks.budget": None}).resume(folder)
    assert last.outcome == "finished"
    assert_same(whole_state(folder), whole_state(whole.run_dir))


def test_a_signal_while_a_paused_run_is_evaluated_is_no_end(quick):
    """The last evaluation is repeated, as part of what the budget pays for."""
    context = quick("CartPole-v1", "a2c", MORE | {"callbacks.budget.epochs": 1})
    evaluate = context.run.evaluate

    def evaluated(number, **options):
        if context.run.paused:
            signal.raise_signal(signal.SIGTERM)
        return evaluate(number, **options)

    context.run.evaluate = evaluated
    with pytest.raises(KeyboardInterrupt):
        context.train()
    assert (context.run.summary.outcome, context.run.summary.final_evaluation) == ("interrupted", {})
    again = quick("CartPole-v1", "a2c", MORE | {"callbacks.budget.epochs": 1}).resume(context.run_dir)
    assert (again.outcome, again.epochs) == ("stopped", 1)
    assert again.final_evaluation


def test_a_budget_of_nothing_is_refused(quick):
    with pytest.raises(ConfigError, match=r"callbacks\.budget: says nothing"):
        quick("CartPole-v1", "a2c", {"callbacks.budget": {}}).train()
