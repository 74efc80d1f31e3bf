"""Sources and sinks that brokers of Apache Kafka let in by TLS, passwords and certificates, or tell why they do not."""

import time

import pytest

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from support.servers.certificates import CAN_MAKE, Authority  # noqa: E402
from support.servers.kafka_cluster import running_kafka  # noqa: E402
from test_kafka import Attempt, opened, sink_of, source_of  # noqa: E402

from flinkbuf.datastream.connectors.base import DeliveryGuarantee  # noqa: E402
from flinkbuf.datastream.connectors.kafka import KafkaOffsetsInitializer  # noqa: E402
from flinkbuf.streaming.sinks.kafka_group import CoordinatedMarks  # noqa: E402

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(not CAN_MAKE, reason="no openssl here, which makes certificates")]

LISTENERS = {"TLS": "SSL", "MUTUAL": "SSL", "LOGIN": "SASL_PLAINTEXT", "TLSLOGIN": "SASL_SSL"}
PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="right" user_me="right";'
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return Authority(folder, "ours"), Authority(folder, "theirs")


@pytest.fixture(scope="module")
def kafka(authorities):
    ours, _ = authorities
    broker = ours.issue("broker", address="127.0.0.1")
    keys = ours.folder / "broker.both"
    keys.write_text(broker.key.read_text() + broker.certificate.read_text())
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keys,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ours.path,
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    }
    for listener in ("login", "tlslogin"):
        for mechanism in MECHANISMS:
            key = f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"
            settings[key] = PLAIN if mechanism == "PLAIN" else SCRAM
    users = [word for mechanism in MECHANISMS[1:] for word in ("--add-scram", f"{mechanism}=[name=me,password=right]")]
    with running_kafka(settings=settings, format_options=users, listeners=LISTENERS) as cluster:
        yield cluster


def login(mechanism, user="me", password="right"):
    return {"sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password}


WAYS = {
    "tls": ("TLS", {"security.protocol": "ssl", "ssl.ca.location": "ours"}),
    "certificate": ("MUTUAL", {"security.protocol": "SSL", "ssl.ca.location": "ours", "certificate": "client"}),
    "password": ("LOGIN", {"security.protocol": "sasl_plaintext", **login("PLAIN")}),
    "scram": ("LOGIN", {"security.protocol": "sasl_plaintext", **login("SCRAM-SHA-256")}),
    "tls and password": ("TLSLOGIN", {"security.protocol": "sasl_ssl", "ssl.ca.location": "ours", **login("PLAIN")}),
    "tls and scram": (
        "TLSLOGIN",
        {"security.protocol": "sasl_ssl", "ssl.ca.location": "ours", **login("SCRAM-SHA-512")},
    ),
    "no names compared": (
        "TLS",
        {"security.protocol": "ssl", "ssl.ca.location": "ours", "ssl.endpoint.identification.algorithm": "none"},
    ),
}


def properties_of(given, authorities):
    """Properties with the files that their short names mean."""
    ours, theirs = authorities
    properties = dict(given)
    if "ssl.ca.location" in properties:
        properties["ssl.ca.location"] = {"ours": ours, "theirs": theirs}[properties["ssl.ca.location"]].path
    if name := properties.pop("certificate", None):
        issued = (ours if name == "client" else theirs).issue(name)
        properties |= {"ssl.certificate.location": issued.certificate, "ssl.key.location": issued.key}
    return {key: str(value) for key, value in properties.items()}


def with_properties(source_builder, properties):
    return source_builder.set_properties(properties).set_bounded(KafkaOffsetsInitializer.latest()).build()


@pytest.mark.parametrize("way", WAYS)
def test_each_record_is_written_and_read_once_by_each_way_in(kafka, authorities, way):
    listener, given = WAYS[way]
    properties, topic = properties_of(given, authorities), kafka.create_topic(way.replace(" ", "-"))
    sink = opened(sink_of(kafka.address_of(listener), topic, DeliveryGuarantee.EXACTLY_ONCE, **properties))
    for checkpoint_id, value in enumerate("abc", 1):
        sink.process_element(value)
        sink.snapshot(checkpoint_id)
        sink.operator.notify_checkpoint_complete(checkpoint_id)
    (session,) = sink.operator._committer._sessions.values()
    assert isinstance(session._marks, CoordinatedMarks)
    sink.close()
    source = with_properties(source_of(kafka.address_of(listener), topic), properties)
    attempt = Attempt(source, 1).emit()
    attempt.close()
    assert attempt.values == ["a", "b", "c"]


TLS = {"security.protocol": "ssl", "ssl.ca.location": "ours"}
WRONG = {
    "password": (
        "LOGIN",
        {"security.protocol": "sasl_plaintext", **login("PLAIN", password="wrong")},
        "let in user 'me'",
    ),
    "password of scram": (
        "TLSLOGIN",
        {"security.protocol": "sasl_ssl", "ssl.ca.location": "ours", **login("SCRAM-SHA-512", password="wrong")},
        "let in user 'me' by SCRAM-SHA-512",
    ),
    "user": ("LOGIN", {"security.protocol": "sasl_plaintext", **login("SCRAM-SHA-256", user="you")}, "in user 'you'"),
    "authority": ("TLS", {**TLS, "ssl.ca.location": "theirs"}, "not trusted .*see ssl.ca.location"),
    "no certificate": ("MUTUAL", TLS, "does not accept this client .*see ssl.certificate.location"),
    "certificate of others": ("MUTUAL", {**TLS, "certificate": "stranger"}, "see ssl.certificate.location"),
    "plain text to tls": ("TLS", {}, "security.protocol"),
    "tls to plain text": ("LOGIN", TLS, "security.protocol"),
    "no login": ("LOGIN", {}, "does it speak plain text without a login, as security.protocol says"),
    "login to no login": (
        "TLS",
        {"security.protocol": "sasl_ssl", "ssl.ca.location": "ours", **login("PLAIN")},
        "does it speak TLS with a login, as security.protocol says|sasl.mechanisms=PLAIN",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_way_in_is_told_within_seconds(kafka, authorities, wrong):
    listener, given, words = WRONG[wrong]
    properties, address = properties_of(given, authorities), kafka.address_of(listener)
    began = time.monotonic()
    for guarantee in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.NONE):
        with pytest.raises(library.KafkaException, match=words) as told:
            opened(sink_of(address, "wrong", guarantee, **properties))
        assert "wrong" not in str(told.value) and "right" not in str(told.value)
    attempt = Attempt(with_properties(source_of(address, "wrong"), properties), 1)
    while not attempt.failures:
        assert time.monotonic() - began < 20
        time.sleep(0.01)
    attempt.close()
    with pytest.raises(library.KafkaException, match=words):
        raise attempt.failures[0]


def test_a_name_that_is_not_the_certificate_s_is_told(kafka, authorities):
    address = kafka.address_of("TLS").replace("127.0.0.1", "localhost")
    properties = properties_of(TLS, authorities)
    with pytest.raises(library.KafkaException, match="not trusted .*localhost"):
        opened(sink_of(address, "wrong", DeliveryGuarantee.NONE, **properties))
