"""What a record is: type information, schemas, inference, rows and other values."""

from flinkbuf.lazy_names import bring

_NAMES = {
    "flinkbuf.types.types": "TypeInformation row_data_type",
    "flinkbuf.types.values": (
        "Instant InternalWatermark JavaDate LatencyMarker Left LocalDate LocalDateTime LocalTime RecordAttributes "
        "Right RowKind SqlDate SqlTime SqlTimestamp StreamRecord Watermark WatermarkStatus"
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:  # __init__.pyi has the types
    """Bring a public name at its first use (PEP 562)."""
    return bring(globals(), _MODULE_OF, name)


def __dir__() -> list[str]:
    """Return what is there, and what would come."""
    return sorted({*globals(), *__all__})
