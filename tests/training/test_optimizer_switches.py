"""A saved optimizer whose switches were altered is refused, or goes on."""

import copy

import pytest
import torch

from maze_core.base.saved_state import StateError
from maze_core.learn.restored_optimizers import restore

KINDS = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "SGD", "Adagrad", "Adadelta", "ASGD", "Rprop")


def stepped(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer


def made(kind, **settings):
    return getattr(torch.optim, kind)([torch.nn.Parameter(torch.ones(3))], lr=0.1, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_each_switch_is_harmless_or_refused(kind):
    saved = stepped(made(kind)).state_dict()
    switches = [name for name, value in saved["param_groups"][0].items() if isinstance(value, bool | None)]
    assert switches
    for name in switches:
        for value in (True, False, None):
            altered = copy.deepcopy(saved)
            altered["param_groups"][0][name] = value
            optimizer = made(kind)
            try:
                restore(optimizer, altered)
            except StateError as error:
                assert name in str(error)  # noqa: PT017 — it may be restored as well
                continue
            stepped(optimizer)


def test_what_a_callback_may_have_switched_goes_on():
    saved = stepped(made("Adam", amsgrad=True, maximize=True))
    optimizer = made("Adam", amsgrad=True)
    restore(optimizer, saved.state_dict())
    before = optimizer.param_groups[0]["params"][0].detach().clone()
    assert (stepped(optimizer).param_groups[0]["params"][0] > before).all()
    with pytest.raises(StateError, match="amsgrad"):
        restore(
            made("Adam"),
            {**made("Adam", amsgrad=True).state_dict(), "state": stepped(made("Adam")).state_dict()["state"]},
        )
