"""What tells a function the time and sets its timers. Flink: TimerService."""

from flinkbuf.streaming.state.timers import TimerService as TimerService
