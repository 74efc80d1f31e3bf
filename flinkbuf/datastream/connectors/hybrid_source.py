"""Sources after each other, in PyFlink by Java classes. PyFlink: pyflink.datastream.connectors.hybrid_source."""

from flinkbuf.datastream.connectors.java_only import java_only

_INSTEAD = "a union of both sources, or one job after the other from a savepoint"

HybridSource = java_only("HybridSource", _INSTEAD)
HybridSourceBuilder = java_only("HybridSourceBuilder", _INSTEAD)
