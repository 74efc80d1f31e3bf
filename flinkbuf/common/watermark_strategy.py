"""How a stream comes to event time. PyFlink: common/watermark_strategy.py."""

from flinkbuf.streaming.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = ["TimestampAssigner", "WatermarkStrategy"]
