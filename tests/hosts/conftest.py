"""A real HDFS for all tests of this folder that want one."""

import pytest
from support.servers.hadoop_daemons import running_hdfs


@pytest.fixture(scope="session")
def hdfs():
    with running_hdfs(datanodes=2) as started:
        yield started


@pytest.fixture
def directory(hdfs, request):
    """A directory there that is the test's own; it does not exist yet."""
    return hdfs.uri(f"of/{request.node.name}".replace("[", "-").replace("]", "").replace(" ", "-"))
