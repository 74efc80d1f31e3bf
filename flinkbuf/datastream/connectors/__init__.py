"""Sources and sinks. PyFlink: pyflink.datastream.connectors, whose names all can be imported from here, too.

Connectors need libraries that not every program has, so each is loaded by the first use of its name.
"""

from importlib import import_module

from flinkbuf.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

_NAMES = {
    "file_system": (
        "BucketAssigner FileEnumeratorProvider FileSink FileSource FileSourceBuilder FileSplitAssignerProvider "
        "OutputFileConfig RollingPolicy StreamFormat StreamingFileSink"
    ),
    "kafka": (
        "FlinkKafkaConsumer FlinkKafkaProducer KafkaOffsetResetStrategy KafkaOffsetsInitializer "
        "KafkaRecordSerializationSchema KafkaSink KafkaSource KafkaTopicPartition Semantic"
    ),
    "number_seq": "NumberSequenceSource",
    "jdbc": "JdbcConnectionOptions JdbcExecutionOptions JdbcSink",
    "pulsar": "PulsarSource PulsarSourceBuilder StartCursor StopCursor",
    "rabbitmq": "RMQConnectionConfig RMQSink RMQSource",
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Bring a connector at the first use of its name (PEP 562)."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    """Return what is there, and what would come."""
    return sorted({*globals(), *_MODULE_OF})
