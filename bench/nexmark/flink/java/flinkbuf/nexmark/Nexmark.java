package flinkbuf.nexmark;

import java.io.BufferedWriter;
import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;

import com.sun.management.OperatingSystemMXBean;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs a query as Flink SQL in this process.
 *
 * <p>Arguments are key=value. query: files with their SQL, in which ${...} stands for another argument; tables:
 * that of the tables; events: one size or more, run one after the other; results: a folder to write results to
 * instead of dropping them; flink.KEY: any option of Flink's. With digest=N it only prints what tells N events apart.
 */
public final class Nexmark {

    private Nexmark() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            options.put(argument.substring(0, at), argument.substring(at + 1));
        }
        if (options.containsKey("digest")) {
            System.out.println(digest(options));
            return;
        }
        for (String query : options.get("query").split(",")) {
            for (String events : options.get("events").split(",")) {
                Map<String, String> ofRun = new HashMap<>(options);
                ofRun.put("query", query);
                ofRun.put("events", events);
                run(ofRun);
            }
        }
        System.exit(0); // threads of the mini cluster may take their time
    }

    private static void run(Map<String, String> options) throws Exception {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long wall = System.nanoTime();
        long cpu = system.getProcessCpuTime();
        Configuration configuration = new Configuration();
        options.forEach((key, value) -> {
            if (key.startsWith("flink.")) {
                configuration.setString(key.substring("flink.".length()), value);
            }
        });
        int parallelism = Integer.parseInt(options.get("parallelism"));
        StreamTableEnvironment tables = StreamTableEnvironment.create(
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration));
        statements(options, "tables").forEach(tables::executeSql);
        List<String> statements = statements(options, "query");
        String query = statements.remove(statements.size() - 1);
        statements.forEach(tables::executeSql);
        if (query.startsWith("INSERT")) {
            tables.executeSql(query).await();
        } else if (options.containsKey("results")) {
            String name = Path.of(options.get("query")).getFileName().toString();
            write(tables.executeSql(query).collect(), Path.of(options.get("results"), name));
        } else {
            tables.sqlQuery(query).executeInsert(TableDescriptor.forConnector("blackhole").build()).await();
        }
        System.out.printf(
                "{\"events\": %s, \"wall_s\": %s, \"cpu_s\": %s}%n", options.get("events"),
                (System.nanoTime() - wall) / 1e9, (system.getProcessCpuTime() - cpu) / 1e9);
    }

    private static List<String> statements(Map<String, String> options, String key) throws Exception {
        StringBuilder text = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(options.get(key)))) {
            if (!line.startsWith("--")) {
                text.append(line).append('\n');
            }
        }
        String found = text.toString().strip();
        for (Map.Entry<String, String> option : options.entrySet()) {
            found = found.replace("${" + option.getKey() + "}", option.getValue());
        }
        List<String> statements = new ArrayList<>();
        for (String statement : found.split(";\\s*(\n|$)")) {
            statements.add(statement.strip());
        }
        return statements;
    }

    /** Writes each change as a line of JSON: its kind and the fields; times are milliseconds. */
    private static void write(CloseableIterator<Row> rows, Path path) throws Exception {
        try (rows; BufferedWriter writer = Files.newBufferedWriter(path)) {
            while (rows.hasNext()) {
                Row row = rows.next();
                StringJoiner fields = new StringJoiner(", ", "[", "]\n");
                fields.add('"' + row.getKind().shortString() + '"');
                for (int place = 0; place < row.getArity(); place++) {
                    fields.add(json(row.getField(place)));
                }
                writer.write(fields.toString());
            }
        }
    }

    private static String json(Object field) {
        if (field instanceof LocalDateTime time) {
            return Long.toString(time.toInstant(ZoneOffset.UTC).toEpochMilli());
        }
        if (field instanceof BigDecimal decimal) {
            return "{\"decimal\": \"" + decimal.toPlainString() + "\"}";
        }
        if (field instanceof String text) {
            return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
        }
        return String.valueOf(field);
    }

    /** Of a line for each event, its fields with bars between them, split after split. */
    private static String digest(Map<String, String> options) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        int splits = Integer.parseInt(options.get("parallelism"));
        for (int index = 0; index < splits; index++) {
            Events events = new Events(
                    index, splits, Long.parseLong(options.get("digest")), Long.parseLong(options.get("rate")),
                    Long.parseLong(options.get("seed")));
            while (events.hasNext()) {
                GenericRowData row = events.next();
                GenericRowData event = (GenericRowData) row.getField(1 + row.getInt(0));
                StringJoiner fields = new StringJoiner("|", "", "\n");
                for (int place = 0; place < event.getArity(); place++) {
                    Object field = event.getField(place);
                    fields.add(field instanceof TimestampData time
                            ? Long.toString(time.getMillisecond()) : field.toString());
                }
                digest.update(fields.toString().getBytes(StandardCharsets.UTF_8));
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }
}
