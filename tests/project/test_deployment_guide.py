"""The tables of the deployment guide beside the code: every address, port and time is there, and is right."""

import re
from pathlib import Path

import pytest

import flinkbuf as fb
from flinkbuf.common import options
from flinkbuf.config import MIN_DEAD_PEER_TIMEOUT_MS, network_keys
from flinkbuf.control import tcp_health
from flinkbuf.spark.stage import barrier_task, driver_address

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "deployment.md").read_text()


def table(first_column):
    """Return the rows of the table whose head begins with this, by their first cells."""
    lines = iter(GUIDE.splitlines())
    next(line for line in lines if line.startswith(f"| {first_column} |"))
    next(lines)
    rows = {}
    for line in lines:
        if not line.startswith("|"):
            return rows
        first, *others = (cell.strip() for cell in line.strip("|").split("|"))
        rows[first] = others
    return rows


PORTS, TIMES = table("From → to"), table("What has happened")
PORTS_TEXT = str(PORTS)


def settings_in_code():
    """Return the settings of flinkbuf itself that any module names."""
    texts = (path.read_text() for path in (ROOT / "flinkbuf").rglob("*.py"))
    return {name for text in texts for name in re.findall(r"\bspark\.flinkbuf\.[a-z]+\.[A-Za-z]+", text)}


def network_options():
    """Return keys and fields of the network's options that are ports or addresses."""
    fields = [name for name in fb.NetworkConfig.__dataclass_fields__ if re.search("port$|host|address", name)]
    return fields, [key for key in network_keys() if re.search(r"\bport$|-port$|host|address", key)]


@pytest.mark.parametrize("name", sorted(settings_in_code()))
def test_every_setting_of_the_driver_and_its_tasks_is_in_the_table(name):
    assert f"`{name}`" in PORTS_TEXT


def test_settings_of_the_table_are_read_somewhere():
    said = set(re.findall(r"`(spark\.flinkbuf\.[A-Za-z.]+)`", GUIDE))
    assert said - settings_in_code() == set()


def test_every_address_and_port_of_a_job_and_its_page_is_in_the_table():
    fields, keys = network_options()
    assert {"data_port", "data_bind_port"} <= set(fields)
    for name in (*fields, *keys, options.REST_PORT.key, options.REST_BIND_ADDRESS.key):
        assert name in PORTS_TEXT, name


def test_what_holds_unless_set_is_what_the_table_says():
    config = fb.NetworkConfig()
    assert (config.data_port, config.data_bind_port, options.REST_PORT.default) == ("0", None, (0,))
    assert options.REST_BIND_ADDRESS.default in PORTS["browser → driver"][1]
    for row, column in (("tasks → driver", 3), ("task → task, exchange", 3), ("task → task, job", 3)):
        assert "any, unless set" in PORTS[row][column]


class Conf(dict):
    """Settings of Spark."""


@pytest.mark.parametrize(
    ("conf", "listens", "told"),
    [
        ({"spark.driver.host": "a"}, "a", "a"),
        ({"spark.driver.host": "a", "spark.driver.bindAddress": "b"}, "b", "a"),
        ({"spark.driver.host": "a", "spark.driver.bindAddress": "b", "spark.flinkbuf.driver.host": "c"}, "b", "c"),
        (
            {"spark.driver.host": "a", "spark.driver.bindAddress": "b", "spark.flinkbuf.driver.bindAddress": "d"},
            "d",
            "a",
        ),
    ],
)
def test_the_driver_listens_and_is_told_in_the_order_of_the_table(conf, listens, told):
    assert driver_address.driver_hosts(Conf(conf)) == (listens, told)
    bind, told_as = PORTS["tasks → driver"][1:3]
    for text, names in (
        (bind, ["spark.flinkbuf.driver.bindAddress", "spark.driver.bindAddress", "what others are told"]),
        (told_as, ["spark.flinkbuf.driver.host", "spark.driver.host"]),
    ):
        places = [text.index(name) for name in names]
        assert places == sorted(places)


def test_times_are_those_of_the_code():
    config = barrier_task.data_plane(fb.NetworkConfig(data_port="7200"), bytes(16))
    assert config == barrier_task.data_plane(None, bytes(16)).replace(data_port="7200")
    assert config.dead_peer_timeout_ms >= MIN_DEAD_PEER_TIMEOUT_MS
    seconds = [
        driver_address.CONNECT_TIMEOUT_S,
        config.netty_client_connect_timeout_s,
        tcp_health.SILENCE_MS / 1000,
        config.dead_peer_timeout_ms / 1000,
        options.HEARTBEAT_TIMEOUT.default / 1000,
    ]
    assert [float(after.partition(" s")[0]) for after, _ in TIMES.values()] == seconds
    keys = [
        "–",
        "`taskmanager.network.netty.client.connectTimeoutSec`",
        "–",
        f"`NetworkConfig(dead_peer_timeout_ms={config.dead_peer_timeout_ms:_})`",
        f"`{options.HEARTBEAT_TIMEOUT.key}`",
    ]
    assert [by for _, by in TIMES.values()] == keys


def test_a_time_that_was_set_holds_on_spark_too():
    config = fb.NetworkConfig(netty_client_connect_timeout_s=7)
    assert barrier_task.data_plane(config, bytes(16)).netty_client_connect_timeout_s == 7
