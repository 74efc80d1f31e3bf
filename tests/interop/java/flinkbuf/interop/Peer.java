package flinkbuf.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.ResultPartitionType;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * TaskManagers' networks, and whole clusters, on command: one JSON object a line on standard input, one answer with the same "id" each on
 * standard output. Commands run at the same time; the process ends with its input.
 */
public final class Peer {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, Environment> environments = new ConcurrentHashMap<>();
    private final Map<String, JobCluster> clusters = new ConcurrentHashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final PrintStream out;

    private Peer(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        // Whatever is logged goes elsewhere.
        System.setOut(System.err);
        Peer peer = new Peer(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            peer.threads.execute(() -> peer.answer(command));
        }
        System.exit(0);
    }

    private void answer(JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            run(command, answer);
        } catch (Throwable failure) {
            ArrayNode causes = answer.putArray("failure");
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                StackTraceElement[] trace = cause.getStackTrace();
                causes.add(cause.getClass().getName() + ": " + cause.getMessage()
                        + (trace.length > 0 ? " (" + trace[0] + ")" : ""));
            }
        }
        answer.set("id", command.get("id"));
        print(answer);
    }

    private synchronized void print(ObjectNode answer) {
        try {
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        } catch (JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private void run(JsonNode command, ObjectNode answer) throws Exception {
        String name = command.get("environment").asText();
        String verb = command.get("verb").asText();
        if (verb.startsWith("cluster-")) {
            runCluster(name, verb, command, answer);
            return;
        }
        if (verb.equals("open")) {
            Environment opened = new Environment(options(command), command.get("memory").asLong());
            environments.put(name, opened);
            answer.put("port", opened.port());
            return;
        }
        Environment environment = environments.get(name);
        switch (verb) {
            case "create" -> environment.createPartition(
                    Environment.partitionId(command.get("partition").asText()),
                    ResultPartitionType.valueOf(command.get("type").asText()),
                    command.get("subpartitions").asInt());
            case "write" -> write(environment, command);
            case "read" -> answer.set("gates", read(environment, command));
            case "release" -> environment.releasePartitions(
                    List.of(Environment.partitionId(command.get("partition").asText())));
            case "close" -> {
                environments.remove(name);
                answer.put("segments_out", environment.releaseAll());
                environment.close();
            }
            default -> throw new IllegalArgumentException("no command " + verb);
        }
    }

    private static Map<String, String> options(JsonNode command) {
        Map<String, String> options = new HashMap<>();
        command.get("options").fields().forEachRemaining(
                option -> options.put(option.getKey(), option.getValue().asText()));
        return options;
    }

    private void runCluster(String name, String verb, JsonNode command, ObjectNode answer) throws Exception {
        switch (verb) {
            case "cluster-start" -> {
                JobCluster started = new JobCluster(options(command), command.get("slots").asInt());
                clusters.put(name, started);
                answer.put("address", started.address());
                started.paths().forEach(answer.putArray("paths")::add);
            }
            case "cluster-run" -> answer.put("job", clusters.get(name).submit(new CountingJob(
                    command.get("name").asText(),
                    command.get("count").asLong(),
                    command.get("per_second").asDouble(),
                    command.get("failures").asInt(),
                    options(command))).toHexString());
            default -> throw new IllegalArgumentException("no command " + verb);
        }
    }

    private static void write(Environment environment, JsonNode command) throws Exception {
        ResultPartitionID id = Environment.partitionId(command.get("partition").asText());
        Records records = Records.of(command.get("records").asText());
        ResultPartition partition = environment.partition(id);
        try (Writer writer = new Writer(partition, records, command.get("flush_ms").asLong())) {
            for (JsonNode step : command.get("steps")) {
                writer.run(step);
            }
        } catch (Throwable failure) {
            // As for any task that fails: its readers are told.
            partition.fail(failure);
            throw failure;
        }
    }

    /** Each gate is read by a thread of its own, as each would belong to a task of its own. */
    private ArrayNode read(Environment environment, JsonNode command) throws Exception {
        List<Future<ArrayNode>> futures = new ArrayList<>();
        for (JsonNode gate : command.get("gates")) {
            futures.add(threads.submit(() -> readGate(environment, command, gate)));
        }
        ArrayNode json = JSON.createArrayNode();
        for (Future<ArrayNode> future : futures) {
            json.add(future.get());
        }
        return json;
    }

    private static ArrayNode readGate(Environment environment, JsonNode command, JsonNode description)
            throws Exception {
        List<Environment.Producer> producers = new ArrayList<>();
        for (JsonNode producer : description.get("producers")) {
            producers.add(new Environment.Producer(
                    producer.get("host").asText(),
                    producer.get("port").asInt(),
                    Environment.partitionId(producer.get("partition").asText())));
        }
        Reader.Pace pace = new Reader.Pace(
                command.get("limit").asLong(), command.get("pause_every").asLong(), command.get("pause_ms").asLong());
        SingleInputGate gate = environment.openGate(
                producers,
                ResultPartitionType.valueOf(description.get("type").asText()),
                description.get("subpartition").asInt());
        try {
            if (command.get("buffer_size").asInt() > 0) {
                gate.announceBufferSize(command.get("buffer_size").asInt());
            }
            Records records = Records.of(command.get("records").asText());
            return new Reader(gate, records, pace, environment.temporaryFolders()).run();
        } finally {
            environment.closeGate(gate);
        }
    }
}
