"""Cassandra, in PyFlink by Java classes. PyFlink: pyflink.datastream.connectors.cassandra."""

from flinkbuf.datastream.connectors.java_only import java_only

_INSTEAD = "a Sink of your own, or AsyncDataStream with its client"

CassandraSink = java_only("CassandraSink", _INSTEAD)
CassandraCommitter = java_only("CassandraCommitter", _INSTEAD)
CassandraFailureHandler = java_only("CassandraFailureHandler", _INSTEAD)
ClusterBuilder = java_only("ClusterBuilder", _INSTEAD)
ConsistencyLevel = java_only("ConsistencyLevel", _INSTEAD)
MapperOptions = java_only("MapperOptions", _INSTEAD)
