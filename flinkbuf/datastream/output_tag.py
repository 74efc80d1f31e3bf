"""The name of a side output. Flink: OutputTag."""

from flinkbuf.streaming.output_tag import OutputTag as OutputTag
