package flinkbuf.interop;

import java.util.Map;

import org.apache.flink.api.common.accumulators.IntCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.metrics.Counter;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.graph.StreamGraph;

/**
 * Numbers, sums of them by key, and nobody who wants these: two vertices with an exchange between. It fails in its
 * first attempts, as many as it is told.
 */
record CountingJob(String name, long count, double perSecond, int failures, Map<String, String> options) {

    private static final int PARALLELISM = 2;
    private static final long KEYS = 7;

    JobGraph graph() {
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.getExecutionEnvironment(Configuration.fromMap(options));
        environment.setParallelism(PARALLELISM);
        GeneratorFunction<Long, Long> number = value -> value;
        DataGeneratorSource<Long> numbers = new DataGeneratorSource<>(
                number, count, RateLimiterStrategy.perSecond(perSecond), Types.LONG);
        WatermarkStrategy<Long> times = WatermarkStrategy.<Long>forMonotonousTimestamps()
                .withTimestampAssigner((value, before) -> value);
        environment.fromSource(numbers, times, "numbers")
                .map(new Count(failures)).name("count")
                .keyBy(value -> value % KEYS)
                .reduce(Long::sum).name("sum")
                .sinkTo(new DiscardingSink<>()).name("nowhere");
        StreamGraph graph = environment.getStreamGraph();
        graph.setJobName(name);
        return graph.getJobGraph();
    }

    /** Passes on what it counts. */
    private static final class Count extends RichMapFunction<Long, Long> {
        private final int failures;
        private final IntCounter lines = new IntCounter();
        private Counter seen;

        Count(int failures) {
            this.failures = failures;
        }

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("lines", lines);
            seen = getRuntimeContext().getMetricGroup().counter("seen");
        }

        @Override
        public Long map(Long value) {
            if (getRuntimeContext().getTaskInfo().getAttemptNumber() < failures) {
                throw new IllegalStateException("not yet");
            }
            lines.add(1);
            seen.inc();
            return value;
        }
    }
}
