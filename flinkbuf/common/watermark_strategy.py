"""How a stream comes to event time. PyFlink: common/watermark_strategy.py."""

from flinkbuf.streaming.time.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = ["AssignerWithPeriodicWatermarksWrapper", "TimestampAssigner", "WatermarkStrategy"]


class AssignerWithPeriodicWatermarksWrapper:
    """Wraps a Java object in PyFlink; here there is nothing to wrap."""

    def __init__(self, *arguments: object) -> None:
        raise NotImplementedError(
            "there is no JVM whose assigner could be wrapped: write a TimestampAssigner, and give a generator of your "
            "own to WatermarkStrategy.for_generator"
        )
