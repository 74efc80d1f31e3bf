package flinkbuf.interop;

import java.util.List;
import java.util.concurrent.CompletableFuture;

import org.apache.flink.runtime.checkpoint.channel.ChannelStateWriter.NoOpChannelStateWriter;
import org.apache.flink.runtime.checkpoint.channel.InputChannelInfo;
import org.apache.flink.runtime.checkpoint.channel.ResultSubpartitionInfo;
import org.apache.flink.runtime.io.network.buffer.Buffer;
import org.apache.flink.util.CloseableIterator;

/** Where unaligned checkpoints put buffers that barriers have overtaken: nowhere, but back to their pool. */
final class DroppedState extends NoOpChannelStateWriter {

    @Override
    public void addInputData(
            long checkpoint, InputChannelInfo channel, int sequenceNumber, CloseableIterator<Buffer> buffers) {
        try {
            buffers.close();
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public void addOutputData(
            long checkpoint, ResultSubpartitionInfo subpartition, int sequenceNumber, Buffer... buffers) {
        for (Buffer buffer : buffers) {
            buffer.recycleBuffer();
        }
    }

    @Override
    public void addOutputDataFuture(
            long checkpoint,
            ResultSubpartitionInfo subpartition,
            int sequenceNumber,
            CompletableFuture<List<Buffer>> buffers) {
        buffers.thenAccept(taken -> taken.forEach(Buffer::recycleBuffer));
    }
}
