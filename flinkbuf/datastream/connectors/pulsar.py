"""Pulsar, in PyFlink by Java classes. PyFlink: pyflink.datastream.connectors.pulsar."""

from flinkbuf.datastream.connectors.base import DeliveryGuarantee
from flinkbuf.datastream.connectors.java_only import java_only

__all__ = [
    "DeliveryGuarantee",
    "MessageDelayer",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "SubscriptionType",
    "TopicRoutingMode",
]

_INSTEAD = "a Source or a Sink of your own"

PulsarSource = java_only("PulsarSource", _INSTEAD)
PulsarSourceBuilder = java_only("PulsarSourceBuilder", _INSTEAD)
PulsarSink = java_only("PulsarSink", _INSTEAD)
PulsarSinkBuilder = java_only("PulsarSinkBuilder", _INSTEAD)
StartCursor = java_only("StartCursor", _INSTEAD)
StopCursor = java_only("StopCursor", _INSTEAD)
RangeGenerator = java_only("RangeGenerator", _INSTEAD)
MessageDelayer = java_only("MessageDelayer", _INSTEAD)
SubscriptionType = java_only("SubscriptionType", _INSTEAD)
TopicRoutingMode = java_only("TopicRoutingMode", _INSTEAD)
