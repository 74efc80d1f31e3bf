"""What a record is: type information, schemas, inference, rows and other values."""

from flinkbuf.lazy_names import lazy_names

_MODULE_OF, __all__, __getattr__, __dir__ = lazy_names(  # __init__.pyi has the types
    globals(),
    {
        "flinkbuf.types.types": "TypeInformation row_data_type",
        "flinkbuf.types.values": (
            "Instant InternalWatermark JavaDate LatencyMarker Left LocalDate LocalDateTime LocalTime RecordAttributes "
            "Right RowKind SqlDate SqlTime SqlTimestamp StreamRecord Watermark WatermarkStatus"
        ),
    },
)
