package flinkbuf.nexmark;

import java.nio.charset.StandardCharsets;
import java.util.SplittableRandom;

import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;

/** Makes the events of one split, the same ones as generator.pyx makes of the same seed. */
final class Events {

    static final int PERSON = 0;
    static final int AUCTION = 1;
    static final int BID = 2;

    private static final int FIRST_ID = 1000;
    private static final int POOL_SIZE = 1 << 20;
    private static final int CHANNEL_COUNT = 10_000;
    private static final int AHEAD_EVENTS = 100 * 50 / 3;
    private static final long BASE_TIME_MS = 1_600_000_000_000L;
    private static final String[] HOT_CHANNELS = {"Google", "Facebook", "Baidu", "Apple"};
    private static final String[] FIRST_NAMES = {
        "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"};
    private static final String[] LAST_NAMES = {
        "Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"};
    private static final String[] CITIES = {
        "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent",
        "Cheyenne"};
    private static final String[] STATES = {"AZ", "CA", "ID", "OR", "WA", "WY"};

    private final SplittableRandom random;
    private final byte[] pool = pool();
    private final StringData[] names = new StringData[HOT_CHANNELS.length + CHANNEL_COUNT];
    private final StringData[] urls = new StringData[names.length];
    private final long firstEventId;
    private final double delayUs;
    private final long count;
    private long done;

    Events(int index, int splitCount, long total, long rate, long seed) {
        long share = total / splitCount;
        count = index < splitCount - 1 ? share : total - share * (splitCount - 1);
        firstEventId = 1 + index * share;
        delayUs = 1_000_000.0 / rate * splitCount;
        random = new SplittableRandom(seed + index);
        makeChannels();
    }

    boolean hasNext() {
        return done < count;
    }

    /** Returns (event_type, person, auction, bid, date_time), of which two of the three rows are null. */
    GenericRowData next() {
        long number = 1 + done++;
        long event = firstEventId + number;
        long when = dateTime(number);
        TimestampData time = TimestampData.fromEpochMillis(when);
        int turn = (int) (event % 50);
        GenericRowData row = new GenericRowData(5);
        row.setField(4, time);
        if (turn == 0) {
            row.setField(0, PERSON);
            row.setField(1, person(event, time));
        } else if (turn < 4) {
            row.setField(0, AUCTION);
            row.setField(2, auction(event, number, when, time));
        } else {
            row.setField(0, BID);
            row.setField(3, bid(event, time));
        }
        return row;
    }

    private long dateTime(long number) {
        return BASE_TIME_MS + (long) (number * delayUs) / 1000;
    }

    private GenericRowData person(long event, TimestampData time) {
        String name = FIRST_NAMES[random.nextInt(FIRST_NAMES.length)];
        name = name + " " + LAST_NAMES[random.nextInt(LAST_NAMES.length)];
        String email = word(7, ' ') + "@";
        email = email + word(5, ' ') + ".com";
        StringBuilder card = new StringBuilder();
        for (int part = 0; part < 4; part++) {
            String digits = Integer.toString(random.nextInt(10_000));
            card.append(part > 0 ? " " : "").append("0".repeat(4 - digits.length())).append(digits);
        }
        String city = CITIES[random.nextInt(CITIES.length)];
        String state = STATES[random.nextInt(STATES.length)];
        int size = 8 + name.length() + email.length() + card.length() + city.length() + state.length();
        StringData extra = extra(size, 200);
        return GenericRowData.of(
                event / 50 + FIRST_ID, text(name), text(email), text(card.toString()), text(city), text(state),
                time, extra);
    }

    private GenericRowData auction(long event, long number, long when, TimestampData time) {
        long epoch = event / 50;
        long seller = random.nextInt(4) > 0 ? epoch / 100 * 100 : somePerson(epoch);
        long category = 10 + random.nextInt(5);
        long initialBid = price();
        long ahead = dateTime(number + AHEAD_EVENTS) - when;
        long expires = when + 1 + random.nextInt((int) Math.max(2 * ahead, 1));
        String itemName = word(20, ' ');
        String description = word(100, ' ');
        long reserve = initialBid + price();
        StringData extra = extra(48 + itemName.length() + description.length(), 500);
        return GenericRowData.of(
                lastAuction(event) + FIRST_ID, text(itemName), text(description), initialBid, reserve, time,
                TimestampData.fromEpochMillis(expires), seller + FIRST_ID, category, extra);
    }

    private GenericRowData bid(long event, TimestampData time) {
        long high = lastAuction(event);
        long epoch = event / 50;
        long auction;
        if (random.nextInt(2) > 0) {
            auction = high / 100 * 100;
        } else {
            long low = Math.max(high - 100, 0);
            auction = low + random.nextInt((int) (high - low + 1 + 10));
        }
        long bidder = random.nextInt(4) > 0 ? epoch / 100 * 100 + 1 : somePerson(epoch);
        long price = price();
        int channel = random.nextInt(2) > 0
                ? random.nextInt(HOT_CHANNELS.length)
                : HOT_CHANNELS.length + random.nextInt(CHANNEL_COUNT);
        // Upstream adds the first id to a bidder's twice.
        return GenericRowData.of(
                auction + FIRST_ID, bidder + 2 * FIRST_ID, price, names[channel], urls[channel], time,
                extra(32, 100));
    }

    private static long lastAuction(long event) {
        long epoch = event / 50;
        long turn = event % 50;
        return turn < 1 ? (epoch - 1) * 3 + 2 : turn >= 4 ? epoch * 3 + 2 : epoch * 3 + turn - 1;
    }

    private long somePerson(long epoch) {
        long people = epoch + 1;
        long active = Math.min(people, 1000);
        return people - active + random.nextInt((int) active + 10);
    }

    private long price() {
        return (long) Math.floor(Math.pow(10.0, random.nextDouble() * 6) * 100.0 + 0.5);
    }

    private StringData extra(int current, int average) {
        if (current > average) {
            return text("");
        }
        int missing = average - current;
        int spread = (int) (missing * 0.2 + 0.5);
        int length = missing - spread + (spread == 0 ? 0 : random.nextInt(2 * spread));
        return StringData.fromBytes(pool, random.nextInt(POOL_SIZE - length), length);
    }

    private String word(int most, char special) {
        return word(random, most, special);
    }

    private static String word(SplittableRandom random, int most, char special) {
        int length = 3 + random.nextInt(most - 3);
        StringBuilder letters = new StringBuilder(length);
        for (int place = 0; place < length; place++) {
            letters.append(random.nextInt(13) == 0 ? special : (char) ('a' + random.nextInt(26)));
        }
        return letters.toString().trim();
    }

    /** Made of bytes, as text that has come out of a file or a socket would be. */
    private static StringData text(String text) {
        return StringData.fromBytes(text.getBytes(StandardCharsets.ISO_8859_1));
    }

    private static byte[] pool() {
        SplittableRandom random = new SplittableRandom(1_000_001);
        byte[] letters = new byte[POOL_SIZE];
        for (int place = 0; place < POOL_SIZE; ) {
            int number = random.nextInt();
            for (int turn = 0; turn < 6 && place < POOL_SIZE; turn++) {
                letters[place++] = (byte) ('a' + number % 26);
                number /= 26;
            }
        }
        return letters;
    }

    private void makeChannels() {
        SplittableRandom ofChannels = new SplittableRandom(1_000_000);
        for (int place = 0; place < names.length; place++) {
            int number = place - HOT_CHANNELS.length;
            names[place] = text(number < 0 ? HOT_CHANNELS[place] : "channel-" + number);
            StringBuilder url = new StringBuilder("https://www.nexmark.com/");
            for (int part = 0; part < 3; part++) {
                url.append(word(ofChannels, 5, '_')).append('/');
            }
            url.append("item.htm?query=1");
            if (number >= 0 && ofChannels.nextInt(10) > 0) {
                url.append("&channel_id=").append(Math.abs(Integer.reverse(number)));
            }
            urls[place] = text(url.toString());
        }
    }
}
