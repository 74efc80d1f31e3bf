"""A standalone cluster of Spark: a master, three workers and a driver, each on a host of its own."""

import json
import os
import re
import sys
from pathlib import Path

from support.hosts.hosts import SHARED, hosts_or_skip
from support.programs.spark_driver import PACKAGE_HOME
from support.servers.s3_server import CREDENTIALS
from support.waiting import wait_until

from flinkbuf.spark.java import find_java

MASTER_PORT = 7077
WORKERS = ("worker1", "worker2", "worker3")
NAMES = ("master", *WORKERS, "driver", "driver2", "outside")
PROGRAM = PACKAGE_HOME / "tests" / "support" / "programs" / "hosts_driver.py"
PYTHON_PATH = os.pathsep.join(map(str, (PACKAGE_HOME, PROGRAM.parent)))
DEPLOY = "org.apache.spark.deploy"
START_S, ANSWER_S = 90, 120
PATIENT_S = 10  # so long Spark waits for a machine that says nothing
# What Spark listens at, beside the master: as a firewall has to know it.
DRIVER_PORT, BLOCK_PORT = 7078, 7079
SPARK_PORTS = (MASTER_PORT, BLOCK_PORT)
FLINKBUF_DRIVER_PORTS, DATA_PORTS, PAGE_PORT = "7100-7109", "7200-7209", 7300


class SparkHosts:
    """The cluster, with nothing running in it but Spark's own. A context manager."""

    def __init__(self, folder):
        self.hosts = hosts_or_skip(NAMES, folder)
        try:
            self._start()
        except BaseException:
            self.hosts.__exit__()
            raise
        self.resting = {host.name: self._own_processes(host) for host in self.hosts}

    def _start(self):
        address = "--host", "master", "--port", MASTER_PORT, "--webui-port", 0
        self.daemons = [self._java("master", f"{DEPLOY}.master.Master", *address)]
        self.daemons[0].wait_for_error("I have been elected leader")
        for name in WORKERS:
            self._start_worker(name)
        for daemon in self.daemons[1:]:
            daemon.wait_for_error("Successfully registered with master")

    def _start_worker(self, name):
        limits = "--host", name, "--port", 7076, "--webui-port", 0, "--cores", 2, "--memory", "1200m"
        work = "--work-dir", self.hosts[name].temporary / "work", f"spark://master:{MASTER_PORT}"
        self.daemons.append(self._java(name, f"{DEPLOY}.worker.Worker", *limits, *work))

    def _java(self, name, *command):
        host = self.hosts[name]
        java = [find_java() / "bin" / "java", "-Xmx256m", *java_options(host)]
        java += [f"-Dspark.worker.timeout={PATIENT_S}", "-Dspark.worker.cleanup.enabled=false"]
        return host.start(*java, "-cp", spark_home() / "jars" / "*", *command, **self._variables(host))

    def _variables(self, host):
        return {
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_DIRS": str(host.temporary),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": PYTHON_PATH,
            **CREDENTIALS,
        }

    def start_driver(self, *, host="driver", **spark):
        """Start a driver, ``support/programs/hosts_driver.py``, with more settings of Spark."""
        place = self.hosts[host]
        conf = {
            **driver_settings(host),
            "spark.master": f"spark://master:{MASTER_PORT}",
            "spark.driver.extraJavaOptions": " ".join(java_options(place)),
            **{f"spark.executorEnv.{name}": value for name, value in CREDENTIALS.items()},
            **spark,
        }
        return started_driver(place, conf, START_S, **self._variables(place))

    def sockets_left(self):
        """Return the sockets on each host at ports that flinkbuf was given, but for where a driver listens."""
        return {host.name: found for host in self.hosts if (found := set(filter(_is_flinkbuf, host.sockets())))}

    def leftovers(self):
        """Return what is on the hosts that was not there when the cluster had started."""
        found = {"sockets": self.sockets_left()}
        for host in self.hosts:
            found[f"processes of {host.name}"] = self._own_processes(host) - self.resting[host.name]
            found[f"files of {host.name}"] = files_of(host)
        return {name: left for name, left in found.items() if left}

    @staticmethod
    def _own_processes(host):
        return set(host.processes().items())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.hosts.__exit__(*error)


def driver_settings(host):
    """Return the settings of Spark that a driver on a host has in each kind of cluster."""
    return {
        "spark.driver.host": host,
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.port": str(DRIVER_PORT),
        "spark.blockManager.port": str(BLOCK_PORT),
        "spark.port.maxRetries": "8",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.executor.extraJavaOptions": "-XX:-UsePerfData -XX:TieredStopAtLevel=1",
        "spark.executorEnv.PYTHONPATH": PYTHON_PATH,
        "spark.pyspark.python": sys.executable,
        "spark.network.timeout": f"{PATIENT_S}s",
        "spark.network.timeoutInterval": "1s",
        "spark.executor.heartbeatInterval": "1s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.flinkbuf.driver.port": FLINKBUF_DRIVER_PORTS,
        "spark.flinkbuf.driver.bindAddress": "0.0.0.0",
    }


def started_driver(place, conf, timeout_s, **variables):
    """Start a driver, ``support/programs/hosts_driver.py``, on a host."""
    words = json.dumps({"spark": conf, "shared": SHARED, "data_ports": DATA_PORTS, "page": PAGE_PORT})
    process = place.start(sys.executable, PROGRAM, words, **variables)
    process.wait_for("started\n", timeout_s)
    return SparkDriver(process)


class SparkDriver:
    """A driver that answers questions, one after the other."""

    def __init__(self, process):
        self.process = process
        self._asked = self._begin = 0

    def ask(self, door, **arguments):
        """Have it go through a door; `answer` is what comes of it."""
        self._asked += 1
        self._begin = len(self.process.output())
        self.process.write(json.dumps({"door": door, **arguments}))

    def job_id(self, timeout_s=ANSWER_S):
        """Return the id of the job that it was asked for, once that has started."""
        started = re.compile(r"job (\w+)\n")
        wait_until(lambda: started.search(self.process.output(), self._begin) or self.process.poll(), timeout_s, 0.05)
        found = started.search(self.process.output(), self._begin)
        assert found is not None, self.process.said()
        return found[1]

    def answer(self, timeout_s):
        """Return what it said; AssertionError if that takes longer."""
        wait_until(lambda: len(self._answers()) >= self._asked or self.process.poll() is not None, timeout_s, 0.05)
        assert len(self._answers()) >= self._asked, self.process.said()
        return json.loads(self._answers()[-1])

    def result(self, door, *, timeout_s=ANSWER_S, **arguments):
        """Go through a door; AssertionError, with the error, if that did not go well."""
        self.ask(door, **arguments)
        said = self.answer(timeout_s)
        assert "error" not in said, said["error"][:4000]
        return said["result"]

    def stop(self):
        """Have Spark stop, and wait for the end of the process."""
        self.process.close()
        assert self.process.wait(60) == 0, self.process.said()

    def _answers(self):
        return [line for line in self.process.output().splitlines() if line.startswith("{")]


def _is_flinkbuf(sides):
    local, remote = (int(side.rpartition(":")[2]) for side in sides)
    is_driver_listening = 7100 <= local < 7110 and remote == 0  # as long as its context
    return not is_driver_listening and any(7100 <= port < 7300 for port in (local, remote))


def files_of(host):
    """Return its temporary files but for what Spark keeps there of each application: logs, archives, and blocks."""
    return {name for name in host.files() if not name.startswith("work/")}


def java_options(host):
    """Return what keeps Java within the host."""
    return [f"-Djava.io.tmpdir={host.temporary}", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1"]


def spark_home():
    """Return where the jars of PySpark are."""
    import pyspark

    return Path(pyspark.__file__).parent
