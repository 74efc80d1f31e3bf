"""A job on Spark is looked at: Spark's own page leads to the job's, and that shows what its tasks on Spark do.

Each program is a driver of its own: the session of the other tests shows no pages.
"""

import subprocess
import sys
import textwrap

import pytest
from support.programs.spark_driver import driver_environment

pytestmark = [pytest.mark.spark, pytest.mark.long]

START = """
    import http.client, json, re, sys, tempfile, time
    from pathlib import Path
    from urllib.parse import urlsplit
    from pyspark import SparkConf, SparkContext
    from flinkbuf.common import Configuration, Types
    from flinkbuf.datastream import StreamExecutionEnvironment

    events = tempfile.mkdtemp()
    settings = {
        "spark.ui.enabled": SHOWS_PAGES,
        "spark.ui.port": "0",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events,
        "spark.eventLog.compress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.default.parallelism": "2",
    }
    sc = SparkContext(conf=SparkConf().setMaster("local[4]").setAppName("flinkbuf test").setAll(settings.items()))
    configuration = Configuration.from_dict({
        "execution.target": "spark", "rest.enabled": "true", "heartbeat.interval": "100 ms"
    })
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)

    def get(host, port, path, token=None):
        connection = http.client.HTTPConnection(host, port, timeout=20)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response, text

    def until(find, seconds=90):
        deadline = time.monotonic() + seconds
        while not (found := find()):
            assert time.monotonic() < deadline, "it did not come in time"
            time.sleep(0.1)
        return found

    def forever():
        number = 0
        while True:
            number += 1
            time.sleep(0.001)
            yield number

    numbers = env.add_source(forever, type_info=Types.LONG())
    numbers.key_by(lambda n: n % 10, Types.LONG()).reduce(lambda a, b: a + b).map(lambda n: n).filter(
        lambda n: n < 0).print()
    client = env.execute_async('<b>"sums" & more</b>')
    job_id = str(client.get_job_id())
"""
LINKED = """
    spark_page = urlsplit(sc.uiWebUrl)

    def description():
        page = get(spark_page.hostname, spark_page.port, "/jobs/")[1]
        return re.search('<a href="(/flinkbuf/[0-9a-f]{32})">([^<]*)</a>', page)

    href, text = until(description).groups()
    print(href == "/flinkbuf/" + job_id, text)

    for _ in range(3):  # Spark's server adds a slash first
        response, _ = get(spark_page.hostname, spark_page.port, href)
        href = response.getheader("Location")
        if href.startswith("http"):
            break
    own = urlsplit(href)
    token = own.query.removeprefix("token=")
    response, text = get(own.hostname, own.port, f"{own.path}?{own.query}")
    print(response.status, response.getheader("Content-Type"), "flinkbuf" in text, own.fragment == f"/job/{job_id}")

    def ask(path):
        response, text = get(own.hostname, own.port, path, token)
        assert response.status == 200, text
        return json.loads(text)

    def running():
        found = ask(f"/jobs/{job_id}")
        moved = sum(each["metrics"]["write-records"] for each in found["vertices"])
        return found if found["state"] == "RUNNING" and moved > 100 else None

    found = until(running)
    print(found["name"], [each["parallelism"] for each in found["vertices"]])
    print(len(ask("/taskmanagers")["taskmanagers"]))

    connection = http.client.HTTPConnection(own.hostname, own.port, timeout=20)
    connection.request("PATCH", f"/jobs/{job_id}/rescaling?parallelism=1", headers={"Authorization": f"Bearer {token}"})
    print(connection.getresponse().status)
    until(lambda: [each["parallelism"] for each in ask(f"/jobs/{job_id}")["vertices"]] == [1, 1] and running())
    page = get(spark_page.hostname, spark_page.port, "/jobs/")[1]
    print(len(re.findall('<a href="/flinkbuf/' + job_id + '">', page)))
    client.cancel().result()
    until(lambda: ask(f"/jobs/{job_id}")["state"] == "CANCELED")
    sc.stop()
    logged = "".join(path.read_text(errors="replace") for path in Path(events).rglob("*") if path.is_file())
    print("/flinkbuf/" + job_id in logged, token in logged)
"""
UNLINKED = """
    until(lambda: len(sc.statusTracker().getActiveJobsIds()))
    client.cancel().result()
    sc.stop()
    logged = "".join(path.read_text(errors="replace") for path in Path(events).rglob("*") if path.is_file())
    print(re.search(r"flinkbuf: [^(]*\\(http://127.0.0.1:[0-9]+\\)", logged) is not None, "token=" in logged)
"""


def run(body, shows_pages):
    program = f"SHOWS_PAGES = {shows_pages!r}\n" + textwrap.dedent(START) + textwrap.dedent(body)
    environment = driver_environment()
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=240
    )
    assert found.returncode == 0, found.stderr[-4000:]
    return found.stdout.splitlines()


def test_sparks_page_leads_to_the_jobs():
    assert run(LINKED, "true") == [
        "True flinkbuf: &lt;b&gt;&quot;sums&quot; &amp; more&lt;/b&gt;",
        "200 text/html True True",
        '<b>"sums" & more</b> [1, 2]',
        "2",
        "202",
        "2",
        "True False",
    ]


def test_where_spark_shows_no_pages_the_address_is_told_without_the_token():
    assert run(UNLINKED, "false") == ["True False"]
