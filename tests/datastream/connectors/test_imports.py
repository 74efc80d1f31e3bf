"""Names of PyFlink's connectors: imported from where PyFlink has them, at their first use, with or without a JVM."""

import subprocess
import sys
from importlib import import_module

import pytest

from flinkbuf.datastream import connectors

# pyflink.datastream.connectors of 2.2.1, as it installs them.
NAMES = {
    "BucketAssigner FileEnumeratorProvider FileSink FileSource FileSourceBuilder": "file_system",
    "FileSplitAssignerProvider OutputFileConfig RollingPolicy StreamFormat StreamingFileSink": "file_system",
    "JdbcConnectionOptions JdbcExecutionOptions JdbcSink": "jdbc",
    "FlinkKafkaConsumer FlinkKafkaProducer KafkaSource Semantic": "kafka",
    "NumberSequenceSource": "number_seq",
    "PulsarSource PulsarSourceBuilder StartCursor StopCursor": "pulsar",
    "RMQConnectionConfig RMQSink RMQSource": "rabbitmq",
}
JAVA_ONLY = ["java_only", "cassandra", "elasticsearch", "hybrid_source", "jdbc", "kinesis", "pulsar", "rabbitmq"]


@pytest.mark.parametrize(("name", "module"), [(name, NAMES[names]) for names in NAMES for name in names.split()])
def test_a_name_of_pyflink_is_the_one_of_its_module(name, module):
    assert getattr(connectors, name) is getattr(import_module(f"{connectors.__name__}.{module}"), name)
    assert name in dir(connectors)


def test_what_is_no_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'KafkaSorce'"):
        connectors.KafkaSorce


@pytest.mark.parametrize("module", JAVA_ONLY)
def test_a_java_class_says_what_to_use_when_it_is_made(module):
    imported = import_module(f"{connectors.__name__}.{module}")
    found = {name: each for name, each in vars(imported).items() if type(each).__name__ == "Refusing"}
    assert found
    for name, each in found.items():
        for call in (each, each.builder, lambda each=each: each("amqp://host", 1)):
            with pytest.raises(NotImplementedError, match=f"{name} is a Java class, .* use (a|Postgres)"):
                call()


def test_no_connector_is_loaded_before_its_name_is_used():
    code = (
        "import sys, flinkbuf.datastream.connectors as c; c.Sink; "
        "print([m for m in ('kafka', 'file_system', 'jdbc') if f'{c.__name__}.{m}' in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
