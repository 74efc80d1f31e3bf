"""NetworkConfig: Flink's names, defaults and spellings, and errors that say what is allowed."""

import ast
import dataclasses
import doctest
import pickle
import re
from pathlib import Path

import pytest

import flinkbuf.config
from flinkbuf.config import NetworkConfig, TlsConfig, parse_duration_ms, parse_size

# Flink 2.2.1's documented defaults, in its own spelling: the table of its configuration page.
FLINK_DEFAULTS = {
    "taskmanager.memory.segment-size": "32 kb",
    "taskmanager.memory.min-segment-size": "256 bytes",
    "taskmanager.memory.network.min": "64 mb",
    "taskmanager.network.memory.buffers-per-channel": "2",
    "taskmanager.network.memory.floating-buffers-per-gate": "8",
    "taskmanager.network.memory.max-buffers-per-channel": "10",
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": "5",
    "taskmanager.network.memory.buffers-request-timeout": "30 s",
    "execution.buffer-timeout.enabled": "true",
    "execution.buffer-timeout.interval": "100 ms",
    "taskmanager.network.memory.buffer-debloat.enabled": "false",
    "taskmanager.network.memory.buffer-debloat.period": "200 ms",
    "taskmanager.network.memory.buffer-debloat.target": "1 s",
    "taskmanager.network.memory.buffer-debloat.samples": "20",
    "taskmanager.network.memory.buffer-debloat.threshold-percentages": "25",
    "taskmanager.network.compression.codec": "LZ4",
    "taskmanager.network.batch-shuffle.compression.enabled": "true",
    "taskmanager.memory.framework.off-heap.batch-shuffle.size": "64 mb",
    "taskmanager.network.sort-shuffle.min-buffers": "512",
    "taskmanager.network.sort-shuffle.min-parallelism": "1",
    "taskmanager.network.blocking-shuffle.type": "file",
    "taskmanager.data.port": "0",
    "taskmanager.data.ssl.enabled": "true",
    "taskmanager.network.max-num-tcp-connections": "1",
    "taskmanager.network.tcp-connection.enable-reuse-across-jobs": "true",
    "taskmanager.network.request-backoff.initial": "100",
    "taskmanager.network.request-backoff.max": "10000",
    "taskmanager.network.partition-request-timeout": "10 s",
    "taskmanager.network.retries": "0",
}

# What nothing in flinkbuf reads: Flink's default, and another value.
UNREAD = {
    "taskmanager.memory.network.fraction": ("0.1", "0.5"),
    "taskmanager.network.adaptive-partitioner.enabled": ("false", "true"),
    "taskmanager.network.adaptive-partitioner.max-traverse-size": ("4", "8"),
    "taskmanager.network.detailed-metrics": ("false", "true"),
    "taskmanager.network.netty.num-arenas": ("-1", "2"),
    "taskmanager.network.netty.server.numThreads": ("-1", "4"),
    "taskmanager.network.netty.client.numThreads": ("-1", "4"),
    "taskmanager.network.netty.server.backlog": ("0", "64"),
    "taskmanager.network.netty.sendReceiveBufferSize": ("0", "64 kb"),
    "taskmanager.network.netty.transport": ("auto", "nio"),
}
PACKAGE = Path(flinkbuf.config.__file__).parent


def test_defaults_are_flinks():
    assert NetworkConfig().to_flink() == FLINK_DEFAULTS


def test_every_default_read_from_flinks_spelling_is_the_default():
    unread = {key: default for key, (default, _) in UNREAD.items()}
    assert NetworkConfig.from_flink({**FLINK_DEFAULTS, **unread}) == NetworkConfig()


@pytest.mark.parametrize("key", UNREAD)
def test_an_option_that_nothing_reads_warns_once_if_it_is_set(key):
    with pytest.warns(UserWarning, match=f"^{re.escape(key)} = '.*' has no effect: ") as caught:
        assert NetworkConfig.from_flink({key: UNREAD[key][1]}) == NetworkConfig()
    assert len(caught) == 1 and caught[0].filename == __file__


def test_its_deprecated_key_warns_too():
    with pytest.warns(UserWarning, match="has no effect"):
        NetworkConfig.from_flink({"taskmanager.network.memory.fraction": 0.2})


def fields_that_are_read():
    """Fields of a config that some module asks for: `config.x`, or a property of the class that asks for `self.x`."""
    others = [path for path in PACKAGE.rglob("*.py*") if path.suffix in (".py", ".pyx") and path.name != "config.py"]
    asked = {name for path in others for name in re.findall(r"config\.(\w+)", path.read_text())}
    (cls,) = (
        node
        for node in ast.parse((PACKAGE / "config.py").read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "NetworkConfig"
    )
    for method in cls.body:
        if isinstance(method, ast.FunctionDef) and method.name in asked:
            asked |= {node.attr for node in ast.walk(method) if isinstance(node, ast.Attribute)}
    return asked


def test_every_field_is_read_somewhere():
    fields = {item.name for item in dataclasses.fields(NetworkConfig)}
    assert fields - fields_that_are_read() == set(), "nothing reads these: name them in _unread_options()"
    assert not UNREAD.keys() & {
        item.metadata["knob"].key for item in dataclasses.fields(NetworkConfig) if item.metadata
    }


def test_a_knob_that_nothing_reads_is_no_field():
    with pytest.raises(TypeError, match="detailed_metrics"):
        NetworkConfig(detailed_metrics=True)
    with pytest.raises(TypeError, match="no knob 'netty_transport'"):
        NetworkConfig().replace(netty_transport="nio")


@pytest.mark.parametrize(
    ("key", "text", "name", "value"),
    [
        ("taskmanager.memory.segment-size", "64kb", "segment_size", 65536),
        ("taskmanager.memory.segment-size", 8192, "segment_size", 8192),
        ("taskmanager.network.batch-shuffle.compression.enabled", "false", "batch_shuffle_compression_enabled", False),
        (
            "taskmanager.network.blocking-shuffle.compression.enabled",
            "false",
            "batch_shuffle_compression_enabled",
            False,
        ),
        ("taskmanager.memory.framework.off-heap.batch-shuffle.size", "4 mb", "batch_shuffle_read_size", 4 << 20),
        ("taskmanager.network.blocking-shuffle.type", "mmap", "blocking_shuffle_type", "mmap"),
        ("taskmanager.memory.network.max", "1 gb", "network_memory_max", 1 << 30),
        ("taskmanager.memory.network.max", f"{2**63 - 1} bytes", "network_memory_max", None),
        ("taskmanager.network.memory.buffers-per-channel", "0", "buffers_per_channel", 0),
        (
            "taskmanager.network.memory.exclusive-buffers-request-timeout-ms",
            "500",
            "exclusive_buffers_request_timeout_ms",
            500,
        ),
        ("taskmanager.network.memory.min", "1 mb", "network_memory_min", 1 << 20),
        ("taskmanager.network.memory.max", "1 gb", "network_memory_max", 1 << 30),
        ("taskmanager.network.compression.codec", "NONE", "compression_codec", "NONE"),
        ("execution.buffer-timeout", "5 ms", "buffer_timeout_ms", 5),
        ("execution.buffer-timeout.interval", "1 min", "buffer_timeout_ms", 60_000),
        ("taskmanager.data.ssl.enabled", "false", "data_ssl_enabled", False),
        ("taskmanager.data.port", "50100-50200", "data_port", "50100-50200"),
    ],
)
def test_from_flink_reads_flinks_keys_and_units(key, text, name, value):
    assert getattr(NetworkConfig.from_flink({key: text}), name) == value


def test_what_to_flink_writes_from_flink_reads_back():
    config = NetworkConfig(
        segment_size=4096,
        network_memory_max=3 * 1024**4,
        read_buffer_required_per_gate_max=7,
        buffer_timeout_enabled=False,
        buffer_timeout_ms=1500,
        netty_client_tcp_keep_idle_s=30,
        data_bind_port="50100,50200",
    )
    assert NetworkConfig.from_flink(config.to_flink()) == config


def test_from_flink_reads_deprecated_keys_too():
    assert NetworkConfig.from_flink({"taskmanager.network.memory.max": "1 gb"}).network_memory_max == 1 << 30


def test_from_flink_reads_the_nested_form_of_config_yaml():
    nested = {"taskmanager": {"network": {"memory": {"buffers-per-channel": 3}}, "numberOfTaskSlots": 4}}
    assert NetworkConfig.from_flink(nested).buffers_per_channel == 3


def test_from_flink_leaves_other_parts_of_flink_alone():
    assert NetworkConfig.from_flink({"jobmanager.rpc.port": 6123, "state.backend.type": "rocksdb"}) == NetworkConfig()


def test_a_misspelt_network_key_is_an_error_that_shows_the_nearest():
    nearest = r"did you mean taskmanager\.network\.memory\.buffers-per-channel\?"
    with pytest.raises(ValueError, match=f"no counterpart.*{nearest}"):
        NetworkConfig.from_flink({"taskmanager.network.memory.buffer-per-channel": 2})


def test_one_knob_set_by_two_keys_is_an_error():
    with pytest.raises(ValueError, match="set twice"):
        NetworkConfig.from_flink({"execution.buffer-timeout": 1, "execution.buffer-timeout.interval": 2})


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("taskmanager.memory.segment-size", "32 bananas", "memory size.*'32 bananas'"),
        ("taskmanager.memory.segment-size", "-1kb", "memory size"),
        ("execution.buffer-timeout.interval", "soon", "duration.*'soon'"),
        ("execution.buffer-timeout.interval", "1500 µs", "whole number of milliseconds"),
        ("taskmanager.network.retries", "two", "whole number.*'two'"),
        ("taskmanager.memory.network.fraction", "half", "a number.*'half'"),
        ("taskmanager.network.detailed-metrics", "yes", "true or false.*'yes'"),
    ],
)
def test_text_that_cannot_be_read_is_an_error_naming_knob_key_and_text(key, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        NetworkConfig.from_flink({key: text})
    assert key in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("segment_size", 2048, "from 4096"),
        ("segment_size", 5000, "power of two"),
        ("segment_size", "32kb", "an int from 4096"),
        ("buffers_per_channel", -1, "from 0"),
        ("buffers_per_channel", True, "an int"),
        ("buffers_per_channel", 2.0, "an int"),
        ("buffers_per_channel", 2**31, "to 2147483647"),
        ("max_buffers_per_channel", 0, "from 1"),
        ("buffer_timeout_ms", -1, "from 0"),
        ("buffer_debloat_threshold_percentages", 101, "to 100"),
        ("compression_codec", "GZIP", "one of NONE, LZ4, LZO, ZSTD, got"),
        ("blocking_shuffle_type", "disk", "one of file, mmap, auto, got"),
        ("sort_shuffle_min_parallelism", 0, "an int from 1"),
        ("batch_shuffle_read_size", "4mb", "an int from 1"),
        ("data_ssl_enabled", 1, "True or False"),
        ("read_buffer_required_per_gate_max", 0, "from 1 to 2147483647 or None"),
        ("sort_shuffle_min_buffers", None, "an int from 1"),
        ("data_port", 50100, "text"),
    ],
)
def test_a_value_out_of_range_is_an_error_naming_knob_value_and_range(name, value, allowed):
    with pytest.raises(ValueError, match=allowed) as caught:
        NetworkConfig(**{name: value})
    assert str(caught.value).startswith(f"{name} (")
    assert str(caught.value).endswith(f"got {value!r}")


@pytest.mark.parametrize(
    "knobs",
    [
        {"segment_size": 4096, "min_segment_size": 8192},
        {"network_memory_min": 2, "network_memory_max": 1},
        {"request_backoff_initial_ms": 20_000},
    ],
)
def test_a_minimum_above_its_maximum_is_an_error(knobs):
    with pytest.raises(ValueError, match="must be at most"):
        NetworkConfig(**knobs)


def test_replace_changes_one_knob_checks_it_and_leaves_the_original():
    config = NetworkConfig()
    assert config.replace(buffers_per_channel=5) == NetworkConfig(buffers_per_channel=5)
    assert config == NetworkConfig()
    with pytest.raises(ValueError, match="buffers_per_channel"):
        config.replace(buffers_per_channel=-1)
    with pytest.raises(TypeError, match="did you mean buffers_per_channel"):
        config.replace(buffers_per_chanel=5)


def test_a_config_is_frozen_hashable_and_survives_pickling():
    config = NetworkConfig(retries=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.retries = 4
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(NetworkConfig(retries=3))


def test_the_secret_is_kept_but_never_shown():
    config = NetworkConfig(auth=b"sixteen bytes or more")
    assert config.auth == b"sixteen bytes or more" == pickle.loads(pickle.dumps(config)).auth
    assert "sixteen" not in repr(config) + str(config) + str(config.to_flink())
    assert config.replace(retries=1).auth == config.auth
    assert config.replace(auth=None) == NetworkConfig()


@pytest.mark.parametrize("secret", [b"too short", b"", "a text of sixteen characters", bytearray(32), 16])
def test_a_secret_that_is_none_is_an_error_that_does_not_show_it(secret):
    with pytest.raises((TypeError, ValueError), match="auth must") as caught:
        NetworkConfig(auth=secret)
    assert repr(secret)[1:] not in str(caught.value) or secret in (b"", 16)


def test_tls_names_three_files():
    tls = TlsConfig(certificate="worker.pem", key=Path("worker.key"), authority="ca.pem")
    assert NetworkConfig(tls=tls).tls == tls
    assert "tls" not in str(NetworkConfig(tls=tls).to_flink())
    with pytest.raises(TypeError, match="key must be the path of a PEM file, got None"):
        TlsConfig(certificate="worker.pem", key=None, authority="ca.pem")
    with pytest.raises(TypeError, match="tls must be a TlsConfig or None, got 'ca.pem'"):
        NetworkConfig(tls="ca.pem")


def test_flush_timeout_is_minus_one_when_the_buffer_timeout_is_off():
    assert NetworkConfig().flush_timeout_ms == 100
    assert NetworkConfig(buffer_timeout_ms=0).flush_timeout_ms == 0
    assert NetworkConfig(buffer_timeout_enabled=False).flush_timeout_ms == -1


def test_units_count_as_in_flink():
    assert [parse_size(text) for text in ("7", "7 b", "7K", "7 mebibytes", "7g", "7 TB")] == [
        7,
        7,
        7 << 10,
        7 << 20,
        7 << 30,
        7 << 40,
    ]


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("7", 7),
        (7, 7),
        (" 50 ms ", 50),
        ("3s", 3_000),
        ("2 min", 120_000),
        ("2 mins", 120_000),
        ("7h", 25_200_000),
        ("7 days", 604_800_000),
        ("7000 micros", 7),
        ("7000 \u00b5s", 7),
        ("7000 \u03bcs", 7),
        ("2000000 ns", 2),
        ("PT3S", 3_000),
        ("pt1m0.5s", 60_500),
        ("P1DT2H", 93_600_000),
    ],
)
def test_times_are_read_with_their_units(text, time_ms):
    assert parse_duration_ms(text) == time_ms


@pytest.mark.parametrize("text", ["", "x", "3 parsecs", "P", "PT", "-1 s", "PT-1S", "1.5 s"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match='expected a duration such as "100 ms", "10 s" or "PT10S"'):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["1500 ns", "1 µs", "PT0.0015S"])
def test_a_part_of_a_millisecond_is_refused_and_not_dropped(text):
    with pytest.raises(ValueError, match="whole number of milliseconds"):
        parse_duration_ms(text)


def test_what_a_java_long_does_not_hold_is_refused():
    for parse, text in ((parse_size, "9000000 tb"), (parse_duration_ms, "999999999999 d")):
        with pytest.raises(ValueError, match="too large for 64 bits"):
            parse(text)


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(flinkbuf.config).failed == 0
