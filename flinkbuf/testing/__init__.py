"""Tests of streaming programs without a cluster: one operator with records, watermarks and a clock that one sets."""

from flinkbuf.testing.manual_clock import ManualClock
from flinkbuf.testing.operator_harness import OperatorHarness

__all__ = ["ManualClock", "OperatorHarness"]
