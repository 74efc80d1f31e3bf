package flinkbuf.nexmark;

import java.util.Set;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;

/** The connector 'nexmark': the events as a table. */
public final class EventTableFactory implements DynamicTableSourceFactory {

    private static final ConfigOption<Long> EVENTS = ConfigOptions.key("events").longType().noDefaultValue();
    private static final ConfigOption<Long> RATE = ConfigOptions.key("rate").longType().noDefaultValue();
    private static final ConfigOption<Long> SEED = ConfigOptions.key("seed").longType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "nexmark";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(EVENTS, RATE, SEED);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        ReadableConfig options = helper.getOptions();
        return new EventTable(new EventSource(options.get(EVENTS), options.get(RATE), options.get(SEED)));
    }

    private record EventTable(EventSource source) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(source);
        }

        @Override
        public DynamicTableSource copy() {
            return new EventTable(source);
        }

        @Override
        public String asSummaryString() {
            return "nexmark";
        }
    }
}
