"""The name of a side output. Flink: OutputTag."""

from flinkbuf.streaming.chain.output_tag import OutputTag as OutputTag
