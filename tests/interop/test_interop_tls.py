"""Flink with ``security.ssl.internal`` and flinkbuf with `NetworkConfig(tls=...)`: certificates on both sides."""

import shutil
import subprocess
import time

import pytest
from flink_peer import NO_EXCLUSIVE, FlinkError
from flink_records import END, barrier, broadcast, expected, records
from our_tasks import read
from test_interop_pipelined import both_ways

import flinkbuf as fb
from flinkbuf.spark.java import find_java

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the command openssl makes the certificates")
PASSWORD = "hidden-in-plain-sight"


def run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


class Authority:
    """Signs one certificate, for both sides: ours as PEM files, Flink's in Java's stores."""

    def __init__(self, folder, name):
        key, self.path = folder / f"{name}-ca.key", folder / f"{name}-ca.pem"
        ours, request, signed = (folder / f"{name}.{ending}" for ending in ("key", "csr", "pem"))
        run(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            key,
            "-out",
            self.path,
            "-days",
            "10",
            "-subj",
            f"/CN={name} authority",
        )
        run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", ours, "-out", request, "-subj", f"/CN={name}")
        run(
            "openssl",
            "x509",
            "-req",
            "-in",
            request,
            "-CA",
            self.path,
            "-CAkey",
            key,
            "-CAcreateserial",
            "-out",
            signed,
            "-days",
            "10",
        )
        self.tls = fb.network.TlsConfig(certificate=signed, key=ours, authority=self.path)
        self.keystore, self.truststore = folder / f"{name}.p12", folder / f"{name}-trust.p12"
        run(
            "openssl",
            "pkcs12",
            "-export",
            "-inkey",
            ours,
            "-in",
            signed,
            "-certfile",
            self.path,
            "-out",
            self.keystore,
            "-passout",
            f"pass:{PASSWORD}",
        )
        run(
            find_java() / "bin" / "keytool",
            "-importcert",
            "-noprompt",
            "-alias",
            "authority",
            "-file",
            self.path,
            "-keystore",
            self.truststore,
            "-storetype",
            "PKCS12",
            "-storepass",
            PASSWORD,
        )

    @property
    def options(self):
        """What goes into Flink's configuration."""
        return {
            "security.ssl.internal.enabled": "true",
            "security.ssl.internal.keystore": str(self.keystore),
            "security.ssl.internal.keystore-password": PASSWORD,
            "security.ssl.internal.key-password": PASSWORD,
            "security.ssl.internal.truststore": str(self.truststore),
            "security.ssl.internal.truststore-password": PASSWORD,
        }


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"), "cluster")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"), "stranger")


@both_ways
@pytest.mark.parametrize("knobs", [{}, NO_EXCLUSIVE], ids=["exclusive", "floating"])
@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_records_over_tls(open_ours, open_flink, authority, transfer, knobs, protocol):
    options = {**authority.options, "security.ssl.protocol": protocol}
    if protocol == "TLSv1.3":
        options["security.ssl.algorithms"] = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384"
    ours = open_ours(fb.NetworkConfig(tls=authority.tls, **knobs))
    flink = open_flink(fb.NetworkConfig(**knobs), options)
    steps = [records(1000, 0, 1, 300, 100_000), barrier(1), broadcast(10, 50_000), records(2, 10 * 2**20), *END]
    assert transfer(ours, flink, "bytes", steps, 3) == expected("bytes", steps, 3)


def test_files_over_tls(open_ours, open_flink, authority):
    """With TLS Flink cannot hand file regions to the system, so it sends them another way."""
    partition_id = fb.network.ResultPartitionID.random()
    ours, flink = open_ours(fb.NetworkConfig(tls=authority.tls)), open_flink(fb.NetworkConfig(), authority.options)
    steps = [records(3000, 1000, 40_000), *END]
    flink.create_partition(partition_id, 1, "BLOCKING")
    flink.write(partition_id, "bytes", steps).result(60)
    with ours.create_gate([fb.network.RemoteChannel(*flink.address, partition_id, 0)]) as gate:
        assert read(gate, "bytes") == expected("bytes", steps, 1)


others = pytest.mark.parametrize("other", ["stranger", None], ids=["another authority", "no TLS"])


@others
def test_our_certificate_is_shown_to_nobody_else(open_ours, open_flink, authority, stranger, other):
    """A server without TLS takes the greeting for the length of a message, so that takes the handshake's time limit."""
    ours, flink = open_ours(fb.NetworkConfig(tls=authority.tls)), open_flink(None, stranger.options if other else {})
    partition_id, since = fb.network.ResultPartitionID.random(), time.monotonic()
    flink.create_partition(partition_id, 1)
    with ours.create_gate([fb.network.RemoteChannel(*flink.address, partition_id, 0)]) as gate:
        with pytest.raises(fb.errors.RemoteTransportError, match="TLS"):
            read(gate, "long")
    assert time.monotonic() - since < 20


@others
def test_strangers_get_nothing_of_ours(open_ours, open_flink, authority, stranger, other):
    ours, flink = open_ours(fb.NetworkConfig(tls=authority.tls)), open_flink(None, stranger.options if other else {})
    partition_id, since = fb.network.ResultPartitionID.random(), time.monotonic()
    ours.create_partition(partition_id, 1)
    with pytest.raises(FlinkError, match="TransportException|SSL"):
        flink.read_all("long", ours.address, partition_id, 1).result(60)
    assert time.monotonic() - since < 20
