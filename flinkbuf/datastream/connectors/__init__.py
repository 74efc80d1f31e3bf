"""Sources and sinks. PyFlink: pyflink.datastream.connectors."""

from flinkbuf.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
