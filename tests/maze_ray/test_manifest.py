"""The Kubernetes manifest of the documentation: KubeRay's schema and rules, and a command that Maze accepts."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from maze_core.plugins.config.assembly import assemble

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "kubernetes.md"
SCHEMA = Path(__file__).parent / "kuberay" / "rayjob.v1.json.gz"
GPU = "nvidia.com/gpu"


def strict(schema):
    """A schema of Kubernetes as one of JSON, in which an object has no fields that are not named."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema and "additionalProperties" not in schema:
        found["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    return found


@pytest.fixture(scope="module")
def resource():
    """What validates a RayJob by KubeRay's own schema, which is not validated itself: that takes seconds."""
    return jsonschema.Draft202012Validator(strict(json.loads(gzip.decompress(SCHEMA.read_bytes()))))


@pytest.fixture
def manifest():
    """The only block of the page that is a RayJob."""
    (block,) = [each for each in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S) if "kind: RayJob" in each]
    return yaml.safe_load(block)


@pytest.fixture
def script():
    """The command of the job."""
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S)
    return block


def pods_of(manifest):
    """The groups' names and what their Pods are."""
    cluster = manifest["spec"]["rayClusterSpec"]
    groups = {group["groupName"]: group for group in cluster["workerGroupSpecs"]}
    return {name: group["template"]["spec"] for name, group in {"head": cluster["headGroupSpec"], **groups}.items()}


def test_it_has_the_fields_of_the_resource(manifest, resource):
    resource.validate(manifest)
    assert manifest["apiVersion"] == "ray.io/v1"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "spec/rayClusterSpec",
        "spec/rayClusterSpec/workerGroupSpecs/1/template/spec",
        "spec/rayClusterSpec/headGroupSpec/template/spec/containers/0",
    ],
)
def test_a_field_that_the_resource_does_not_have_is_found(manifest, resource, path):
    place = manifest
    for part in filter(None, path.split("/")):
        place = place[int(part)] if part.isdigit() else place[part]
    place["mispelt"] = 1
    with pytest.raises(jsonschema.ValidationError, match="'mispelt' was unexpected"):
        resource.validate(manifest)


def test_it_keeps_the_rules_that_no_schema_states(manifest):
    cluster = manifest["spec"]["rayClusterSpec"]
    groups = cluster["workerGroupSpecs"]
    assert len({group["groupName"] for group in groups}) == len(groups)
    for group in groups:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for pod in pods_of(manifest).values():
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
            resources = container["resources"]
            assert resources["requests"] == resources["limits"]  # Ray counts the limits
            assert {"name": "metrics", "containerPort": 8080} in container["ports"]
    version = re.search(r"rayproject/ray:([\d.]+)", PAGE.read_text())
    assert version is not None
    assert cluster["rayVersion"] == version[1]
    assert tuple(map(int, version[1].split("."))) >= (2, 52)  # the first with tokens


def test_the_command_runs_where_the_gpu_the_volume_and_the_secrets_are(manifest, script):
    assert manifest["spec"]["entrypoint"] == "sh /opt/train.sh"
    assert "COPY train.sh /opt/train.sh" in PAGE.read_text()
    pods = pods_of(manifest)
    found = [name for name, pod in pods.items() if GPU in pod["containers"][0]["resources"]["limits"]]
    assert found == ["learner"]
    (learner,) = pods["learner"]["containers"]
    assert int(learner["resources"]["limits"][GPU]) == manifest["spec"]["entrypointNumGpus"]
    assert learner["envFrom"] == [{"secretRef": {"name": "loggers"}}]
    run = re.search(r"RUN=(\S+)", script)
    assert run is not None
    assert any(run[1].startswith(f"{mount['mountPath']}/") for mount in learner["volumeMounts"])


def test_its_command_is_one_of_maze_and_its_workers_fit(manifest, script):
    pytest.importorskip("maze_ray")
    *_, command = script.replace("\\\n", " ").strip().splitlines()
    _, maze, train, algorithm, *words = shlex.split(command)
    assert (maze, train) == ("maze", "train")
    flags = dict(zip(words[::2], words[1::2], strict=True))
    assert set(flags) == {"--env", "--runner", "--num-actors", "--device", "--set", "--steps", "--run-dir"}
    parameters = {"runner": flags["--runner"], "algorithm.num_actors": int(flags["--num-actors"])}
    assert assemble(algorithm, "CartPole-v1", "none", flags=parameters).runner.name == "ray"
    group = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][1]
    (worker,) = pods_of(manifest)["actors"]["containers"]
    assert parameters["algorithm.num_actors"] <= group["maxReplicas"] * int(worker["resources"]["limits"]["cpu"])


@pytest.mark.slow
def test_its_command_trains_first_and_then_resumes(script, tmp_path):
    """The script of the page, with a small run on one machine in place of the large one."""
    small = "--env CartPole-v1 --preset none --epochs 2 --epoch-length 2 --set callbacks.tensorboard=null"
    words = script.replace("/runs/", f"{tmp_path}/").replace("impala --env", f"impala {small} --env")
    for large in ("--env my_envs:Plant-v0", "--runner ray", "--num-actors 100", "--device cuda", "--steps 1000000000"):
        assert large in words
        words = words.replace(large, "")
    words = words.replace("--set callbacks.wandb.project=plant", "")
    (tmp_path / "train.sh").write_text(words)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = {"env": {**os.environ, "PATH": path}, "capture_output": True, "text": True, "check": False, "timeout": 120}
    first = subprocess.run(["sh", str(tmp_path / "train.sh")], **run)
    assert first.returncode == 0, first.stderr
    again = subprocess.run(["sh", str(tmp_path / "train.sh")], **run)
    assert "impala" in again.stdout + again.stderr
    assert (tmp_path / "impala" / "checkpoints" / "last").is_dir()
    assert "is in use" not in again.stderr
