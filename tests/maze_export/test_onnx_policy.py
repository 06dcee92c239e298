"""The policy `onnx` plays what `maze export` wrote, and says in one line why it plays nothing else."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from gymnasium import spaces
from maze_export.interface import Interface, Leaf
from maze_export.onnx_policy import OnnxPolicy, OnnxPolicyConfig
from onnx import TensorProto, helper, numpy_helper

from maze_core.base.errors import ConfigError, MazeError, RunError

SEES, DOES = spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(3, start=5)
RNGS = [np.random.default_rng(0)]


def graph(start=5, dtype=TensorProto.INT64, axis=-1, rows="batch", weight=None):
    """A network of three choices: the first three numbers of an observation are their preferences."""
    weight = weight or numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), "weight")
    nodes = [
        helper.make_node("MatMul", ["observation", "weight"], ["logits"]),
        helper.make_node("ArgMax", ["logits"], ["choice"], axis=axis, keepdims=0),
        helper.make_node("Add", ["choice", "start"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["action"], to=dtype),
    ]
    inputs = [helper.make_tensor_value_info("observation", TensorProto.FLOAT, [rows, 4])]
    outputs = [helper.make_tensor_value_info("action", dtype, None)]
    constants = [weight, numpy_helper.from_array(np.array(start), "start")]
    made = helper.make_graph(nodes, "made", inputs, outputs, constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def described(model, metadata=None, **changes):
    """The bytes of a file with a description, which may be changed."""
    if metadata is None:
        metadata = json.dumps({**Interface(SEES, DOES).to_json(), **changes})
    helper.set_model_props(model, {"maze": metadata})
    return model.SerializeToString()


def opened(tmp_path, data, sees=SEES, does=DOES):
    (tmp_path / "a.onnx").write_bytes(data)
    policy = OnnxPolicy(OnnxPolicyConfig(name="onnx", file=tmp_path / "a.onnx"))
    policy.setup(sees, does)
    return policy


def test_discrete_actions_count_from_0_inside_of_maze(tmp_path):
    policy = opened(tmp_path, described(graph()))
    obs = np.array([[0, 0, 1, 0], [1, 0, 0, 0]], np.float32)
    actions = policy.act({"observation": obs}, RNGS * 2)
    assert actions["action"].tolist() == [2, 0]
    assert actions["action"].dtype == np.int64


def with_other_bytes(where):
    """A file in which a text, such as the metadata of Maze, has become other bytes that are not UTF-8."""
    model = graph()
    model.producer_name = "producer"
    data = described(model)
    assert where in data
    return data.replace(where, bytes([0xFF] * len(where)), 1)


def external(location, constant=False):
    """Parameters in another file, which would be read into what the network returns."""
    weight = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=[4, 3], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    model = graph(weight=weight)
    if constant:
        del model.graph.initializer[0]
        model.graph.node.insert(0, helper.make_node("Constant", [], ["weight"], value=weight))
    return model


def noise(count=1, **changes):
    leaf = {**Leaf("noise/action", (3,), "float32", "gumbel").to_json(), **changes}
    return {"inputs": [*Interface(SEES, DOES).to_json()["inputs"], *[leaf] * count]}


def listed():
    """A network whose action is a sequence of arrays."""
    model = graph()
    model.graph.node[-1].CopyFrom(helper.make_node("SequenceConstruct", ["sum"], ["action"]))
    model.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("action", TensorProto.INT64, None))
    return model


WRONG = {
    "no file of ONNX": (lambda: b"\x80\x04}q\x00.", "is not an ONNX file that can be run"),
    "half a file": (lambda: described(graph())[:150], "is not an ONNX file that can be run"),
    "an empty file": (lambda: b"", "is not an ONNX file that can be run"),
    "parameters elsewhere": (lambda: described(external("secret")), "is not an ONNX file that can be run"),
    "parameters above": (lambda: described(external("../secret")), "is not an ONNX file that can be run"),
    "a constant elsewhere": (lambda: described(external("secret", True)), "is not an ONNX file that can be run"),
    "of another program": (lambda: graph().SerializeToString(), "was not written by `maze export`"),
    "no JSON": (lambda: described(graph(), "{"), "cannot be used"),
    "deep JSON": (lambda: described(graph(), "[" * 100_000), "cannot be used"),
    "JSON of a list": (lambda: described(graph(), "[]"), "it is not a mapping"),
    "no version": (lambda: described(graph(), format=True), "no format version"),
    "of later": (lambda: described(graph(), format=2), "its format is 2, but this maze-export reads 1"),
    "of earlier": (lambda: described(graph(), format=0), "its format is 0, but this maze-export reads 1"),
    "no space": (lambda: described(graph(), action_space=None), "does not describe a space"),
    "a huge space": (
        lambda: described(
            graph(), action_space={"type": "Box", "shape": [10**9] * 3, "dtype": "float32", "low": 0, "high": 1}
        ),
        "does not describe a space",
    ),
    "no inputs": (lambda: described(graph(), inputs=None), "does not describe inputs"),
    "other inputs": (lambda: described(graph(), inputs=[]), "do not belong to its spaces"),
    "memory, of later": (lambda: described(graph(), **noise(name="state/h")), "do not belong to its spaces"),
    "noise by another method": (lambda: described(graph(), **noise(draw="bytes")), "does not describe inputs"),
    "endless noise": (lambda: described(graph(), **noise(shape=[10**6] * 3)), "does not describe inputs"),
    "much noise": (lambda: described(graph(), **noise(count=30, shape=[10**6])), "does not describe inputs"),
    "noise of many axes": (lambda: described(graph(), **noise(shape=[1] * 100)), "does not describe inputs"),
    "memory of axes": (lambda: described(graph(), **noise(name="state/h", shape=[1] * 100)), "not describe inputs"),
    "noise that is nothing": (lambda: described(graph(), **noise(shape=[0, 2**62, 4])), "does not describe inputs"),
    "noise it does not take": (lambda: described(graph(), **noise()), "failed: "),
    "an action that is none": (lambda: described(graph(start=8)), "returned an action 'action' that does not exist"),
    "an action of floats": (lambda: described(graph(dtype=TensorProto.FLOAT)), "returned 'action' as float32"),
    "a list": (lambda: described(listed()), "returned 'action' as a list instead of an array"),
    "another shape": (lambda: described(graph(axis=0)), r"returned 'action' as int64 \(3,\) instead of int64 \(1,\)"),
    "metadata that are not UTF-8": (lambda: with_other_bytes(b'"format"'), "not an ONNX file|cannot be used"),
    "a key that is not UTF-8": (lambda: with_other_bytes(b"maze"), "not an ONNX file|no metadata of Maze"),
    "half a character": (lambda: with_other_bytes(b'"'), "not an ONNX file that can be run|cannot be used"),
    "a name that is not UTF-8": (lambda: with_other_bytes(b"logits"), "not an ONNX file that can be run"),
    "control characters": (lambda: described(graph(), '{"format": "\x1b[2J"}'), "no format version|cannot be used"),
}  # fmt: skip


@pytest.mark.parametrize("title", WRONG)
def test_a_file_that_is_no_exported_policy_is_refused_in_one_line(tmp_path, title, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path.parent):
        (folder / "secret").write_bytes(bytes(48))
    make, problem = WRONG[title]
    with pytest.raises(ConfigError, match=problem) as caught:
        opened(tmp_path, make())
    text = str(caught.value)
    assert "\n" not in text
    assert text.isprintable()
    assert text.startswith("policy.file: ")
    assert len(text) < 700
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("sees", "does"),
    [(spaces.Box(-1, 2, (4,)), DOES), (SEES, spaces.Discrete(3)), (spaces.Dict(observation=SEES), DOES)],
)
def test_a_policy_for_other_spaces_is_refused(tmp_path, sees, does):
    with pytest.raises(
        ConfigError, match=r"policy\.file: the policy was exported for the (action|observation) space .* but the"
    ):
        opened(tmp_path, described(graph()), sees, does)


def test_what_critics_alone_see_is_no_input(tmp_path):
    told = spaces.Dict({"observation": SEES, "critic": spaces.Box(-9, 9, (2,))})
    data = described(graph(), json.dumps(Interface(spaces.Dict({"observation": SEES}), DOES).to_json()))
    obs = {"observation": np.eye(4, dtype=np.float32)[:3], "critic": np.ones((3, 2), np.float32)}
    assert opened(tmp_path, data, sees=told).act(obs, RNGS * 3)["action"].tolist() == [0, 1, 2]
    for other in (spaces.Dict({"observation": SEES, "other": SEES}), told):
        with pytest.raises(ConfigError, match="exported for the observation space"):
            opened(tmp_path, described(graph(), json.dumps(Interface(other, DOES).to_json())), sees=told)


def test_a_file_that_cannot_be_read(tmp_path):
    for place in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(ConfigError, match=rf"policy\.file: cannot read {re.escape(str(place))}"):
            OnnxPolicy(OnnxPolicyConfig(name="onnx", file=place)).setup(SEES, DOES)


def test_a_network_that_fails_later_ends_the_evaluation_in_one_line(tmp_path):
    policy = opened(tmp_path, described(graph(rows=1)))
    with pytest.raises(RunError, match="failed: ") as caught:
        policy.act({"observation": np.zeros((2, 4), np.float32)}, RNGS * 2)
    assert isinstance(caught.value, MazeError)
    assert "\n" not in str(caught.value)
