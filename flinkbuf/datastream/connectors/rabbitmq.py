"""RabbitMQ, in PyFlink by Java classes. PyFlink: pyflink.datastream.connectors.rabbitmq."""

from flinkbuf.datastream.connectors.java_only import java_only

_INSTEAD = "a Source or a Sink of your own"

RMQConnectionConfig = java_only("RMQConnectionConfig", _INSTEAD)
RMQSource = java_only("RMQSource", _INSTEAD)
RMQSink = java_only("RMQSink", _INSTEAD)
