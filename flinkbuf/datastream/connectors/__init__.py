"""Sources and sinks. PyFlink: pyflink.datastream.connectors, whose names all can be imported from here, too.

Connectors need libraries that not every program has, so each is loaded by the first use of its name.
"""

from typing import Any

from flinkbuf.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from flinkbuf.lazy_names import bring

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

_NAMES = {
    "delta": "DeltaSink DeltaSource",
    "file_system": (
        "BucketAssigner FileEnumeratorProvider FileSink FileSource FileSourceBuilder FileSplitAssignerProvider "
        "OutputFileConfig RollingPolicy StreamFormat StreamingFileSink"
    ),
    "iceberg": "IcebergSink IcebergSource",
    "kafka": (
        "FlinkKafkaConsumer FlinkKafkaProducer KafkaOffsetResetStrategy KafkaOffsetsInitializer "
        "KafkaRecordSerializationSchema KafkaSink KafkaSource KafkaTopicPartition Semantic"
    ),
    "number_seq": "NumberSequenceSource",
    "jdbc": "JdbcConnectionOptions JdbcExecutionOptions JdbcSink",
    "pulsar": "PulsarSource PulsarSourceBuilder StartCursor StopCursor",
    "redis": "RedisSink",
    "rabbitmq": "RMQConnectionConfig RMQSink RMQSource",
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Bring a connector at the first use of its name (PEP 562)."""
    return bring(globals(), _MODULE_OF, name)


def __dir__() -> list[str]:
    """Return what is there, and what would come."""
    return sorted({*globals(), *_MODULE_OF})
