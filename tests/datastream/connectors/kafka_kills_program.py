"""A job from topic to topic, exactly once, whose driver and tasks are killed: ``python kafka_kills_program.py FOLDER``.

``job.json`` in the folder says where brokers and topics are. A driver that is begun again takes the job over.
"""

import json
import os
import sys
from pathlib import Path

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.common.serialization import SimpleStringSchema
from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.base import DeliveryGuarantee
from flinkbuf.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.processes import status_of


def key_of(value):
    return json.loads(value)[0]


class KeyOf(SimpleStringSchema):
    """The key of a message is that of its record."""

    def serialize(self, element):
        return key_of(element).encode()


class Count(KeyedProcessFunction):
    """Adds to each record of a key how many there were; says in which process it runs."""

    def __init__(self, folder):
        self.folder = str(folder)

    def open(self, context):
        pids = Path(self.folder, "pids")
        pids.mkdir(exist_ok=True)
        (pids / str(os.getpid())).write_text(str(status_of(os.getpid()).started))
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield json.dumps([*json.loads(value), count])


def workers(folder):
    """Processes that have run tasks and are still there; others may have their numbers by now."""
    noted = [(int(path.name), path.read_text()) for path in Path(folder, "pids").glob("*")]
    return sorted(pid for pid, started in noted if (now := status_of(pid)) is not None and str(now.started) == started)


def main(folder):
    """Run the job until it is killed."""
    job = json.loads(Path(folder, "job.json").read_text())
    options = {
        "execution.target": "local",
        "pipeline.name": "kills",
        "pipeline.progress": "false",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100000",
        "restart-strategy.fixed-delay.delay": "10 ms",
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.tolerable-failed-checkpoints": "100000",
        "execution.checkpointing.dir": str(Path(folder, "checkpoints")),
        "high-availability.storageDir": str(Path(folder, "jobs")),
        "high-availability.lease-timeout": "2 s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options)).set_parallelism(2)
    source = KafkaSource.builder().set_bootstrap_servers(job["servers"]).set_topics("in").set_group_id("kills")
    source.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    source.set_value_only_deserializer(SimpleStringSchema())
    serializer = KafkaRecordSerializationSchema.builder().set_topic("out").set_key_serialization_schema(KeyOf())
    serializer.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(job["servers"]).set_record_serializer(serializer.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("kills")
    for key, value in job["properties"].items():
        sink.set_property(key, value)
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "in").uid("in")
    counted = stream.key_by(key_of, Types.STRING()).process(Count(folder), Types.STRING()).uid("count")
    counted.sink_to(sink.build()).uid("out")
    env.execute("kills")


if __name__ == "__main__":
    main(sys.argv[1])
