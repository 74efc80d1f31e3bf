package flinkbuf.interop;

import java.io.IOException;
import java.util.concurrent.TimeUnit;

import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.io.network.api.CancelCheckpointMarker;
import org.apache.flink.runtime.io.network.api.CheckpointBarrier;
import org.apache.flink.runtime.io.network.api.StopMode;
import org.apache.flink.runtime.io.network.api.writer.ChannelSelector;
import org.apache.flink.runtime.io.network.api.writer.RecordWriter;
import org.apache.flink.runtime.io.network.api.writer.RecordWriterBuilder;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.plugable.SerializationDelegate;
import org.apache.flink.runtime.state.CheckpointStorageLocationReference;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** A task that writes a partition, step by step. Record n goes to subpartition n mod count. */
final class Writer implements AutoCloseable {

    private final ResultPartition partition;
    private final Records records;
    private final SerializationDelegate<Object> delegate;
    private final RecordWriter<SerializationDelegate<Object>> writer;
    private long next;

    Writer(ResultPartition partition, Records records, long flushTimeout) {
        this.partition = partition;
        this.records = records;
        delegate = new SerializationDelegate<>(records.serializer());
        writer = new RecordWriterBuilder<SerializationDelegate<Object>>()
                .setChannelSelector(new ByNumber())
                .setTimeout(flushTimeout)
                .setTaskName("writer")
                .build(partition);
    }

    void run(JsonNode step) throws Exception {
        String kind = step.get("step").asText();
        switch (kind) {
            case "records" -> emit(step.get("count").asLong(), step.get("sizes"), false);
            case "broadcast" -> emit(step.get("count").asLong(), step.get("sizes"), true);
            case "barrier" -> writer.broadcastEvent(barrier(step), step.get("priority").asBoolean());
            case "barrier_timeout" -> writer.alignedBarrierTimeout(step.get("checkpoint").asLong());
            case "cancel_checkpoint" ->
                writer.broadcastEvent(new CancelCheckpointMarker(step.get("checkpoint").asLong()));
            case "flush" -> writer.flushAll();
            case "sleep" -> Thread.sleep(step.get("ms").asLong());
            case "end_of_data" -> partition.notifyEndOfData(StopMode.valueOf(step.get("mode").asText()));
            case "await_processed" ->
                partition.getAllDataProcessedFuture().get(step.get("ms").asLong(), TimeUnit.MILLISECONDS);
            case "finish" -> partition.finish();
            case "fail" -> partition.fail(new IllegalStateException(step.get("message").asText()));
            default -> throw new IllegalArgumentException("no step " + kind);
        }
    }

    private void emit(long count, JsonNode sizes, boolean broadcasts) throws IOException {
        for (long end = next + count; next < end; next++) {
            delegate.setInstance(records.make(next, sizes.get((int) (next % sizes.size())).asInt()));
            if (broadcasts) {
                writer.broadcastEmit(delegate);
            } else {
                writer.emit(delegate);
            }
        }
    }

    private static CheckpointBarrier barrier(JsonNode step) {
        CheckpointStorageLocationReference place = CheckpointStorageLocationReference.getDefault();
        CheckpointOptions options = switch (step.get("alignment").asText()) {
            case "ALIGNED" -> step.get("timeout_ms").isNull()
                    ? CheckpointOptions.alignedNoTimeout(CheckpointType.CHECKPOINT, place)
                    : CheckpointOptions.alignedWithTimeout(
                            CheckpointType.CHECKPOINT, place, step.get("timeout_ms").asLong());
            case "UNALIGNED" -> CheckpointOptions.unaligned(CheckpointType.CHECKPOINT, place);
            case "AT_LEAST_ONCE" -> CheckpointOptions.notExactlyOnce(CheckpointType.CHECKPOINT, place);
            default -> throw new IllegalArgumentException("no alignment " + step.get("alignment"));
        };
        return new CheckpointBarrier(step.get("checkpoint").asLong(), step.get("timestamp").asLong(), options);
    }

    @Override
    public void close() {
        writer.close();
        partition.close();
    }

    private final class ByNumber implements ChannelSelector<SerializationDelegate<Object>> {
        private int subpartitions;

        @Override
        public void setup(int subpartitions) {
            this.subpartitions = subpartitions;
        }

        @Override
        public int selectChannel(SerializationDelegate<Object> record) {
            return (int) (next % subpartitions);
        }

        @Override
        public boolean isBroadcast() {
            return false;
        }
    }
}
