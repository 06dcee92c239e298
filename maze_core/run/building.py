"""Builds what a run trains: the policy, the algorithm, the networks of plugins and what optimises them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError
from maze_core.base.process_state import isolated_rng
from maze_core.base.saved_state import check_state
from maze_core.base.seeding import Purpose, integer_seed
from maze_core.base.terminal_text import argument
from maze_core.learn import answers
from maze_core.learn.checks import check_called, check_memory_of, check_optimizer
from maze_core.learn.learner import Learner, plugins_optimizer
from maze_core.learn.taken_over import SideLearners, further_learners, repeated_steps
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import policy_part
from maze_core.plugins.extensions import NORMALIZERS, extension
from maze_core.run.notes import notes_of
from maze_core.run.saved.checkpoint import read_checkpoint
from maze_core.run.saved.manifest import MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from maze_core.models.policy import Policy
    from maze_core.run.run import Run

NOTES = "maze.notes"
"""The entry-point group of functions of a new run and its first observations, which return notes for the user."""
_SETUP, _PLUGINS = 1, 2
# Separate the random numbers of the algorithm's setup, and those of plugins' networks, from others.


def initialize(run: Run, init_from: Path | None = None) -> None:
    """Build a new run: policy, algorithm and optimizer.

    The policy takes its parameters and statistics from the run `init_from`, or estimates its statistics. The
    algorithm is set up after that, since target networks are copies of the policy.

    Raises:
        ConfigError: the parameters do not fit, or an observation does not fit the declared space.
    """
    _build_checked_policy(run)
    first = run.evaluation.check_first_observations()
    if init_from is None:
        _estimate_statistics(run)
    else:
        run.init_from = load_parameters(run.policy, init_from)
    _build_algorithm(run)
    for claim in discovery.group(NOTES):
        run.notes += discovery.import_claim(claim)(run, first)


def build(run: Run) -> None:
    """Build policy, algorithm and optimizer, to load a checkpoint into them."""
    _build_checked_policy(run)
    _build_algorithm(run)


def load_parameters(policy: Policy, source: Path) -> Path:
    """Load parameters and normaliser statistics of another run's best checkpoint (else its last) into a policy.

    Returns the run's directory.

    Raises:
        ConfigError: names or shapes differ; each difference is listed.
    """
    from maze_core.run.saved.found_run import checkpoint_folder, find_run

    run_dir = find_run(source)
    theirs = read_checkpoint(checkpoint_folder(run_dir, None)).model
    ours = policy.state_dict()
    problems = [f"  {name}: this run has no such tensor" for name in theirs.keys() - ours.keys()]
    problems += [f"  {name}: missing from {source}" for name in ours.keys() - theirs.keys()]
    problems += [
        f"  {name}: {tuple(theirs[name].shape)} there, {tuple(ours[name].shape)} here"
        for name in theirs.keys() & ours.keys()
        if theirs[name].shape != ours[name].shape
    ]
    if problems:
        raise ConfigError(
            "\n".join([f"the networks differ from those of {source}:", *sorted(problems)]),
            "--init-from",
            f"Next: train with the model of that run (maze config show {argument(source)}).",
        )
    check_state(theirs, ours, MODEL)
    policy.load_state_dict(theirs)
    return run_dir


def _build_checked_policy(run: Run) -> None:
    """Build the policy; refuse what the algorithm cannot learn before anything is stepped."""
    run.algorithm.check_action_space(run.action_space)
    run.algorithm.check_actors(run.observation_space)
    run.algorithm.check_agents(run.environments.kind.agents)
    run.build_policy()
    check_memory_of(run.policy, run.algorithm)


def _estimate_statistics(run: Run) -> None:
    normalizer: Any = getattr(run.policy, "normalizer", None)
    estimation = getattr(normalizer, "estimation", None)  # a normaliser of others may have none
    if estimation is not None and estimation.steps:
        policy = policy_part(estimation.policy, "policy", run.config.model)
        estimate = extension(NORMALIZERS, "estimate", "statistics before training", "maze-normalizers")
        estimate(normalizer, run.environments.evaluation, run.seed, policy)


def _build_algorithm(run: Run) -> None:
    run.notes = notes_of(run)
    # Algorithms call the policy during setup, and a network may draw random numbers itself.
    with isolated_rng(integer_seed(run.seed, Purpose.GLOBAL, _SETUP)):
        answers.set_up(run.algorithm, run.algorithm.setup_loss, run)
        answers.set_up(run.algorithm, run.algorithm.setup, run)
    run.notes += check_called(run.hooks, run.algorithm)
    _build_learner(run)


def _build_learner(run: Run) -> None:
    """Build the networks of plugins, the optimizers and, where the run has several, the further learners."""
    with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _PLUGINS)):
        built, beside = run.hooks.build_modules(run)
    run.side_learners = SideLearners(beside)
    in_loss = {name: module.to(run.device) for name, (module, _) in built.items()}
    run.plugin_modules = {**in_loss, **{name: each.network.to(run.device) for name, each in beside.items()}}
    optimizer = answers.optimizer(run.algorithm, run.policy)
    check_optimizer(run.algorithm, optimizer)
    run.learner = Learner(
        run.policy,
        run.modules,
        optimizer,
        run.algorithm.max_grad_norm,
        plugins_optimizer(built.values(), getattr(run.algorithm.config, "lr", 1e-3)),
    )
    run.repeated = repeated_steps(run)
    if run.config.learners > 1:
        networks = {**run.algorithm.modules(), **in_loss}
        run.others = run.learner.others = further_learners(run, run.learner.parameters, networks)
