"""What `__init__.py` gives lazily, for type checkers."""

from flinkbuf.common.completable_future import CompletableFuture as CompletableFuture
from flinkbuf.common.config_options import ConfigOption as ConfigOption
from flinkbuf.common.config_options import ConfigOptions as ConfigOptions
from flinkbuf.common.configuration import Configuration as Configuration
from flinkbuf.common.execution_config import ExecutionConfig as ExecutionConfig
from flinkbuf.common.input_dependency_constraint import InputDependencyConstraint as InputDependencyConstraint
from flinkbuf.common.job_client import JobClient as JobClient
from flinkbuf.common.job_execution_result import JobExecutionResult as JobExecutionResult
from flinkbuf.common.job_id import JobID as JobID
from flinkbuf.common.job_status import JobStatus as JobStatus
from flinkbuf.common.restart_strategy import RestartStrategies as RestartStrategies
from flinkbuf.common.restart_strategy import RestartStrategyConfiguration as RestartStrategyConfiguration
from flinkbuf.common.serialization import ByteArraySchema as ByteArraySchema
from flinkbuf.common.serialization import DeserializationSchema as DeserializationSchema
from flinkbuf.common.serialization import Encoder as Encoder
from flinkbuf.common.serialization import RowFieldExtractorSchema as RowFieldExtractorSchema
from flinkbuf.common.serialization import SerializationSchema as SerializationSchema
from flinkbuf.common.serialization import SimpleStringSchema as SimpleStringSchema
from flinkbuf.common.serializer import TypeSerializer as TypeSerializer
from flinkbuf.common.time import Duration as Duration
from flinkbuf.common.time import Instant as Instant
from flinkbuf.common.time import Time as Time
from flinkbuf.common.typeinfo import TypeInformation as TypeInformation
from flinkbuf.common.typeinfo import Types as Types
from flinkbuf.common.types import Row as Row
from flinkbuf.common.types import RowKind as RowKind
from flinkbuf.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper as AssignerWithPeriodicWatermarksWrapper,
)
from flinkbuf.common.watermark_strategy import WatermarkStrategy as WatermarkStrategy

__all__: list[str]
