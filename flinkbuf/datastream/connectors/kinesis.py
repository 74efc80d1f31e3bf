"""Kinesis, in PyFlink by Java classes. PyFlink: pyflink.datastream.connectors.kinesis."""

from flinkbuf.datastream.connectors.java_only import java_only

_INSTEAD = "a Source or a Sink of your own"

FlinkKinesisConsumer = java_only("FlinkKinesisConsumer", _INSTEAD)
KinesisShardAssigner = java_only("KinesisShardAssigner", _INSTEAD)
KinesisDeserializationSchema = java_only("KinesisDeserializationSchema", _INSTEAD)
WatermarkTracker = java_only("WatermarkTracker", _INSTEAD)
PartitionKeyGenerator = java_only("PartitionKeyGenerator", _INSTEAD)
KinesisStreamsSink = java_only("KinesisStreamsSink", _INSTEAD)
KinesisStreamsSinkBuilder = java_only("KinesisStreamsSinkBuilder", _INSTEAD)
KinesisFirehoseSink = java_only("KinesisFirehoseSink", _INSTEAD)
KinesisFirehoseSinkBuilder = java_only("KinesisFirehoseSinkBuilder", _INSTEAD)
