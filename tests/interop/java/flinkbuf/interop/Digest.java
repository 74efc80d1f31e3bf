package flinkbuf.interop;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

import org.apache.flink.runtime.event.AbstractEvent;
import org.apache.flink.runtime.io.network.api.CancelCheckpointMarker;
import org.apache.flink.runtime.io.network.api.CheckpointBarrier;
import org.apache.flink.runtime.io.network.api.EndOfData;
import org.apache.flink.runtime.io.network.api.EndOfPartitionEvent;
import org.apache.flink.runtime.io.network.api.EventAnnouncement;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/** What one channel gave: how many records, their hash in order, and each event with its place among them. */
final class Digest {

    private final MessageDigest hash;
    private final ArrayNode events = JsonNodeFactory.instance.arrayNode();
    private long count;

    Digest() {
        try {
            hash = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    void add(byte[] record) {
        hash.update(ByteBuffer.allocate(4).putInt(record.length).array());
        hash.update(record);
        count++;
    }

    void add(AbstractEvent event) {
        events.add(count + " " + textOf(event));
    }

    private static String textOf(AbstractEvent event) {
        if (event instanceof CheckpointBarrier barrier) {
            return "barrier " + barrier.getId() + " " + barrier.getTimestamp() + " "
                    + barrier.getCheckpointOptions().getAlignment();
        } else if (event instanceof EndOfData end) {
            return "end_of_data " + end.getStopMode();
        } else if (event instanceof EndOfPartitionEvent) {
            return "end_of_partition";
        } else if (event instanceof CancelCheckpointMarker marker) {
            return "cancel " + marker.getCheckpointId();
        } else if (event instanceof EventAnnouncement announcement) {
            return "announcement of " + textOf(announcement.getAnnouncedEvent());
        }
        return event.getClass().getName();
    }

    ObjectNode toJson() {
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        json.put("records", count);
        json.put("sha256", HexFormat.of().formatHex(hash.digest()));
        json.set("events", events);
        return json;
    }
}
