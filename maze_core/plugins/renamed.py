"""Names of the core that plugins may still import: the error of such an import says what to write instead."""

from __future__ import annotations

import dis
import re
from collections.abc import Mapping
from itertools import takewhile

_RENAMED: Mapping[str, str] = {
    "maze_compare.board": "maze_compare.table",
    "maze_core.Searcher": "maze_sweep.searchers.base.Searcher",
    "maze_core.acting.drawn": "maze_core.acting.noise_plan",
    "maze_core.acting.share": "maze_core.acting.worker_agent",
    "maze_core.callbacks.event_file": "maze_tensorboard.event_file",
    "maze_core.callbacks.figures": "maze_tensorboard.figures",
    "maze_core.callbacks.tensorboard": "maze_tensorboard.callback",
    "maze_core.cli.environment_report": "maze_devkit.environment_report",
    "maze_core.cli.places": "maze_core.cli.option_paths",
    "maze_core.comparison": "maze_compare",
    "maze_core.config.load": "maze_core.plugins.configuration",
    "maze_core.config.outside": "maze_core.config.external_fields",
    "maze_core.config.sealed": "maze_core.config.checksummed_yaml",
    "maze_core.culprit": "maze_core.blame",
    "maze_core.data.lane_replay.LaneReplay": "maze_core.data.replay.ReplayBuffer",
    "maze_core.data.lane_segments.LaneSegments": "maze_core.data.segment_replay.SegmentReplay",
    "maze_core.data.minari": "maze_minari.exchange",
    "maze_core.data.rollout.RolloutCollector": "maze_core.RolloutCollector",
    "maze_core.data.rollout.Sampler": "maze_core.acting.rollouts.Sampler",
    "maze_core.data.segments.below": "maze_core.tree.subtree",
    "maze_core.envs.events.events_of": "maze_core.envs.event_layers.events_of",
    "maze_core.envs.events.events_of_rows": "maze_core.envs.event_layers.events_of_rows",
    "maze_core.envs.joint": "maze_devkit.joint",
    "maze_core.envs.ledger": "maze_core.envs.episode_log",
    "maze_core.envs.share_envs": "maze_core.envs.worker_envs",
    "maze_core.envs.soundness": "maze_devkit.soundness",
    "maze_core.envs.transitions": "maze_core.data.rollout",
    "maze_core.envs.wrapper_memory": "maze_core.envs.wrapper_carry",
    "maze_core.free_memory": "maze_core.free_ram",
    "maze_core.models.actor_memory.below": "maze_core.tree.subtree",
    "maze_core.models.picture": "maze_pictures.network",
    "maze_core.plugins.configuration.check_defaults": "maze_core.plugins.preferences.check_defaults",
    "maze_core.plugins.left_aside": "maze_core.plugins.uninstalled_plugins",
    "maze_core.plugins.shelves": "maze_core.plugins.preset_paths",
    "maze_core.run_sweep": "maze_sweep.api.run_sweep",
    "maze_core.runners.bell": "maze_core.runners.wakeup",
    "maze_core.runners.env_shares": "maze_core.runners.worker_envs_task",
    "maze_core.scaffold": "maze_devkit.scaffold",
    "maze_core.searchers": "maze_sweep.searchers",
    "maze_core.sweep": "maze_sweep",
    "maze_core.testing": "maze_devkit",
    "maze_core.training.episodes.played": "maze_core.training.episodes.episode_recorder",
    "maze_core.training.episodes.share_evaluation": "maze_core.training.episodes.worker_evaluation",
    "maze_core.training.learning.batch_transfer": "maze_learners.batch_transfer",
    "maze_core.training.learning.gradients": "maze_learners.gradients",
    "maze_core.training.learning.learner_group": "maze_learners.learner_group",
    "maze_core.training.learning.learner_task": "maze_learners.learner_task",
    "maze_core.training.learning.learners": "maze_learners.learners",
    "maze_core.training.learning.share_transfer": "maze_learners.batch_transfer",
    "maze_core.training.learning.tensor_layout": "maze_learners.tensor_layout",
    "maze_core.training.off_policy.Guide": "maze_core.training.off_policy.ReplayCollector",
    "maze_core.training.process_state.graceful_interrupts": "maze_core.interruption.graceful_interrupts",
    "maze_core.training.process_state.signal_handlers_kept": "maze_core.interruption.signal_handlers_kept",
    "maze_core.training.remembered": "maze_core.training.recurrent",
    "maze_core.training.run_dir.CONFIG": "maze_core.config.record.CONFIG",
    "maze_core.training.run_dir.RECORD": "maze_core.config.record.RECORD",
    "maze_core.training.run_dir.encoded_record": "maze_core.config.record.encoded_record",
    "maze_core.training.run_dir.read_record": "maze_core.config.record.read_record",
    "maze_core.training.run_dir.write_record": "maze_core.config.record.write_record",
    "maze_core.training.seeding": "maze_core.seeding",
    "maze_core.training.workers.share_replay": "maze_core.training.workers.remote",
    "maze_core.training.workers.share_sampler": "maze_core.training.workers.remote",
    "maze_core.training.workers.share_task": "maze_core.training.workers.assignment",
    "maze_impala.actor.Delivery": "maze_core.data.rollout.Rollout",
    "maze_ray.line": "maze_ray.socket_channel",
    "maze_video.studio": "maze_video.recorder",
}
_FROM = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def instead(error: BaseException) -> str:
    """Return what to write instead of an import that failed, as the end of a sentence; empty where nothing is known."""
    if not isinstance(error, ImportError):
        return ""
    for asked in _asked(error):
        name = asked
        while name:
            if name in _RENAMED:
                new = _RENAMED[name]
                distribution = new.partition(".")[0].replace("_", "-")
                where = "" if distribution == "maze-core" else f" of the distribution {distribution}"
                return f"; {name} is {new}{where} now"
            name = name.rpartition(".")[0]
    return ""


def _asked(error: ImportError) -> list[str]:
    """Return the names that an import asked for, the most exact first.

    Where a folder is gone, the error names only the folder; the statement that failed names the module.
    """
    if found := _FROM.match(str(error)):
        return [f"{found[2]}.{found[1]}"]
    name = error.name or ""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return [name]
    instructions = [each for each in dis.get_instructions(step.tb_frame.f_code) if each.offset >= step.tb_lasti]
    if not instructions or instructions[0].opname != "IMPORT_NAME" or not instructions[0].argval.startswith(name):
        return [name]
    module = instructions[0].argval
    following = takewhile(lambda each: each.opname in ("IMPORT_FROM", "STORE_NAME", "STORE_FAST"), instructions[1:])
    members = [f"{module}.{each.argval}" for each in following if each.opname == "IMPORT_FROM"]
    return [*(each for each in members if each in _RENAMED), module, name]
