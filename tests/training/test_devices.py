"""Runs and networks that move between a GPU and the CPU. What needs a GPU is skipped where there is none."""

import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_onpolicy.learn.rmsprop import RMSprop
from torch import nn

from maze_core import Plugin, RunContext, hookimpl
from maze_core.base.seeding import restore_generator
from maze_core.learn.optimizers import Adam
from maze_core.models.blocks import for_evaluation, in_evaluation_mode
from maze_core.run.saved.checkpoint import read_checkpoint, write_checkpoint

NO_GPU = not torch.cuda.is_available()
GPU = {"algorithm.device": "cuda"}
OF_A_GPU = torch.arange(16, dtype=torch.uint8)
"""A state as large as that of a GPU's generator."""


@pytest.mark.parametrize("kind", [Adam, RMSprop])
def test_the_state_of_an_optimizer_moves_whole(kind):
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    first, second = (kind([{"params": list(layer.parameters()), "lr": 0.1} for layer in network]) for _ in range(2))
    for optimizer in (first, second):
        optimizer.follow_parameters()  # they are where they were
    before = [parameter.detach().clone() for parameter in network.parameters()]
    results = []
    for optimizer in (first, second):
        for step in range(3):
            if optimizer is second and step == 1:
                optimizer._rebuild()  # what following does where they have moved
            network.zero_grad()
            network(torch.ones(3, 2) + step).sum().backward()
            optimizer.step()
        results.append([parameter.detach().clone() for parameter in network.parameters()])
        with torch.no_grad():
            for parameter, value in zip(network.parameters(), before, strict=True):
                parameter.copy_(value)
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@pytest.mark.skipif(NO_GPU, reason="needs a GPU")
def test_an_optimizer_follows_its_network():
    network = nn.Linear(2, 1)
    optimizer = Adam(network.parameters())
    network.to("cuda")
    optimizer.follow_parameters()
    network(torch.ones(3, 2, device="cuda")).sum().backward()
    optimizer.step()


def test_recurrent_networks_keep_the_mode_in_which_a_gpu_has_gradients():
    network = nn.ModuleDict(
        {
            "gru": nn.GRU(2, 3),
            "dropping": nn.LSTM(2, 3, 2, dropout=0.5),
            "norm": nn.BatchNorm1d(2),
            "cell": nn.GRUCell(2, 3),
        }
    )
    assert for_evaluation(network) is network
    assert {name: module.training for name, module in network.items()} == {
        "gru": True, "dropping": False, "norm": False, "cell": False,
    }  # fmt: skip
    network.train()
    with in_evaluation_mode(network):
        assert network["gru"].training
        assert not network["norm"].training
    assert network["norm"].training


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_policies_of_a_run_can_learn_from_sequences(quick, algorithm):
    more = {} if algorithm == "ppo" else {"algorithm.split_rollouts_into_transitions": True}
    policy = quick(SeededWalk, algorithm, {"model.memory": "gru", **more}).policy
    assert policy.memory.network.training
    assert not policy.training


def test_random_numbers_of_another_device_go_on_as_a_stream_of_their_own():
    drawn = []
    for state in (OF_A_GPU, OF_A_GPU.clone(), OF_A_GPU + 1):
        generator = torch.Generator()
        restore_generator(generator, state)
        drawn.append(torch.rand(4, generator=generator))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    for wrong in (OF_A_GPU[:15], OF_A_GPU.float(), torch.zeros(0, dtype=torch.uint8)):
        with pytest.raises((RuntimeError, TypeError)):
            restore_generator(torch.Generator(), wrong)


@pytest.fixture
def of_a_gpu(quick, tmp_path):
    """A saved run as it would come from a machine with a GPU, where there is none."""

    def saved(env, algorithm, overrides):
        context = quick(env, algorithm, {"algorithm.n_epochs": 4, **overrides})
        context.train(2)
        context.close()
        folder = context.run_dir
        config = folder / "config.yaml"
        config.write_text(config.read_text().partition("\n")[2].replace("device: cpu", "device: cuda"))
        checkpoint = read_checkpoint(folder / "checkpoints" / "last")
        checkpoint.state["cuda_rng"] = OF_A_GPU
        kept = checkpoint.state["algorithm"]
        if "noise" in kept:
            kept["noise"] = OF_A_GPU
        write_checkpoint(folder / "checkpoints" / "last", checkpoint)
        return folder

    return saved


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU")
@pytest.mark.parametrize(("algorithm", "more"), [("ppo", {}), ("sac", {"algorithm.initial_buffer_size": 20})])
def test_a_run_of_a_gpu_acts_and_goes_on_without_one(of_a_gpu, maze, algorithm, more):
    folder = of_a_gpu("CartPole-v1", algorithm, more)
    done = maze("eval", folder, "--episodes", "1", "--set", "evaluation.max_episode_steps=5")
    assert done.returncode == 0, done.stderr
    with RunContext.open(folder) as context:
        assert context.run.device.type == "cpu"
        context.compute_action(context.make_env().reset(seed=0)[0])
    refused = maze("resume", folder)
    assert (refused.returncode, "algorithm.device: torch finds no CUDA device here" in refused.stderr) == (2, True)
    with RunContext.reopen(folder, overrides={"algorithm.device": "cpu"}) as context:
        assert context.train().outcome == "finished"


class Noisy(Plugin):
    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        loss = yield
        return loss.plus("noise", sum((torch.randn_like(p) * p).sum() for p in policy.parameters()))


CASES = {
    "ppo gru": ("ppo", "CartPole-v1", {"model.memory": "gru"}, {}),
    "sac lstm": ("sac", "Pendulum-v1", {"model.memory": "lstm", "algorithm.initial_buffer_size": 50,
                 "algorithm.split_rollouts_into_transitions": True}, {}),
    "a loss of one's own": ("ppo", "CartPole-v1", {}, {"callbacks": {"noisy": Noisy}}),
    "impala": ("impala", "CartPole-v1", {}, {}),
    "trpo lstm": ("trpo", "CartPole-v1", {"model.memory": "lstm"}, {}),
    "es": ("es", "CartPole-v1", {}, {}),
}  # fmt: skip


@pytest.mark.skipif(NO_GPU, reason="needs a GPU")
@pytest.mark.parametrize("name", CASES)
def test_a_run_on_a_gpu_resumes_exactly(quick, whole_state, assert_same, name):
    algorithm, env, overrides, parts = CASES[name]
    whole, half, rest = (
        quick(env, algorithm, {**GPU, **overrides, "algorithm.n_epochs": 3}, **parts) for _ in range(3)
    )
    whole.train()
    half.train(1)
    half.close()
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))
