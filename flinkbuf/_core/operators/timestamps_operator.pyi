from typing import Any

from flinkbuf._core.operators.stream_operator import Output, StreamOperator
from flinkbuf._core.operators.watermark_generator import WatermarkOutput

class WatermarkEmitter(WatermarkOutput):
    def __init__(self, output: Output) -> None: ...

class TimestampsAndWatermarksOperator(StreamOperator):
    def __init__(self, strategy: Any) -> None: ...
    def on_periodic_emit(self, timestamp_ms: int) -> None: ...
