"""Hadoop on hosts of its own: NameNode and ResourceManager on one, a DataNode and a NodeManager on each of three, and
Spark's driver on a fifth, in client mode."""

import re
import sys
from pathlib import Path

from support.hosts.hosts import hosts_or_skip
from support.hosts.spark_hosts import PYTHON_PATH, START_S, WORKERS, driver_settings, spark_home, started_driver
from support.servers.hadoop_daemons import (
    DATANODE,
    NAMENODE,
    NODE_MANAGER,
    RESOURCE_MANAGER,
    daemon_command,
    hadoop_jars,
    hdfs_properties,
    write_configuration,
)

from flinkbuf.spark.java import find_java

NAMES = ("master", *WORKERS, "driver", "driver2")
NAMENODE_PORT = 9000
URI = f"hdfs://master:{NAMENODE_PORT}"
DRIVER_PORT, BLOCK_PORT = 7078, 7079
FLINKBUF_DRIVER_PORTS, DATA_PORTS, PAGE_PORT = "7100-7109", "7200-7209", 7300


class YarnHosts:
    """The cluster. A context manager; `folder` keeps its logs."""

    def __init__(self, folder):
        hadoop_jars()
        self.hosts = hosts_or_skip(NAMES, folder)
        try:
            self._start()
        except BaseException:
            self.hosts.__exit__()
            raise
        self.resting = {host.name: self._own_processes(host) for host in self.hosts}

    def _start(self):
        for host in self.hosts:
            data = host.temporary / "hadoop"
            properties = hdfs_properties(data, host.name, NAMENODE_PORT)
            properties["core"]["fs.defaultFS"] = URI
            write_configuration(self.configuration(host.name), **properties, yarn=_yarn_properties(host, data))
        self.hosts["master"].run(*self._command("master", NAMENODE, "-format", "-nonInteractive"), **_variables())
        self.daemons = {}
        for name, main in (("master", NAMENODE), ("master", RESOURCE_MANAGER)):
            self.start_daemon(name, main)
        for name in WORKERS:
            for main in (DATANODE, NODE_MANAGER):
                self.start_daemon(name, main)
        for name in WORKERS:
            self.daemons[name, NODE_MANAGER].wait_for_error("Registered with ResourceManager", START_S)
            self.daemons[name, DATANODE].wait_for_error("Successfully sent block report", START_S)

    def configuration(self, name):
        """Where the configuration of a host lies."""
        return self.hosts[name].temporary.parent / "conf" / name

    def _command(self, name, main, *arguments):
        return daemon_command(main, self.configuration(name), *arguments)

    def start_daemon(self, name, main):
        """Start a daemon on a host."""
        host = self.hosts[name]
        process = host.start(*self._command(name, main), **_variables(), HADOOP_CONF_DIR=self._conf_text(name))
        self.daemons[name, main] = process

    def _conf_text(self, name):
        return str(self.configuration(name))

    def start_driver(self, *, host="driver", **spark):
        """Start a driver, ``support/programs/hosts_driver.py``, on YARN, with more settings of Spark."""
        place = self.hosts[host]
        conf = {
            **driver_settings(host),
            "spark.master": "yarn",
            "spark.submit.deployMode": "client",
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.yarn.am.memory": "384m",
            "spark.executor.instances": "3",
            "spark.dynamicAllocation.enabled": "false",
            **spark,
        }
        variables = {
            **_variables(),
            "HADOOP_CONF_DIR": self._conf_text(host),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_DIRS": str(place.temporary),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": PYTHON_PATH,
        }
        return started_driver(place, conf, 2 * START_S, **variables)

    def containers(self):
        """Return (host, process id outside, container's id) of each executor's Java process."""
        found = []
        for host in self.hosts:
            for pid, line in host.processes().items():
                executor = re.search(r"/(container_\w+)/.*YarnCoarseGrainedExecutorBackend", line)
                if executor and "/java" in line.split()[0]:
                    found.append((host.name, pid, executor[1]))
        return sorted(found)

    def leftovers(self):
        """Return the processes on the hosts that were not there when the cluster had started."""
        found = {host.name: self._own_processes(host) - self.resting[host.name] for host in self.hosts}
        return {name: left for name, left in found.items() if left}

    @staticmethod
    def _own_processes(host):
        return set(host.processes().values())  # a daemon that was started again is the same

    def logs(self):
        """Return the ends of what containers have printed, for messages."""
        found = []
        for host in self.hosts:
            for path in sorted(Path(host.temporary, "hadoop").glob("container-logs/*/*/std*")):
                found.append(f"{path}:\n{path.read_text(errors='replace')[-2000:]}")
        return "\n".join(found)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.hosts.__exit__(*error)


def _variables():
    return {"JAVA_HOME": str(find_java())}


def _yarn_properties(host, data):
    return {
        "yarn.resourcemanager.hostname": "master",
        "yarn.resourcemanager.bind-host": "0.0.0.0",
        "yarn.resourcemanager.webapp.address": "master:0",
        "yarn.resourcemanager.am.max-attempts": 1,
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": 100,
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
        "yarn.nm.liveness-monitor.expiry-interval-ms": 10_000,
        "yarn.nodemanager.hostname": host.name,
        "yarn.nodemanager.bind-host": "0.0.0.0",
        "yarn.nodemanager.address": f"{host.name}:0",
        "yarn.nodemanager.localizer.address": f"{host.name}:8040",
        "yarn.nodemanager.webapp.address": f"{host.name}:0",
        "yarn.nodemanager.local-dirs": data / "containers",
        "yarn.nodemanager.log-dirs": data / "container-logs",
        "yarn.nodemanager.resource.memory-mb": 1700,  # an executor, and perhaps the application's master
        "yarn.nodemanager.resource.cpu-vcores": 4,
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,TMPDIR,LANG",
        "yarn.scheduler.minimum-allocation-mb": 128,
        "yarn.client.nodemanager-connect.max-wait-ms": 10_000,
    }
