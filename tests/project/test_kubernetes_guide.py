"""The manifests of the guide to Kubernetes: what its API, flinkbuf and Spark read of them; there is no cluster."""

import copy
import re
from pathlib import Path

import pytest

from flinkbuf.common.configuration import default_configuration
from flinkbuf.common.job_options import termination_of
from flinkbuf.common.options import keys_without_effect, ports_of
from flinkbuf.common.web_options import web_config_of
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.spark.stage import driver_address
from flinkbuf.web.routes import ROUTER

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make test brings the schema of the API")
yaml = pytest.importorskip("yaml")

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "kubernetes.md").read_text()
VERSIONS = ("1.31", kubernetes_validate.latest_version())
MANIFESTS = [
    manifest
    for block in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    for manifest in yaml.safe_load_all(block)
]


def of(kind, name):
    (found,) = [each for each in MANIFESTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


PROPERTIES = of("ConfigMap", "flights-settings")["data"]["flinkbuf.yaml"]
SPARK = dict(line.split() for line in of("ConfigMap", "flights-spark")["data"]["spark-defaults.conf"].splitlines())
EXECUTOR = yaml.safe_load(of("ConfigMap", "flights-spark")["data"]["executor.yaml"])
PROGRAMS = [of("StatefulSet", name)["spec"]["template"]["spec"] for name in ("flights", "flights-spark")]


@pytest.fixture
def configuration(monkeypatch, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123\n")
    token.chmod(0o600)
    monkeypatch.setenv("FLINKBUF_PROPERTIES", PROPERTIES.replace("/secrets/token", str(token)))
    return default_configuration()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [*MANIFESTS, EXECUTOR], ids=lambda each: f"{each['kind']} {len(each)}")
def test_the_schema_of_the_api_takes_each_manifest(manifest, version):
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schema_refuses_what_is_wrong():
    for path, value in ((("spec", "terminationGracePeriod"), 30), (("spec", "terminationGracePeriodSeconds"), "30 s")):
        wrong = copy.deepcopy(EXECUTOR)
        wrong[path[0]][path[1]] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_every_setting_is_read_and_none_contradicts_another(configuration):
    StreamExecutionEnvironment(configuration)
    for target in ("local", "spark"):
        assert keys_without_effect(configuration.key_set(), target) == []
    web = web_config_of(configuration, is_watched=False)
    assert web.is_served and web.bind_address == "0.0.0.0" and web.token


@pytest.mark.parametrize("pod", PROGRAMS, ids=["local", "spark"])
def test_a_program_ends_before_it_is_killed_and_hears_the_signal(pod, configuration):
    assert termination_of(configuration).grace_ms <= (pod["terminationGracePeriodSeconds"] - 3) * 1000
    assert pod["containers"][0]["command"][:4] == ["python", "-m", "flinkbuf", "run"], "no shell is before it"


@pytest.mark.parametrize("pod", PROGRAMS, ids=["local", "spark"])
def test_probes_ask_what_is_answered_where_it_is_served(pod, configuration):
    (container,) = pod["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert (ports["rest"],) == web_config_of(configuration, is_watched=False).ports
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[kind]["httpGet"]
        assert ("GET", asked["path"]) in ROUTER.paths and asked["port"] == "rest"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"


@pytest.mark.parametrize("pod", [*PROGRAMS, EXECUTOR["spec"]], ids=["local", "spark", "executor"])
def test_what_is_mounted_is_there(pod):
    volumes = {each["name"]: each for each in pod["volumes"]}
    containers = [*pod.get("initContainers", ()), *pod["containers"]]
    mounted = {mount["name"] for each in containers for mount in each["volumeMounts"]}
    assert mounted == volumes.keys()
    for volume in volumes.values():
        if "configMap" in volume:
            of("ConfigMap", volume["configMap"]["name"])
        if "persistentVolumeClaim" in volume:
            of("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
        if "secret" in volume:
            assert f"create secret generic {volume['secret']['secretName']} " in GUIDE
    paths = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
    directories = [path for path in re.findall(r": (/\w+)/?", PROPERTIES) if path != "/secrets"]
    if pod is not PROGRAMS[1]:  # the driver of Spark has no tasks, and needs no place for their files
        assert set(directories) <= set(paths)


def test_the_driver_of_spark_is_found_at_its_service():
    driver, service = of("StatefulSet", "flights-spark"), of("Service", "flights-spark")
    labels = driver["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items() and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"], "executors connect before the job runs"
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert SPARK["spark.driver.host"] == f"{name}.{namespace}.svc" and driver["spec"]["serviceName"] == name
    assert SPARK["spark.kubernetes.driver.pod.name"] == f"{name}-0" and SPARK["spark.kubernetes.namespace"] == namespace
    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    (container,) = PROGRAMS[1]["containers"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == ports
    assert int(SPARK["spark.driver.port"]) == ports["spark"]
    assert int(SPARK["spark.blockManager.port"]) == ports["blocks"]
    assert int(SPARK["spark.flinkbuf.driver.port"]) == ports["control"]
    source = Path(driver_address.__file__).read_text()
    assert all(f'"{key}"' in source for key in SPARK if key.startswith("spark.flinkbuf."))


def test_there_are_slots_for_the_program():
    command = PROGRAMS[1]["containers"][0]["command"]
    slots = int(SPARK["spark.executor.instances"]) * int(SPARK["spark.executor.cores"])
    assert int(command[command.index("-p") + 1]) <= slots
    assert SPARK["spark.dynamicAllocation.enabled"] == "false"


def test_the_network_lets_in_what_the_table_of_ports_names(configuration):
    labels = EXECUTOR["metadata"]["labels"], of("StatefulSet", "flights-spark")["spec"]["selector"]["matchLabels"]
    driver, executor = of("NetworkPolicy", "flights-driver")["spec"], of("NetworkPolicy", "flights-executor")["spec"]
    assert executor["podSelector"]["matchLabels"] == labels[0] and driver["podSelector"]["matchLabels"] == labels[1]
    first, others = driver["ingress"]
    assert [each["podSelector"]["matchLabels"] for each in first["from"]] == [labels[0]]
    into_driver = ("spark.driver.port", "spark.blockManager.port", "spark.flinkbuf.driver.port")
    assert {each["port"] for each in first["ports"]} == {int(SPARK[key]) for key in into_driver}
    assert others == {"ports": [{"port": web_config_of(configuration, is_watched=False).ports[0]}]}
    (rule,) = executor["ingress"]
    assert [each["podSelector"]["matchLabels"] for each in rule["from"]] == list(labels)
    let_in = {port for each in rule["ports"] for port in range(each["port"], each.get("endPort", each["port"]) + 1)}
    data_ports = ports_of(configuration.get_string("taskmanager.data.port", ""))
    assert let_in == {*data_ports, int(SPARK["spark.blockManager.port"])}
    assert len(data_ports) >= int(SPARK["spark.executor.cores"])
