"""The Helm chart: valid for Kubernetes and the Prometheus Operator, confined, and at one with everything it names."""

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own, for three calls

from gateway.config.loading import load
from gateway.features.deploy import writing
from gateway.features.deploy.writing import write
from gateway.processes.usable import require_keys_off_loopback
from tests.support.helm import CHART, IMAGES, ROOT, helm, of_kind, rendered
from tests.support.prometheus_tools import promtool
from tests.test_deploy import exported_families

KUBERNETES = ("1.25", "1.33", "1.37")
"""The oldest that the chart allows, one in wide use, and the newest whose schemas there are."""
OPERATOR_KINDS = ("ServiceMonitor", "PrometheusRule")
EVERYTHING = (
    *("--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true"),
    *("--set", "gateway.autoscaling.enabled=true,gateway.autoscaling.cpuPercent=70"),
    *("--set", "auditor.gpu.enabled=true,auditor.existingClaim=models"),
    *("--set", "serviceMonitor.labels.release=p,prometheusRule.labels.release=p"),
    *("--set", "service.annotations.a=b,service.type=LoadBalancer,image.pullSecrets[0].name=registry"),
    *("--set", "gateway.nodeSelector.pool=cpu,auditor.tolerations[0].operator=Exists"),
)
VARIANTS: dict[str, Callable[[], list[Any]]] = {
    "default": lambda: rendered(None),
    "dev": lambda: rendered("values-dev.yaml"),
    "production": lambda: rendered("values-production.yaml"),
    "everything": lambda: rendered(None, *EVERYTHING),
}
TOLERATIONS = 'gateway.tolerations=[{"key":"llm","operator":"Exists"}]'
LONGEST_RELEASE = "r" * 53
"""Helm takes no longer name."""
LARGEST_APPLIED = 256 * 1024
"""Bytes that `kubectl apply` can keep of a resource in its annotation."""


@pytest.fixture(params=VARIANTS)
def resources(request: pytest.FixtureRequest) -> list[Any]:
    found: list[Any] = VARIANTS[request.param]()
    return found


def pods(resources: list[Any]) -> dict[str, Any]:
    """Specifications of the pods that Deployments and Jobs make, by the resource's name."""
    made = {**of_kind(resources, "Deployment"), **of_kind(resources, "Job")}
    return {name: one["spec"]["template"]["spec"] for name, one in made.items()}


def container(pod: Any) -> Any:
    (only,) = pod["containers"]
    return only


@pytest.mark.parametrize("version", KUBERNETES)
def test_resources_are_valid(resources: list[Any], version: str) -> None:
    """Each holds to the schema of its kind, which knows no other fields."""
    import kubernetes_validate  # both take seconds, which each process that collects tests would pay
    from cloudcoil.models.prometheus_operator import v1 as operator

    for resource in resources:
        if resource["kind"] in OPERATOR_KINDS:
            getattr(operator, resource["kind"]).model_validate(resource)
        else:
            kubernetes_validate.validate(resource, version, strict=True)


def test_pods_are_confined(resources: list[Any]) -> None:
    """The Pod Security Standard "restricted" and more: no root, nothing written but to volumes with a size, limits."""
    assert {"biasgate-gateway", "biasgate-auditor", "biasgate-migrations"} == pods(resources).keys()
    for pod in pods(resources).values():
        its, one = pod["securityContext"], container(pod)
        assert its["runAsNonRoot"] is True
        assert its["runAsUser"] >= 10_000
        assert its["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers", "serviceAccountName"} & pod.keys()
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= one["resources"]["limits"].keys() & one["resources"]["requests"].keys()
        for volume in pod["volumes"]:
            assert volume.keys() & {"configMap", "persistentVolumeClaim"} or volume["emptyDir"]["sizeLimit"], volume
        assert ":latest" not in one["image"]


def test_secrets_are_references(resources: list[Any]) -> None:
    """The chart makes no secret and holds none: pods name one that is there."""
    assert not of_kind(resources, "Secret")
    for name, pod in pods(resources).items():
        one = container(pod)
        if name == "biasgate-migrations":
            (address,) = one["env"]
            assert address["valueFrom"]["secretKeyRef"] == {"name": "biasgate", "key": "BIASGATE_STORE__URL"}
        else:
            assert one["envFrom"] == [{"secretRef": {"name": "biasgate"}}]
            assert all("value" in variable for variable in one["env"])


def test_probes_and_ports_are_the_processes_own(resources: list[Any]) -> None:
    """Both roles listen where probes, services and monitors look, by the configuration that there is."""
    config = of_kind(resources, "ConfigMap")["biasgate-config"]["data"]["biasgate.toml"]
    assert config.strip() == (ROOT / "deploy" / "biasgate.toml").read_text().strip()
    for role in ("gateway", "auditor"):
        one = container(pods(resources)[f"biasgate-{role}"])
        environ = {variable["name"]: variable["value"] for variable in one["env"]}
        secrets = dict.fromkeys(writing.SECRETS, "s" * 43)
        server = load(ROOT / "deploy" / "biasgate.toml", environ=environ | secrets).server
        port = server.port if role == "gateway" else server.auditor_metrics_port
        assert server.host == "0.0.0.0"
        assert one["ports"] == [{"name": "http", "containerPort": port}]
        assert {one[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness")} == {"/livez"}
        assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
        assert of_kind(resources, "Service")[f"biasgate-{role}"]["spec"]["ports"][0]["port"] == port
        assert one["args"][0] == role
    require_keys_off_loopback(load(ROOT / "deploy" / "biasgate.toml", environ={}))


def test_a_rolling_upgrade_has_time_to_drain(resources: list[Any]) -> None:
    """A new pod is ready before an old one goes, which has the time that its notice and its streams take."""
    gateway = of_kind(resources, "Deployment")["biasgate-gateway"]["spec"]
    pod = gateway["template"]["spec"]
    environ = {variable["name"]: variable["value"] for variable in container(pod)["env"]}
    server = load(ROOT / "deploy" / "biasgate.toml", environ=environ).server
    assert gateway["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert server.drain_notice_seconds == float(environ["BIASGATE_SERVER__DRAIN_NOTICE_SECONDS"])
    assert pod["terminationGracePeriodSeconds"] > server.drain_notice_seconds + server.drain_seconds + 15


def test_the_number_of_gateways_follows_requests_in_flight() -> None:
    """Where it does, the Deployment names no number of its own; the metric is exported, and the adapter has it."""
    production = rendered("values-production.yaml")
    scaler = of_kind(production, "HorizontalPodAutoscaler")["biasgate-gateway"]["spec"]
    (metric,) = scaler["metrics"]
    assert "replicas" not in of_kind(production, "Deployment")["biasgate-gateway"]["spec"]
    assert metric["pods"]["metric"]["name"] in exported_families()
    (rule,) = yaml.safe_load((CHART.parent / "prometheus-adapter-values.yaml").read_text())["rules"]["custom"]
    assert metric["pods"]["metric"]["name"] in rule["seriesQuery"]
    assert 'job="biasgate-gateway"' in rule["seriesQuery"]
    assert "HorizontalPodAutoscaler" not in {one["kind"] for one in rendered()}


def test_the_adapters_query_adds_up_upstreams(tmp_path: Path) -> None:
    """Requests in flight of one pod, over its upstreams."""
    (rule,) = yaml.safe_load((CHART.parent / "prometheus-adapter-values.yaml").read_text())["rules"]["custom"]
    query = rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.Series>>", "biasgate_inflight_requests")
    series = [
        {"series": f'biasgate_inflight_requests{{pod="{pod}",upstream="{upstream}"}}', "values": value}
        for pod, upstream, value in (("a", "one", "3"), ("a", "two", "4"), ("b", "one", "5"))
    ]
    expected = [{"labels": '{pod="a"}', "value": 7}]
    test = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {"expr": query.replace("<<.LabelMatchers>>", 'pod="a"'), "eval_time": "0m", "exp_samples": expected}
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    promtool("test", "rules", str(tmp_path / "test.yml"))


def test_rules_are_those_of_prometheus(tmp_path: Path) -> None:
    """One set of rules: the chart's is the file, but for the base of its links, and Prometheus takes it."""
    bases = "prometheusRule.runbooks=https://r,prometheusRule.console=https://c"
    (rule,) = of_kind(rendered("values-production.yaml", "--set", bases), "PrometheusRule").values()
    text = (ROOT / "deploy" / "prometheus" / "rules.yml").read_text()
    text = text.replace("{{ $externalLabels.runbooks }}", "https://r")
    assert rule["spec"] == yaml.safe_load(text.replace("{{ $externalLabels.console }}", "https://c"))
    assert "externalLabels" not in json.dumps(rule)
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rule["spec"]))
    promtool("check", "rules", str(tmp_path / "rules.yml"))


def test_monitors_give_the_job_that_rules_ask_for() -> None:
    """Whatever the release is called, `job` is as in the compose file's Prometheus, and the viewer's key is shown."""
    for release in ("biasgate", LONGEST_RELEASE):
        monitors = of_kind(rendered("values-production.yaml", release=release), "ServiceMonitor")
        services = of_kind(rendered("values-production.yaml", release=release), "Service")
        jobs = set()
        for name, monitor in monitors.items():
            (endpoint,) = monitor["spec"]["endpoints"]
            (relabeling,) = endpoint["relabelings"]
            jobs.add(relabeling["replacement"])
            assert relabeling["targetLabel"] == "job"
            assert endpoint["authorization"]["credentials"] == {"name": "biasgate", "key": "BIASGATE_VIEWER_KEY"}
            wanted = monitor["spec"]["selector"]["matchLabels"].items()
            assert [other for other, one in services.items() if wanted <= one["metadata"]["labels"].items()] == [name]
        scraped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
        assert jobs == {job["job_name"] for job in scraped if job["job_name"].startswith("biasgate-")}


def test_names_fit() -> None:
    """Of the longest release that Helm takes, each resource has a name that Kubernetes takes, and no other has."""
    resources = rendered("values-production.yaml", release=LONGEST_RELEASE)
    names = [(one["kind"], one["metadata"]["name"]) for one in resources]
    assert len(set(names)) == len(names)
    assert [name for kind, name in names if len(name) > (253 if kind == "ConfigMap" else 63)] == []
    labels = [value for one in resources for value in one["metadata"]["labels"].values()]
    assert max(map(len, labels)) <= 63


def test_dashboards_are_those_of_grafana() -> None:
    """One config map for each dashboard there is, word for word, with the label that Grafana's sidecar looks for."""
    maps = [
        one
        for one in of_kind(rendered("values-production.yaml"), "ConfigMap").values()
        if one["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    carried = {name: text for one in maps for name, text in one["data"].items()}
    there = {path.name: path.read_text() for path in (ROOT / "grafana").glob("*.json")}
    assert {name: json.loads(text) for name, text in carried.items()} == {
        name: json.loads(text) for name, text in there.items()
    }
    assert max(len(json.dumps(one)) for one in maps) < LARGEST_APPLIED


def test_network_policies_open_what_is_needed(resources: list[Any]) -> None:
    """Where there are any, each pod has one: only the port it serves comes in; DNS and the configured ports go out."""
    policies = of_kind(resources, "NetworkPolicy")
    assert policies.keys() in ({*()}, {"biasgate-gateway", "biasgate-auditor", "biasgate-migrations"})
    made = {**of_kind(resources, "Deployment"), **of_kind(resources, "Job")}
    for name, policy in policies.items():
        wanted = policy["spec"]["podSelector"]["matchLabels"].items()
        labels = {other: one["spec"]["template"]["metadata"]["labels"].items() for other, one in made.items()}
        assert [other for other, has in labels.items() if wanted <= has] == [name]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert all(rule["ports"] == [{"port": "http"}] for rule in policy["spec"]["ingress"])
        assert [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]] == [
            53,
            53,
            5432,
            8000,
            443,
        ]
        assert bool(policy["spec"]["ingress"]) is (name != "biasgate-migrations")
    for policy in of_kind(rendered("values-production.yaml"), "NetworkPolicy").values():
        assert all(rule["from"] for rule in policy["spec"]["ingress"]), "who comes in is named in production"


def test_migrations_come_before_the_rest() -> None:
    """The job, and what lets it reach the store, are made before an installation and an upgrade."""
    hooks = [one for one in rendered() if "helm.sh/hook" in one["metadata"].get("annotations", {})]
    assert {one["metadata"]["annotations"]["helm.sh/hook"] for one in hooks} == {"pre-install,pre-upgrade"}
    assert [one["kind"] for one in hooks] == ["NetworkPolicy", "Job"]
    assert container(pods(rendered())["biasgate-migrations"])["args"] == ["store", "migrate"]


def test_migrations_run_where_gateways_may() -> None:
    """Where every node is tainted, an upgrade would wait for a job that fits nowhere."""
    made = pods(rendered(None, "--set-json", 'gateway.nodeSelector={"pool":"cpu"}', "--set-json", TOLERATIONS))
    for name in ("biasgate-gateway", "biasgate-migrations"):
        assert made[name]["nodeSelector"] == {"pool": "cpu"}
        assert made[name]["tolerations"] == [{"key": "llm", "operator": "Exists"}]
    assert not {"nodeSelector", "tolerations"} & made["biasgate-auditor"].keys()


def test_an_auditor_with_a_claim_is_replaced_one_by_one() -> None:
    """A claim of one node cannot be mounted by the next pod on another node while the last one holds it."""
    strategies = {
        claim: of_kind(rendered(None, "--set", f"auditor.existingClaim={claim}"), "Deployment")["biasgate-auditor"]
        for claim in ("", "models")
    }
    assert {claim: one["spec"]["strategy"]["rollingUpdate"] for claim, one in strategies.items()} == {
        "": {"maxSurge": 1, "maxUnavailable": 0},
        "models": {"maxSurge": 0, "maxUnavailable": 1},
    }


def test_a_gpu_is_asked_for_by_name() -> None:
    """Only where it is wanted, as a limit, on the auditor alone."""
    with_gpu = pods(rendered(None, *EVERYTHING))
    limits = {name: container(pod)["resources"]["limits"] for name, pod in with_gpu.items()}
    assert {name for name, one in limits.items() if "nvidia.com/gpu" in one} == {"biasgate-auditor"}
    assert "nvidia" not in json.dumps(rendered())


def test_a_changed_configuration_restarts_pods() -> None:
    """The digest of the configuration is on each pod."""
    other = rendered(None, "--set", "config=[server]")
    for role in ("gateway", "auditor"):
        was, became = (
            of_kind(one, "Deployment")[f"biasgate-{role}"]["spec"]["template"]["metadata"]["annotations"]
            for one in (rendered(), other)
        )
        assert was.keys() == became.keys()
        assert was != became


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("--set", "gateway.replica=3"), "replica"),
        (("--set", "gateway.resources.limits.memory=null"), "memory"),
        (("--set", "image.gateway.digest=sha256:short"), "digest"),
        (("--set", "image.gateway.repository="), "deploy/Dockerfile --target gateway"),
    ],
)
def test_values_that_cannot_work_are_refused(settings: tuple[str, ...], said: str) -> None:
    """Helm says which value is wrong, before anything reaches a cluster."""
    done = helm("template", "biasgate", str(CHART), *IMAGES, *settings)
    assert done.returncode != 0
    assert said in done.stderr


def test_versions_agree() -> None:
    """The chart is the version that it installs."""
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_it_is_whole_wherever_it_is_put(tmp_path: Path) -> None:
    """As `biasgate deploy write` writes it and as Helm packs it, it gives the same resources as in the repository."""
    write(tmp_path / "written")
    copied = tmp_path / "written/deploy/helm/biasgate"
    assert not [path for path in copied.rglob("*") if path.is_symlink()]
    assert rendered("values-production.yaml", chart=copied) == rendered("values-production.yaml")
    shutil.rmtree(tmp_path / "written/grafana")
    packed = helm("package", str(copied), "--destination", str(tmp_path))
    assert packed.returncode == 0, packed.stderr
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert {"biasgate/files/rules.yml", "biasgate/files/dashboards/gateway.json", "biasgate/values.schema.json"} <= set(
        names
    )


def test_templates_of_argo_ask_the_service_there_is() -> None:
    """Their default gateway is that of a release `biasgate` in a namespace of the same name."""
    (service,) = (one for one in of_kind(rendered(), "Service").values() if "gateway" in one["metadata"]["name"])
    address = f"http://{service['metadata']['name']}.biasgate.svc.cluster.local:{service['spec']['ports'][0]['port']}"
    templates = list(yaml.safe_load_all((ROOT / "deploy" / "argo" / "analysis-template.yaml").read_text()))
    defaults = [arg["value"] for one in templates for arg in one["spec"]["args"] if arg["name"] == "gateway"]
    assert defaults == [address] * 2
