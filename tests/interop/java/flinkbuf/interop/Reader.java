package flinkbuf.interop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

import org.apache.flink.runtime.checkpoint.channel.InputChannelInfo;
import org.apache.flink.runtime.event.AbstractEvent;
import org.apache.flink.runtime.io.network.api.CheckpointBarrier;
import org.apache.flink.runtime.io.network.api.EndOfData;
import org.apache.flink.runtime.io.network.api.EndOfPartitionEvent;
import org.apache.flink.runtime.io.network.api.serialization.RecordDeserializer;
import org.apache.flink.runtime.io.network.api.serialization.RecordDeserializer.DeserializationResult;
import org.apache.flink.runtime.io.network.api.serialization.SpillingAdaptiveSpanningRecordDeserializer;
import org.apache.flink.runtime.io.network.partition.consumer.BufferOrEvent;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.plugable.DeserializationDelegate;
import org.apache.flink.runtime.plugable.NonReusingDeserializationDelegate;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;

/** A task that reads a gate: records joined from buffers, aligned barriers aligned, ends acknowledged. */
final class Reader {

    /** Ends early after `limit` records; sleeps `pauseMillis` after every `pauseEvery` records. */
    record Pace(long limit, long pauseEvery, long pauseMillis) {}

    private final SingleInputGate gate;
    private final Records records;
    private final Pace pace;
    private final DeserializationDelegate<Object> delegate;
    private final List<RecordDeserializer<DeserializationDelegate<Object>>> deserializers = new ArrayList<>();
    private final List<Digest> digests = new ArrayList<>();
    private final Set<InputChannelInfo> blocked = new LinkedHashSet<>();
    private int unfinished;
    private long count;

    Reader(SingleInputGate gate, Records records, Pace pace, String[] temporaryFolders) {
        this.gate = gate;
        this.records = records;
        this.pace = pace;
        delegate = new NonReusingDeserializationDelegate<>(records.serializer());
        unfinished = gate.getNumberOfInputChannels();
        for (int channel = 0; channel < unfinished; channel++) {
            deserializers.add(new SpillingAdaptiveSpanningRecordDeserializer<>(temporaryFolders));
            digests.add(new Digest());
        }
    }

    /** Reads to the end of all channels, or to the limit. */
    ArrayNode run() throws Exception {
        while (count < pace.limit()) {
            Optional<BufferOrEvent> next = gate.getNext();
            if (next.isEmpty()) {
                break;
            }
            InputChannelInfo channel = next.get().getChannelInfo();
            if (next.get().isBuffer()) {
                read(next.get(), channel);
            } else {
                handle(next.get().getEvent(), channel);
            }
        }
        ArrayNode json = JsonNodeFactory.instance.arrayNode();
        digests.forEach(digest -> json.add(digest.toJson()));
        deserializers.forEach(RecordDeserializer::clear);
        return json;
    }

    private void read(BufferOrEvent item, InputChannelInfo channel) throws Exception {
        RecordDeserializer<DeserializationDelegate<Object>> deserializer =
                deserializers.get(channel.getInputChannelIdx());
        DeserializationResult result;

        if (blocked.contains(channel)) {
            throw new IllegalStateException("data on a channel that a barrier blocks: " + channel);
        }
        deserializer.setNextBuffer(item.getBuffer());
        do {
            result = deserializer.getNextRecord(delegate);
            if (result.isFullRecord()) {
                digests.get(channel.getInputChannelIdx()).add(records.canonical(delegate.getInstance()));
                count++;
                if (count % pace.pauseEvery() == 0) {
                    Thread.sleep(pace.pauseMillis());
                }
            }
        } while (!result.isBufferConsumed() && count < pace.limit());
    }

    private void handle(AbstractEvent event, InputChannelInfo channel) throws IOException {
        digests.get(channel.getInputChannelIdx()).add(event);
        if (event instanceof CheckpointBarrier barrier && barrier.getCheckpointOptions().needsAlignment()) {
            blocked.add(channel);
        } else if (event instanceof EndOfData) {
            gate.acknowledgeAllRecordsProcessed(channel);
        } else if (event instanceof EndOfPartitionEvent) {
            unfinished--;
        }
        if (!blocked.isEmpty() && blocked.size() >= unfinished) {
            for (InputChannelInfo waiting : blocked) {
                gate.resumeConsumption(waiting);
            }
            blocked.clear();
        }
    }
}
