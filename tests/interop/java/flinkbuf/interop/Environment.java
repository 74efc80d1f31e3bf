package flinkbuf.interop;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.runtime.clusterframework.types.ResourceID;
import org.apache.flink.runtime.deployment.InputGateDeploymentDescriptor;
import org.apache.flink.runtime.deployment.ResultPartitionDeploymentDescriptor;
import org.apache.flink.runtime.deployment.TaskDeploymentDescriptorFactory.ShuffleDescriptorAndIndex;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.io.network.NettyShuffleEnvironment;
import org.apache.flink.runtime.io.network.NettyShuffleServiceFactory;
import org.apache.flink.runtime.io.network.TaskEventDispatcher;
import org.apache.flink.runtime.io.network.partition.ChannelStateHolder;
import org.apache.flink.runtime.io.network.partition.PartitionProducerStateProvider;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.ResultPartitionType;
import org.apache.flink.runtime.io.network.partition.consumer.InputChannel;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.jobgraph.IntermediateDataSetID;
import org.apache.flink.runtime.jobgraph.IntermediateResultPartitionID;
import org.apache.flink.runtime.metrics.groups.UnregisteredMetricGroups;
import org.apache.flink.runtime.shuffle.NettyShuffleDescriptor;
import org.apache.flink.runtime.shuffle.NettyShuffleDescriptor.NetworkPartitionConnectionInfo;
import org.apache.flink.runtime.shuffle.PartitionDescriptor;
import org.apache.flink.runtime.shuffle.ShuffleEnvironmentContext;
import org.apache.flink.runtime.shuffle.ShuffleIOOwnerContext;
import org.apache.flink.shaded.netty4.io.netty.buffer.ByteBuf;
import org.apache.flink.shaded.netty4.io.netty.buffer.Unpooled;
import org.apache.flink.types.Either;
import org.apache.flink.util.FileUtils;
import org.apache.flink.util.concurrent.ScheduledExecutorServiceAdapter;

/** The network of one TaskManager, made by the factory that a TaskManager uses, and what tests do with it. */
final class Environment {

    /** Where a producer is: its data port and the name of its partition. */
    record Producer(String host, int port, ResultPartitionID partition) {}

    private static final int SLOTS = 2;
    private static final int MAX_PARALLELISM = 32768;

    private final ResourceID resource = ResourceID.generate();
    private final ExecutorService ioExecutor = Executors.newCachedThreadPool();
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    private final Map<ResultPartitionID, ResultPartition> partitions = new ConcurrentHashMap<>();
    private final Set<SingleInputGate> gates = ConcurrentHashMap.newKeySet();
    private final Path folder;
    private final NettyShuffleEnvironment network;
    private final int port;

    Environment(Map<String, String> options, long memorySize) throws IOException {
        folder = Files.createTempDirectory("network");
        Configuration configuration = Configuration.fromMap(options);
        configuration.set(CoreOptions.TMP_DIRS, folder.toString());
        network = new NettyShuffleServiceFactory().createShuffleEnvironment(
                new ShuffleEnvironmentContext(
                        configuration,
                        resource,
                        new MemorySize(memorySize),
                        false,
                        InetAddress.getLoopbackAddress(),
                        SLOTS,
                        new String[] {folder.toString()},
                        new TaskEventDispatcher(),
                        UnregisteredMetricGroups.createUnregisteredTaskManagerMetricGroup(),
                        ioExecutor,
                        new ScheduledExecutorServiceAdapter(timer)));
        port = network.start();
    }

    int port() {
        return port;
    }

    String[] temporaryFolders() {
        return new String[] {folder.toString()};
    }

    /** Reads the 60 bytes in which a PartitionRequest names a partition. */
    static ResultPartitionID partitionId(String hex) {
        ByteBuf bytes = Unpooled.wrappedBuffer(HexFormat.of().parseHex(hex));
        return new ResultPartitionID(
                IntermediateResultPartitionID.fromByteBuf(bytes), ExecutionAttemptID.fromByteBuf(bytes));
    }

    private ShuffleIOOwnerContext owner(String task, ExecutionAttemptID attempt) {
        return network.createShuffleIOOwnerContext(
                task, attempt, UnregisteredMetricGroups.createUnregisteredTaskMetricGroup());
    }

    private static NettyShuffleDescriptor descriptor(ResourceID location, Producer producer) {
        return new NettyShuffleDescriptor(
                location,
                new NetworkPartitionConnectionInfo(new InetSocketAddress(producer.host(), producer.port()), 0),
                producer.partition());
    }

    /** Creates and registers a partition, as a task does before it runs. */
    ResultPartition createPartition(ResultPartitionID id, ResultPartitionType type, int subpartitions)
            throws IOException {
        IntermediateResultPartitionID name = id.getPartitionId();
        PartitionDescriptor partition = new PartitionDescriptor(
                name.getIntermediateDataSetID(), 1, name, type, subpartitions, 0, false, false, true);
        ResultPartitionDeploymentDescriptor deployment = new ResultPartitionDeploymentDescriptor(
                partition, descriptor(resource, new Producer("127.0.0.1", port, id)), MAX_PARALLELISM);
        ResultPartition created = network.createResultPartitionWriters(
                owner("producer", id.getProducerId()), List.of(deployment)).get(0);
        if (created instanceof ChannelStateHolder holder) {
            holder.setChannelStateWriter(new DroppedState());
        }
        created.setup();
        partitions.put(id, created);
        return created;
    }

    ResultPartition partition(ResultPartitionID id) {
        ResultPartition partition = partitions.get(id);
        if (partition == null) {
            throw new IllegalArgumentException("no partition " + id + " was created here");
        }
        return partition;
    }

    /** Opens a gate with one channel for each producer, as a task does on its way to RUNNING. */
    SingleInputGate openGate(List<Producer> producers, ResultPartitionType type, int subpartition)
            throws Exception {
        IntermediateDataSetID dataSet = producers.get(0).partition().getPartitionId().getIntermediateDataSetID();
        List<ShuffleDescriptorAndIndex> descriptors = new ArrayList<>();
        for (Producer producer : producers) {
            descriptors.add(new ShuffleDescriptorAndIndex(
                    descriptor(ResourceID.generate(), producer), descriptors.size()));
        }
        return openGates(List.of(new InputGateDeploymentDescriptor(
                dataSet, type, subpartition, descriptors.toArray(new ShuffleDescriptorAndIndex[0])))).get(0);
    }

    /** Opens the gates of one task, one for each subpartition of one producer. */
    List<SingleInputGate> openGates(Producer producer, ResultPartitionType type, int subpartitions) throws Exception {
        List<InputGateDeploymentDescriptor> deployments = new ArrayList<>();
        ResourceID location = ResourceID.generate();
        for (int subpartition = 0; subpartition < subpartitions; subpartition++) {
            deployments.add(new InputGateDeploymentDescriptor(
                    producer.partition().getPartitionId().getIntermediateDataSetID(),
                    type,
                    subpartition,
                    new ShuffleDescriptorAndIndex[] {
                        new ShuffleDescriptorAndIndex(descriptor(location, producer), 0)
                    }));
        }
        return openGates(deployments);
    }

    private List<SingleInputGate> openGates(List<InputGateDeploymentDescriptor> deployments) throws Exception {
        List<SingleInputGate> opened = network.createInputGates(
                owner("consumer", ExecutionAttemptID.randomId()), new RunningProducers(), deployments);
        for (SingleInputGate gate : opened) {
            gates.add(gate);
            for (InputChannel channel : gate.inputChannels()) {
                if (channel instanceof ChannelStateHolder holder) {
                    holder.setChannelStateWriter(new DroppedState());
                }
            }
            gate.setup();
            gate.finishReadRecoveredState();
            while (!gate.getStateConsumedFuture().isDone()) {
                gate.pollNext();
            }
            gate.requestPartitions();
        }
        return opened;
    }

    void closeGate(SingleInputGate gate) throws IOException {
        gate.close();
        gates.remove(gate);
    }

    void releasePartitions(Collection<ResultPartitionID> ids) {
        network.releasePartitionsLocally(ids);
    }

    /** Segments that somebody still holds after all gates and partitions are closed. */
    int releaseAll() throws Exception {
        for (SingleInputGate gate : gates) {
            gate.close();
        }
        for (ResultPartition partition : partitions.values()) {
            partition.close();
        }
        network.releasePartitionsLocally(partitions.keySet());
        long deadline = System.nanoTime() + 10_000_000_000L;
        while (network.getNetworkBufferPool().getNumberOfUsedMemorySegments() > 0 && System.nanoTime() < deadline) {
            Thread.sleep(5);
        }
        return network.getNetworkBufferPool().getNumberOfUsedMemorySegments();
    }

    void close() throws Exception {
        network.close();
        ioExecutor.shutdownNow();
        timer.shutdownNow();
        FileUtils.deleteDirectory(folder.toFile());
    }

    /** What a job master answers about a producer that runs: a partition that is not there yet is asked for again. */
    private static final class RunningProducers implements PartitionProducerStateProvider {
        @Override
        public void requestPartitionProducerState(
                IntermediateDataSetID dataSet, ResultPartitionID partition, Consumer<? super ResponseHandle> consumer) {
            consumer.accept(new ResponseHandle() {
                @Override
                public ExecutionState getConsumerExecutionState() {
                    return ExecutionState.RUNNING;
                }

                @Override
                public Either<ExecutionState, Throwable> getProducerExecutionState() {
                    return Either.Left(ExecutionState.RUNNING);
                }

                @Override
                public void cancelConsumption() {
                    throw new IllegalStateException("a consumer of a running producer was cancelled");
                }

                @Override
                public void failConsumption(Throwable cause) {
                    throw new IllegalStateException("a consumer of a running producer failed", cause);
                }
            });
        }
    }
}
