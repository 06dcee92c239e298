"""Which plugins may take part in a run with several learners."""

from maze_ppo.ppo import PPO

from maze_core import hookimpl
from maze_core.learn.taken_over import declares_learners


def test_what_a_class_above_declares_does_not_hold_for_another_loss():
    class Other(PPO):
        @hookimpl
        def compute_loss(self, policy, batch):
            return super().compute_loss(policy, batch)

    class Renamed(PPO):
        """The same loss."""

    class Declared(Other):
        supports_learners = True

    assert [declares_learners(kind.__new__(kind)) for kind in (Other, Renamed, Declared)] == [False, True, True]
