"""What programs of all kinds need: settings, types, times, the client of a job. PyFlink: pyflink.common."""

from flinkbuf.lazy_names import bring

# Where each name lives; a name brings its module when it is first used, so that a program loads what it needs.
_NAMES = {
    "completable_future": "CompletableFuture",
    "config_options": "ConfigOption ConfigOptions",
    "configuration": "Configuration",
    "execution_config": "ExecutionConfig",
    "input_dependency_constraint": "InputDependencyConstraint",
    "job_client": "JobClient",
    "job_execution_result": "JobExecutionResult",
    "job_id": "JobID",
    "job_status": "JobStatus",
    "restart_strategy": "RestartStrategies RestartStrategyConfiguration",
    "serialization": (
        "ByteArraySchema DeserializationSchema Encoder RowFieldExtractorSchema SerializationSchema SimpleStringSchema"
    ),
    "serializer": "TypeSerializer",
    "time": "Duration Instant Time",
    "typeinfo": "TypeInformation Types",
    "types": "Row RowKind",
    "watermark_strategy": "AssignerWithPeriodicWatermarksWrapper WatermarkStrategy",
}
_MODULE_OF = {name: f"flinkbuf.common.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    """Bring a name at its first use (PEP 562)."""
    return bring(globals(), _MODULE_OF, name)


def __dir__() -> list[str]:
    """What is there, and what would come."""
    return sorted({*globals(), *__all__})
