package flinkbuf.interop;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;

/**
 * The records of a test, made from their numbers alone: record n is the same here and in records.py.
 *
 * <p>Even ones are noise, which no codec makes smaller; odd ones repeat 32 bytes, which every codec does.
 */
enum Records {
    BYTES(BytePrimitiveArraySerializer.INSTANCE) {
        @Override
        Object make(long number, int size) {
            return fill(number, size);
        }

        @Override
        byte[] canonical(Object record) {
            return (byte[]) record;
        }
    },
    LONG(LongSerializer.INSTANCE) {
        @Override
        Object make(long number, int size) {
            return word(number, 0);
        }

        @Override
        byte[] canonical(Object record) {
            return ByteBuffer.allocate(8).putLong((Long) record).array();
        }
    },
    STRING(StringSerializer.INSTANCE) {
        @Override
        Object make(long number, int size) {
            char[] units = new char[size];
            byte[] bytes = fill(number, size);
            for (int i = 0; i < size; i++) {
                int value = bytes[i] & 0xFF;
                units[i] = (char) (value < 200 ? 32 + value % 95 : value < 230 ? 0xC0 + value : 0x4E00 + value);
            }
            // Beyond 16 bits, so a pair of units.
            return new String(units) + (number % 5 == 0 ? "\uD83D\uDE00" : "");
        }

        @Override
        byte[] canonical(Object record) {
            return ((String) record).getBytes(StandardCharsets.UTF_16BE);
        }
    };

    private static final long GOLDEN = 0x9E3779B97F4A7C15L;

    private final TypeSerializer<?> serializer;

    Records(TypeSerializer<?> serializer) {
        this.serializer = serializer;
    }

    static Records of(String name) {
        return valueOf(name.toUpperCase());
    }

    @SuppressWarnings("unchecked")
    TypeSerializer<Object> serializer() {
        return (TypeSerializer<Object>) serializer;
    }

    /** Record `number`; `size` in bytes or characters, where the type has sizes. */
    abstract Object make(long number, int size);

    /** What goes into a digest: the value, whatever bytes the serializer chose for it. */
    abstract byte[] canonical(Object record);

    /** SplitMix64 as a function of its position. */
    private static long word(long number, long index) {
        long x = number * GOLDEN + index + 1;
        x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L;
        x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
        return x ^ (x >>> 31);
    }

    private static byte[] fill(long number, int size) {
        ByteBuffer words = ByteBuffer.allocate((size + 7) / 8 * 8).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; words.hasRemaining(); i++) {
            words.putLong(word(number, number % 2 == 0 ? i : i & 3));
        }
        byte[] bytes = new byte[size];
        words.flip().get(bytes);
        return bytes;
    }
}
