"""What deploy/ and the workflows start is there, and takes the options that it is given."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml

from dibs.cli.commands.completion import catalogues
from dibs.core.times import parse_duration
from dibs.serve.server import GRACE as SHUTDOWN_SECONDS
from docs.pages import ROOT
from sbom import sbom

if TYPE_CHECKING:
    from pathlib import Path

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
COMPOSED = sorted((ROOT / "deploy" / "container").glob("*.yaml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CONTAINER = ROOT / "deploy" / "container" / "Containerfile"

# What an environment file gives, with an example of it.
_GIVEN = {"%i": "ann", "%H": "host", "$WORK_OPTIONS": "--slots 4", "$WORK_COMMAND": "make-it"}


def name_of(path: Path) -> str:
    return path.name


def parsed(words: list[str]) -> None:
    """Refused by the command's own parser where an option is wrong."""
    (dibs,) = (each for each in catalogues() if each.script == "dibs")
    (entry,) = (entry for entry in dibs.entries if entry.words == ("dibs", words[0]))
    entry.parser.parse_args(words[1:])


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_a_unit_starts_a_command_that_there_is(unit: Path) -> None:
    (started,) = re.findall(r"^ExecStart=/opt/dibs/bin/dibs (.+)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    for name, value in _GIVEN.items():
        started = started.replace(name, value)
    parsed(started.split())


@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_systemd_understands_a_unit(unit: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    text = unit.read_text(encoding="utf-8")
    assert {"[Unit]", "[Service]", "[Install]"} <= set(text.splitlines())
    if verify:
        here = tmp_path / unit.name
        here.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text), encoding="utf-8")
        told = subprocess.run(
            [verify, "verify", "--man=no", here], capture_output=True, text=True, timeout=600, check=False
        )
        assert unit.name.replace("@", "@i") not in told.stderr, told.stderr


@pytest.mark.parametrize("composed", COMPOSED, ids=name_of)
def test_compose_waits_for_healthy_services(composed: Path) -> None:
    services = read(composed)["services"]
    for service in services.values():
        if "command" in service:
            parsed(service["command"])
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert needed in services
        for port in service.get("ports", ()):
            assert re.match(r"(127\.0\.0\.1|\$\{LISTEN:-127\.0\.0\.1\}):\d+:\d+$", port), "closed unless you open it"
        if "build" in service:
            assert (composed.parent / service["build"]["context"]).resolve() == ROOT


def environments(composed: Path) -> list[tuple[str, dict[str, str]]]:
    """The environment of each service that runs dibs."""
    services = read(composed)["services"]
    return [(name, service["environment"]) for name, service in services.items() if "build" in service]


def read_by_dibs() -> set[str]:
    """Every name in the code that can be a variable, and those that libpq reads."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "dibs").rglob("*.py"))
    return {*re.findall(r"\"([A-Z][A-Z0-9]*_[A-Z0-9_]+)\"", source), "PGPASSWORD"}


@pytest.mark.parametrize("composed", COMPOSED, ids=name_of)
def test_composed_services_get_only_variables_that_dibs_reads(composed: Path) -> None:
    known = read_by_dibs()
    for name, environment in environments(composed):
        assert environment.keys() <= known, name
        assert urlsplit(environment["DIBS_STORE"]).hostname in read(composed)["services"], name


def test_two_composed_servers_drain_behind_a_proxy_with_tls() -> None:
    (path,) = (path for path in COMPOSED if path.name == "cluster.yaml")
    services = read(path)["services"]
    proxied = services["proxy"]["environment"]["SERVERS"].split()
    assert [f"{name}:8420" for name, service in services.items() if "serve" in service.get("command", ())] == proxied
    assert len(proxied) == 2
    for server in proxied:
        service = services[server.partition(":")[0]]
        assert "ports" not in service, "only the proxy is reached from outside"
        assert seconds_of(service["stop_grace_period"]) >= drain_of(service["command"]) + SHUTDOWN_SECONDS
    caddyfile = (path.parent / "Caddyfile").read_text(encoding="utf-8")
    for variable in ("SITE", "SERVERS"):
        assert f"{{${variable}:" in caddyfile
    interval = float(re.findall(r"health_interval (\d+)s", caddyfile)[0])
    assert drain_of(services["serve-1"]["command"]) > 2 * interval


def drain_of(words: list[str]) -> float:
    return seconds_of(words[words.index("--drain") + 1])


def seconds_of(span: str) -> float:
    return parse_duration(span).total_seconds()


# Kubernetes

# kind → its API version and the keys that its spec must have
_KINDS = {
    "ConfigMap": ("v1", set[str]()),
    "Deployment": ("apps/v1", {"selector", "template"}),
    "Ingress": ("networking.k8s.io/v1", {"rules", "tls"}),
    "PodDisruptionBudget": ("policy/v1", {"minAvailable", "selector"}),
    "Service": ("v1", {"selector", "ports"}),
    "StatefulSet": ("apps/v1", {"selector", "serviceName", "template", "volumeClaimTemplates"}),
}
_POD_KEYS = {"containers", "terminationGracePeriodSeconds", "volumes"}
_CONTAINER_KEYS = {
    "args", "env", "image", "livenessProbe", "name", "ports", "readinessProbe", "securityContext", "volumeMounts",
}  # fmt: skip
_SECRETS = {"postgres-password", "serve-secret", "worker-token"}


def manifests() -> list[dict[str, Any]]:
    (path,) = (ROOT / "deploy" / "kubernetes").glob("*.yaml")
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def workloads() -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in manifests() if one["kind"] in {"Deployment", "StatefulSet"}}


def test_kubernetes_objects_are_of_known_kinds_and_complete() -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in manifests()]
    assert len(names) == len(set(names))
    for one in manifests():
        version, needed = _KINDS[one["kind"]]
        assert one["apiVersion"] == version
        assert one.get("spec", {}).keys() >= needed
    for name, workload in workloads().items():
        pod = workload["spec"]["template"]["spec"]
        assert pod.keys() <= _POD_KEYS, name
        assert all(container.keys() <= _CONTAINER_KEYS for container in pod["containers"]), name


def test_kubernetes_containers_run_dibs_with_variables_it_reads() -> None:
    known, services = read_by_dibs(), {one["metadata"]["name"] for one in manifests() if one["kind"] == "Service"}
    for name, workload in workloads().items():
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        for variable in container["env"]:
            if "valueFrom" in variable:
                assert variable["valueFrom"]["secretKeyRef"]["key"] in _SECRETS, name
        if container["image"] != "dibs":
            continue
        parsed(container["args"])
        environment = {variable["name"]: variable.get("value", "") for variable in container["env"]}
        assert environment.keys() <= known, name
        assert urlsplit(environment["DIBS_STORE"]).hostname in services
        assert container["securityContext"]["runAsNonRoot"]


def test_kubernetes_selectors_ports_and_volumes_match() -> None:
    labels = {name: workload["spec"]["template"]["metadata"]["labels"] for name, workload in workloads().items()}
    ports: dict[str, set[str]] = {}
    for name, workload in workloads().items():
        assert workload["spec"]["selector"]["matchLabels"] == labels[name]
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        ports[name] = {port["name"] for port in container.get("ports", ())}
        claimed = workload["spec"].get("volumeClaimTemplates", ())
        volumes = {each["name"] for each in workload["spec"]["template"]["spec"].get("volumes", ())}
        volumes |= {each["metadata"]["name"] for each in claimed}
        assert {each["name"] for each in container.get("volumeMounts", ())} == volumes
    for one in manifests():
        selector = one.get("spec", {}).get("selector", {})
        if one["kind"] in {"Service", "PodDisruptionBudget"}:
            (name,) = (name for name, own in labels.items() if own == selector.get("matchLabels", selector))
            assert {port["targetPort"] for port in one["spec"].get("ports", ())} <= ports[name]
    (ingress,) = (one["spec"] for one in manifests() if one["kind"] == "Ingress")
    assert ingress["tls"][0]["hosts"] == [rule["host"] for rule in ingress["rules"]]


def test_kubernetes_servers_are_two_and_have_time_to_drain() -> None:
    serve = workloads()["serve"]["spec"]
    pod = serve["template"]["spec"]
    (container,) = pod["containers"]
    drain, probe = drain_of(container["args"]), container["readinessProbe"]
    assert serve["replicas"] == 2
    assert serve["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert probe["httpGet"]["path"] == "/health"
    assert drain > 2 * probe["periodSeconds"] * probe["failureThreshold"]
    assert pod["terminationGracePeriodSeconds"] >= drain + SHUTDOWN_SECONDS


def test_container_runs_unprivileged_with_a_health_check() -> None:
    text = CONTAINER.read_text(encoding="utf-8")
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    assert re.search(r"^USER dibs$", stages[1], re.MULTILINE)
    assert "/health" in stages[1]
    (started,) = re.findall(r"^CMD (\[.+\])$", text, re.MULTILINE)
    parsed(yaml.safe_load(started))
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert all(f"!{name}" in kept and (ROOT / name).exists() for names in copied for name in names.split())


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name_of)
def test_workflow_has_minimal_permissions_and_existing_scripts(workflow: Path) -> None:
    content = read(workflow)
    assert "contents" in content["permissions"]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for job in content["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for command in (step["run"] for step in job["steps"] if "run" in step):
            first, *rest = command.split()
            if first == "gh":  # GitHub's own program, which its machines have
                continue
            assert (ROOT / first).exists() if first != "make" else set(rest) <= set(targets)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name_of)
def test_actions_are_pinned_to_commits_and_name_their_version(workflow: Path) -> None:
    used = re.findall(r"uses: *(.+)", workflow.read_text(encoding="utf-8"))
    assert used
    for each in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[\d.]+", each), each


def test_release_publishes_a_bill_of_the_shipped_dependencies() -> None:
    document = sbom(ROOT)
    scopes = {each["name"]: each["scope"] for each in document["components"]}
    assert {name for name, scope in scopes.items() if scope == "required"} >= {"pyyaml", "rich"}
    assert {"neo4j", "psycopg2-binary", "starlette", "pyjwt", "mcp"} <= scopes.keys()
    assert scopes.keys().isdisjoint({"pytest", "ruff", "mypy", "hypothesis"}), "tools are not shipped"
    refs = {each["bom-ref"] for each in document["components"]}
    assert all(refs.issuperset(each["dependsOn"]) for each in document["dependencies"])
    (release,) = (workflow for workflow in WORKFLOWS if workflow.name == "release.yml")
    assert "build/sbom.cdx.json" in release.read_text(encoding="utf-8")
