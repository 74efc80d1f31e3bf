package flinkbuf.interop;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;

import org.apache.flink.api.common.JobID;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.entrypoint.component.DispatcherResourceManagerComponent;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.rest.RestServerEndpoint;
import org.apache.flink.runtime.rest.handler.RestHandlerSpecification;
import org.apache.flink.runtime.rest.versioning.RuntimeRestAPIVersion;

/** A cluster of Flink in this process, which ends with it: job manager with REST endpoint, two task managers. */
final class JobCluster {

    private static final int TASK_MANAGERS = 2;

    private final MiniCluster cluster;

    JobCluster(Map<String, String> options, int slots) throws Exception {
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(Configuration.fromMap(options))
                .setNumTaskManagers(TASK_MANAGERS)
                .setNumSlotsPerTaskManager(slots)
                .build());
        cluster.start();
    }

    String address() throws Exception {
        return cluster.getRestAddress().get().toString();
    }

    JobID submit(CountingJob job) throws Exception {
        return cluster.submitJob(job.graph()).get().getJobID();
    }

    /** Method and path of all that the first version of the API has; Flink itself only logs them. */
    List<String> paths() throws Exception {
        Object components = read(MiniCluster.class, cluster, "dispatcherResourceManagerComponents");
        Object component = ((Collection<?>) components).iterator().next();
        Object endpoint = read(DispatcherResourceManagerComponent.class, component, "webMonitorEndpoint");
        List<String> paths = new ArrayList<>();
        for (Object handler : (List<?>) read(RestServerEndpoint.class, endpoint, "handlers")) {
            RestHandlerSpecification route = (RestHandlerSpecification) ((Tuple2<?, ?>) handler).f0;
            if (route.getSupportedAPIVersions().contains(RuntimeRestAPIVersion.V1)) {
                paths.add(route.getHttpMethod() + " " + route.getTargetRestEndpointURL());
            }
        }
        return paths;
    }

    private static Object read(Class<?> type, Object owner, String name) throws Exception {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }
}
