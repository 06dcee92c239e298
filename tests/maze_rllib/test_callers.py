"""Connectors of RLlib know their arguments, though their callers are found without the sources of the stack."""

from maze_rllib.callers import callers_without_sources


def test_connectors_know_their_arguments():
    from ray.rllib.connectors import connector_v2
    from ray.rllib.connectors.common import AddTimeDimToBatchAndZeroPad

    def told():
        return AddTimeDimToBatchAndZeroPad(as_learner_connector=True).get_ctor_args_and_kwargs()

    own = connector_v2.inspect
    with callers_without_sources():
        assert connector_v2.inspect is not own
        found = told()
    assert connector_v2.inspect is own
    assert found == told()
    assert found[1]["as_learner_connector"] is True
