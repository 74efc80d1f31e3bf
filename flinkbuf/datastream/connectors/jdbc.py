"""JDBC, in PyFlink by Java classes. PyFlink: pyflink.datastream.connectors.jdbc."""

from flinkbuf.datastream.connectors.java_only import java_only

_INSTEAD = "PostgresSink of flinkbuf.datastream.connectors.postgres, or a Sink of your own"

JdbcSink = java_only("JdbcSink", _INSTEAD)
JdbcConnectionOptions = java_only("JdbcConnectionOptions", _INSTEAD)
JdbcExecutionOptions = java_only("JdbcExecutionOptions", _INSTEAD)
