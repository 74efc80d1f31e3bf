"""Names of PyFlink's connectors behind which are Java classes: programs import them here, and are told what to use."""

from __future__ import annotations

from typing import Any, NoReturn


def java_only(name: str, instead: str) -> Any:
    """Return a class that can be imported and named; whoever makes one, or calls a method of it, learns what to use.

    Examples
    --------
    >>> RMQSource = java_only("RMQSource", "a Source of your own")
    >>> RMQSource()
    Traceback (most recent call last):
    NotImplementedError: RMQSource is a Java class, and there is no JVM here: use a Source of your own
    """

    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"{name} is a Java class, and there is no JVM here: use {instead}")

    class Refusing(type):
        def __getattr__(cls, method: str) -> object:
            if method.startswith("_"):
                raise AttributeError(f"type object {name!r} has no attribute {method!r}")
            return refuse

    return Refusing(name, (), {"__new__": refuse, "__doc__": f"A Java class of PyFlink; use {instead}."})


FlinkKafkaConsumer = java_only("FlinkKafkaConsumer", "a KafkaSource")
FlinkKafkaProducer = java_only("FlinkKafkaProducer", "a KafkaSink")
Semantic = java_only("Semantic", "a DeliveryGuarantee")
StreamingFileSink = java_only("StreamingFileSink", "a FileSink")
