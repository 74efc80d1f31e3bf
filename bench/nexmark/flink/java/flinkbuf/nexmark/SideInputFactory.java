package flinkbuf.nexmark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.LookupFunction;

/** The connector 'side-input': lines "key,value" of a file, which each subtask holds in memory to look them up. */
public final class SideInputFactory implements DynamicTableSourceFactory {

    private static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "side-input";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PATH);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new SideInput(helper.getOptions().get(PATH));
    }

    private record SideInput(String path) implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return LookupFunctionProvider.of(new LookUp(path));
        }

        @Override
        public DynamicTableSource copy() {
            return new SideInput(path);
        }

        @Override
        public String asSummaryString() {
            return "side input";
        }
    }

    /** Public, since generated code calls it. */
    public static final class LookUp extends LookupFunction {
        private final String path;
        private transient Map<Long, List<RowData>> rows;

        LookUp(String path) {
            this.path = path;
        }

        @Override
        public void open(FunctionContext context) throws IOException {
            rows = new HashMap<>();
            for (String line : Files.readAllLines(Path.of(path))) {
                String[] pair = line.split(",", 2);
                long key = Long.parseLong(pair[0]);
                rows.put(key, List.of(GenericRowData.of(key, StringData.fromString(pair[1]))));
            }
        }

        @Override
        public Collection<RowData> lookup(RowData key) {
            return rows.getOrDefault(key.getLong(0), List.of());
        }
    }
}
