"""Programs whose jobs run on threads of the test's process."""

from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment


def embedded(parallelism: int = 1) -> StreamExecutionEnvironment:
    """Make an environment of the embedded target."""
    config = Configuration()
    config.set_string("execution.target", "embedded")
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)
