"""Daemons of Apache Hadoop, each a JVM of its own, as its scripts would start them: HDFS and YARN.

Maven brings the jars once, of the version that PySpark's own are of. A test gives `Hadoop` a way to start a process: on
this machine, or on hosts.
"""

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from support.servers.maven_jars import maven_jars

NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
JAVA_OPTIONS = ["-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
_LOG_OPTIONS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
_OPENED = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util", "java.net", "java.io")]
_PAGES = ("hdfs", "datanode", "cluster", "node")  # of the daemons' own web pages, which have to be there
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


# What clients have to give a NameNode up after seconds, not minutes.
IMPATIENT = {
    "dfs.client.failover.max.attempts": 4,
    "dfs.client.failover.sleep.base.millis": 100,
    "dfs.client.failover.sleep.max.millis": 500,
}


def hadoop_jars():
    """The folder of Hadoop's servers, of the version of PySpark's clients; skips the test where that cannot be."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    (client,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    version = re.search(r"api-(.*)\.jar", client.name)[1]
    minicluster = f"org.apache.hadoop:hadoop-client-minicluster:{version}"
    logs = "org.slf4j:slf4j-simple:1.7.36", "ch.qos.reload4j:reload4j:1.2.25"
    secrets = "org.bouncycastle:bcprov-jdk18on:1.82", "org.bouncycastle:bcpkix-jdk18on:1.82"
    return maven_jars("Hadoop", version, minicluster, *logs, *secrets)


def write_configuration(folder, **files):
    """Write ``core-site.xml`` and others: properties by the name of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, properties in files.items():
        lines = [f"<property><name>{key}</name><value>{value}</value></property>" for key, value in properties.items()]
        text = "\n".join(["<configuration>", *lines, "</configuration>"])
        (folder / f"{name}-site.xml").write_text(text)


def hdfs_properties(data, host, port, replication=2):
    """The properties of one daemon of HDFS: what it keeps lies in the folder `data`."""
    core = {"fs.defaultFS": f"hdfs://{host}:{port}", "hadoop.tmp.dir": data}
    hdfs = {
        "dfs.replication": replication,
        "dfs.blocksize": 4 << 20,
        "dfs.namenode.fs-limits.min-block-size": 1 << 10,
        "dfs.namenode.name.dir": f"file://{data}/names",
        "dfs.namenode.rpc-bind-host": "0.0.0.0",
        "dfs.namenode.http-address": f"{host}:0",
        "dfs.namenode.safemode.extension": 0,
        "dfs.namenode.heartbeat.recheck-interval": 500,
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.avoid.write.stale.datanode": "true",
        "dfs.namenode.stale.datanode.interval": 3000,
        "dfs.heartbeat.interval": 1,
        "dfs.datanode.data.dir": f"file://{data}/blocks",
        "dfs.datanode.address": f"{host}:0",
        "dfs.datanode.ipc.address": f"{host}:0",
        "dfs.datanode.http.address": f"{host}:0",
        "dfs.datanode.du.reserved": 0,
        "ipc.client.connect.max.retries": 3,
    }
    return {"core": core, "hdfs": hdfs}


def daemon_command(main, configuration, *arguments):
    """The command of a daemon whose configuration lies in a folder."""
    for name in _PAGES:
        (configuration / "webapps" / name / "WEB-INF").mkdir(parents=True, exist_ok=True)
    return [
        *("java", *JAVA_OPTIONS, *_LOG_OPTIONS, *_OPENED, f"-Dhadoop.log.dir={configuration}"),
        *("-cp", f"{configuration}{os.pathsep}{hadoop_jars()}/*", main, *arguments),
    ]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class HdfsCluster:
    """A NameNode and DataNodes on this machine, started by `running_hdfs`; `uri` is where they are."""

    def __init__(self, folder, datanodes):
        self.folder, self.port = Path(folder), free_port()
        self.names = ["namenode", *(f"datanode{number}" for number in range(1, datanodes + 1))]
        self._processes = {}
        for name in self.names:
            properties = hdfs_properties(self.folder / name, "127.0.0.1", self.port, min(2, datanodes))
            write_configuration(self._configuration(name), **properties)
        self.client_configuration = self.folder / "client"
        core = {"fs.defaultFS": self.uri().rstrip("/")}
        write_configuration(self.client_configuration, core=core, hdfs=IMPATIENT)
        subprocess.run(self._command("namenode", "-format", "-nonInteractive"), check=True, capture_output=True)

    def uri(self, directory=""):
        return f"hdfs://127.0.0.1:{self.port}/{directory}"

    def _configuration(self, name):
        return self.folder / name / "conf"

    def _command(self, name, *arguments):
        main = NAMENODE if name == "namenode" else DATANODE
        return daemon_command(main, self._configuration(name), *arguments)

    def start(self, *names):
        """Start daemons, all unless some are named."""
        for name in names or self.names:
            with open(self.folder / f"{name}.log", "ab") as log:
                self._processes[name] = subprocess.Popen(
                    self._command(name), stdout=log, stderr=log, preexec_fn=_die_with_parent
                )

    def kill(self, name):
        """End a daemon at once."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(60)

    def stop(self):
        for name in list(self._processes):
            self.kill(name)

    def wait_until_writable(self, timeout_s=90):
        """Wait until a file can be written, to as many DataNodes as there are."""
        from hdfs_native import Client, WriteOptions

        deadline = time.monotonic() + timeout_s
        while True:
            try:
                client = Client(self.uri().rstrip("/"), config_dir=str(self.client_configuration))
                with client.create("/ready", WriteOptions(overwrite=True)) as file:
                    file.write(b"x")
                client.delete("/ready")
                return client
            except Exception as error:
                log = (self.folder / "namenode.log").read_text()[-3000:]
                dead = [name for name, each in self._processes.items() if each.poll() is not None]
                assert not dead and time.monotonic() < deadline, f"HDFS does not come up: {error}; {dead}\n{log}"
                time.sleep(0.1)


def _die_with_parent():
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


@contextlib.contextmanager
def running_hdfs(datanodes=2):
    """A cluster in a folder of its own, which is gone with it; HADOOP_CONF_DIR is that of its clients meanwhile."""
    pytest.importorskip("hdfs_native", reason="hdfs-native is not installed")
    with tempfile.TemporaryDirectory(prefix="flinkbuf-hdfs-") as folder:
        cluster = HdfsCluster(folder, datanodes)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HADOOP_CONF_DIR", str(cluster.client_configuration))
            try:
                cluster.start()
                cluster.wait_until_writable()
                yield cluster
            finally:
                cluster.stop()
