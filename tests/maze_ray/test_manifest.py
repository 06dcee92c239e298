"""The Kubernetes manifest of the documentation: KubeRay's fields and rules, and a command that Maze accepts.

The fields are those of KubeRay's resource `RayJob` (ray.io/v1). Its own schema is a megabyte, most of it that of Pods;
of a Pod, only what the manifest uses is stated here.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from maze_core.plugins.config.assembly import assemble

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "cluster.md"
TEXT, NUMBER, YES = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
WORDS = {"type": "object", "additionalProperties": TEXT}


def record(required: str = "", **properties: object) -> dict[str, object]:
    """The schema of an object without other fields."""
    names = required.split()
    return {"type": "object", "additionalProperties": False, "required": names, "properties": properties}


def several(schema: object) -> dict[str, object]:
    """The schema of a list that is not empty."""
    return {"type": "array", "minItems": 1, "items": schema}


QUANTITIES = {"type": "object", "additionalProperties": {"type": "string", "pattern": r"^[0-9.]+(m|Ki|Mi|Gi|Ti)?$"}}
CONTAINER = record(
    "name image",
    name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    image=TEXT,
    resources=record(requests=QUANTITIES, limits=QUANTITIES),
    volumeMounts=several(record("name mountPath", name=TEXT, mountPath=TEXT)),
)
VOLUME = record(
    "name", name=TEXT, persistentVolumeClaim=record("claimName", claimName=TEXT), emptyDir=record(medium=TEXT)
)
POD = record("spec", spec=record("containers", containers=several(CONTAINER), volumes=several(VOLUME)))
HEAD = record("template", rayStartParams=WORDS, template=POD, serviceType=TEXT)
WORKERS = record(
    "groupName template",
    groupName=TEXT,
    replicas=NUMBER,
    minReplicas=NUMBER,
    maxReplicas=NUMBER,
    idleTimeoutSeconds=NUMBER,
    rayStartParams=WORDS,
    template=POD,
)
CLUSTER = record(
    "headGroupSpec",
    rayVersion=TEXT,
    enableInTreeAutoscaling=YES,
    headGroupSpec=HEAD,
    workerGroupSpecs=several(WORKERS),
)
JOB = record(
    "apiVersion kind metadata spec",
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayJob"},
    metadata=record("name", name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 47}),
    spec=record(
        "entrypoint rayClusterSpec",
        entrypoint=TEXT,
        shutdownAfterJobFinishes=YES,
        ttlSecondsAfterFinished=NUMBER,
        backoffLimit=NUMBER,
        rayClusterSpec=CLUSTER,
    ),
)


@pytest.fixture
def manifest():
    """The only block of the page that is a manifest."""
    (block,) = [each for each in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S) if "kind: RayJob" in each]
    return yaml.safe_load(block)


def test_it_has_the_fields_of_the_resource(manifest):
    jsonschema.validate(manifest, JOB)
    for misspelt in ("workerGroupSpec", "shutdownAfterJobFinished"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**manifest, "spec": {**manifest["spec"], misspelt: []}}, JOB)


def test_it_keeps_the_rules_that_no_schema_states(manifest):
    cluster = manifest["spec"]["rayClusterSpec"]
    groups = cluster["workerGroupSpecs"]
    assert len({group["groupName"] for group in groups}) == len(groups)
    for group in groups:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for pod in (each["template"]["spec"] for each in (cluster["headGroupSpec"], *groups)):
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
            resources = container["resources"]
            assert resources["requests"] == resources["limits"]  # Ray counts the limits
    version = re.search(r"rayproject/ray:([\d.]+)", PAGE.read_text())
    assert version is not None
    assert cluster["rayVersion"] == version[1]


def test_its_command_is_one_of_maze_and_its_workers_fit(manifest):
    pytest.importorskip("maze_ray")
    maze, train, algorithm, *words = shlex.split(manifest["spec"]["entrypoint"])
    assert (maze, train) == ("maze", "train")
    flags = dict(zip(words[::2], words[1::2], strict=True))
    assert set(flags) == {"--env", "--runner", "--num-actors", "--run-dir"}
    parameters = {"runner": flags["--runner"], "algorithm.num_actors": int(flags["--num-actors"])}
    assert assemble(algorithm, "CartPole-v1", "none", flags=parameters).runner.name == "ray"
    cluster = manifest["spec"]["rayClusterSpec"]
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    assert any(flags["--run-dir"].startswith(f"{mount['mountPath']}/") for mount in head["volumeMounts"])
    (group,) = cluster["workerGroupSpecs"]
    (worker,) = group["template"]["spec"]["containers"]
    assert parameters["algorithm.num_actors"] <= group["maxReplicas"] * int(worker["resources"]["limits"]["cpu"])
