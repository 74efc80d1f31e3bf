package flinkbuf.interop;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.apache.flink.core.io.IOReadableWritable;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.io.network.api.reader.MutableRecordReader;
import org.apache.flink.runtime.io.network.api.writer.RecordWriter;
import org.apache.flink.runtime.io.network.api.writer.RecordWriterBuilder;
import org.apache.flink.runtime.io.network.api.writer.RoundRobinChannelSelector;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.ResultPartitionType;
import org.apache.flink.runtime.io.network.partition.consumer.InputGate;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.io.network.partition.consumer.UnionInputGate;
import org.apache.flink.runtime.jobgraph.IntermediateDataSetID;
import org.apache.flink.runtime.jobgraph.IntermediateResultPartitionID;
import org.apache.flink.types.LongValue;

/**
 * How fast do records go from one network of Flink to another over loopback? For bench/bench_network.py.
 *
 * <p>The shape is that of StreamNetworkThroughputBenchmark in flink-benchmarks: a writer thread, a reader thread, two
 * networks in one JVM, a gate for each channel under one union. Arguments: int64 or bytes_100, channels, records,
 * repeats. Prints the seconds of each repeat, set-up left out, after as many repeats that only warm the JVM up.
 */
final class Throughput {

    private static final long MEMORY = 512L * 1024 * 1024;
    private static final long FLUSH_MILLIS = 100;

    /** 100 bytes with their length, as Flink's serializer of byte arrays writes them. */
    public static final class Blob implements IOReadableWritable {
        private byte[] bytes = new byte[100];

        @Override
        public void write(DataOutputView out) throws IOException {
            out.writeInt(bytes.length);
            out.write(bytes);
        }

        @Override
        public void read(DataInputView in) throws IOException {
            bytes = new byte[in.readInt()];
            in.readFully(bytes);
        }
    }

    private final String kind;
    private final int channels;
    private final long records;
    private final Environment sender = new Environment(Map.of(), MEMORY);
    private final Environment receiver = new Environment(Map.of(), MEMORY);
    private final ExecutorService writers = Executors.newSingleThreadExecutor();

    private Throughput(String kind, int channels, long records) throws IOException {
        this.kind = kind;
        this.channels = channels;
        this.records = records;
    }

    public static void main(String[] arguments) throws Exception {
        Throughput benchmark = new Throughput(
                arguments[0], Integer.parseInt(arguments[1]), Long.parseLong(arguments[2]));
        int repeats = Integer.parseInt(arguments[3]);

        for (int i = 0; i < repeats; i++) {
            benchmark.run();
        }
        for (int i = 0; i < repeats; i++) {
            System.out.println(benchmark.run());
        }
        System.exit(0);
    }

    private IOReadableWritable record() {
        return kind.equals("int64") ? new LongValue() : new Blob();
    }

    /** Seconds from the first record to the last. */
    private double run() throws Exception {
        ResultPartitionID id = new ResultPartitionID(
                new IntermediateResultPartitionID(new IntermediateDataSetID(), 0), ExecutionAttemptID.randomId());
        ResultPartition partition = sender.createPartition(id, ResultPartitionType.PIPELINED_BOUNDED, channels);
        List<SingleInputGate> gates = receiver.openGates(
                new Environment.Producer("127.0.0.1", sender.port(), id),
                ResultPartitionType.PIPELINED_BOUNDED,
                channels);
        InputGate gate = channels == 1 ? gates.get(0) : new UnionInputGate(gates.toArray(new SingleInputGate[0]));
        long start = System.nanoTime();
        Future<Void> written = writers.submit((Callable<Void>) () -> write(partition));
        long count = read(gate);
        double seconds = (System.nanoTime() - start) * 1e-9;

        written.get();
        if (count != records) {
            throw new IllegalStateException(count + " records came of " + records);
        }
        for (SingleInputGate single : gates) {
            receiver.closeGate(single);
        }
        sender.releasePartitions(List.of(id));
        return seconds;
    }

    private Void write(ResultPartition partition) throws Exception {
        RecordWriter<IOReadableWritable> writer = new RecordWriterBuilder<IOReadableWritable>()
                .setChannelSelector(new RoundRobinChannelSelector<>())
                .setTimeout(FLUSH_MILLIS)
                .setTaskName("writer")
                .build(partition);
        IOReadableWritable record = record();
        for (long i = 0; i < records; i++) {
            if (record instanceof LongValue value) {
                value.setValue(i);
            }
            writer.emit(record);
        }
        partition.finish();
        writer.close();
        partition.close();
        return null;
    }

    private long read(InputGate gate) throws Exception {
        MutableRecordReader<IOReadableWritable> reader =
                new MutableRecordReader<>(gate, receiver.temporaryFolders());
        IOReadableWritable record = record();
        long count = 0;
        while (reader.next(record)) {
            count++;
        }
        reader.clearBuffers();
        return count;
    }
}
