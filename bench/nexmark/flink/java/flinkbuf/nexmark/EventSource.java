package flinkbuf.nexmark;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;

import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.RowData;

/** The events as a bounded source with one split for each subtask. It takes no part in checkpoints. */
final class EventSource implements Source<RowData, EventSource.Split, Integer> {

    /** So many events are handed on before the task looks at anything else. */
    private static final int BATCH = 64;

    private final long events;
    private final long rate;
    private final long seed;

    EventSource(long events, long rate, long seed) {
        this.events = events;
        this.rate = rate;
        this.seed = seed;
    }

    record Split(int index, int splitCount) implements SourceSplit, Serializable {
        @Override
        public String splitId() {
            return Integer.toString(index);
        }
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SplitEnumerator<Split, Integer> createEnumerator(SplitEnumeratorContext<Split> context) {
        return new Enumerator(context);
    }

    @Override
    public SplitEnumerator<Split, Integer> restoreEnumerator(SplitEnumeratorContext<Split> context, Integer state) {
        throw notRestored();
    }

    @Override
    public SourceReader<RowData, Split> createReader(SourceReaderContext context) {
        return new Reader(context);
    }

    @Override
    public SimpleVersionedSerializer<Split> getSplitSerializer() {
        return new Serializer<>() {
            @Override
            public byte[] serialize(Split split) {
                return ByteBuffer.allocate(8).putInt(split.index()).putInt(split.splitCount()).array();
            }

            @Override
            public Split deserialize(int version, byte[] bytes) {
                ByteBuffer buffer = ByteBuffer.wrap(bytes);
                return new Split(buffer.getInt(), buffer.getInt());
            }
        };
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new Serializer<>() {
            @Override
            public byte[] serialize(Integer state) {
                return new byte[0];
            }

            @Override
            public Integer deserialize(int version, byte[] bytes) {
                return 0;
            }
        };
    }

    private static UnsupportedOperationException notRestored() {
        return new UnsupportedOperationException("the events of this source begin anew; run it without restarts");
    }

    private abstract static class Serializer<T> implements SimpleVersionedSerializer<T> {
        @Override
        public int getVersion() {
            return 1;
        }
    }

    /** Gives each subtask the split of its number. */
    private record Enumerator(SplitEnumeratorContext<Split> context) implements SplitEnumerator<Split, Integer> {
        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Split> splits, int subtask) {
            throw notRestored();
        }

        @Override
        public void addReader(int subtask) {
            context.assignSplit(new Split(subtask, context.currentParallelism()), subtask);
            context.signalNoMoreSplits(subtask);
        }

        @Override
        public Integer snapshotState(long checkpoint) {
            return 0;
        }

        @Override
        public void close() {}
    }

    private final class Reader implements SourceReader<RowData, Split> {
        private final SourceReaderContext context;
        private final CompletableFuture<Void> hasSplit = new CompletableFuture<>();
        private final Queue<Events> waiting = new ArrayDeque<>();
        private Events current;

        Reader(SourceReaderContext context) {
            this.context = context;
        }

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<RowData> output) {
            if (current == null) {
                current = waiting.poll();
                if (current == null) {
                    return hasSplit.isDone() ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
                }
            }
            for (int count = 0; count < BATCH && current.hasNext(); count++) {
                output.collect(current.next());
            }
            if (current.hasNext()) {
                return InputStatus.MORE_AVAILABLE;
            }
            current = null;
            return InputStatus.MORE_AVAILABLE;
        }

        @Override
        public List<Split> snapshotState(long checkpoint) {
            return List.of();
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return hasSplit;
        }

        @Override
        public void addSplits(List<Split> splits) {
            for (Split split : splits) {
                waiting.add(new Events(split.index(), split.splitCount(), events, rate, seed));
            }
        }

        @Override
        public void notifyNoMoreSplits() {
            hasSplit.complete(null);
        }

        @Override
        public void close() {}
    }
}
