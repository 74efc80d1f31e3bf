# cython: cdivision=True
"""Makes the events of a split one after the other, number by number, as the rules say: as records, or as columns.

It is compiled since an event should cost what a query does with it, and not what making it up does: it takes 18 numbers
of Java's SplittableRandom on the average. Random is a value without memory of its own; a Generator holds one and
belongs to the thread of its reader. What is drawn for an event is put into a struct first, of which a record is made or
a row of columns, so that both are the same events.
"""

import functools

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.math cimport floor, pow as power
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from nexmark import rules

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define NEXMARK_PREFETCH(place) __builtin_prefetch(place)
    #else
    #define NEXMARK_PREFETCH(place) ((void)(place))
    #endif
    """
    void prefetch "NEXMARK_PREFETCH" (const void* place) noexcept nogil

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t count)  # a tuple's fields are put in one by one
    object PyUnicode_New(Py_ssize_t size, uint32_t greatest)
    void* PyUnicode_DATA(object text)
    void* PyList_GET_ITEM(object items, Py_ssize_t place)  # borrowed, and not looked at

cdef enum:
    LONGEST = 128  # letters of a text that is put together here
    MOST_COLUMNS = 8  # of numbers, and of texts
    AHEAD = 8  # rows: so long before it is copied, a text is asked of memory

cdef uint64_t GAMMA = 0x9E3779B97F4A7C15
cdef uint64_t GAMMA_INVERSE = pow(0x9E3779B97F4A7C15, -1, 1 << 64)


# --- numbers


cdef struct Random:
    uint64_t state


cdef inline uint32_t next_int(Random* random) noexcept nogil:
    """Java's ``nextInt()``, without sign."""
    random.state += GAMMA
    cdef uint64_t z = random.state
    z = (z ^ (z >> 33)) * <uint64_t>0x62A9D9ED799705F5
    z = (z ^ (z >> 28)) * <uint64_t>0xCB24D0A5C88C35B3
    return <uint32_t>(z >> 32)


cdef inline double next_double(Random* random) noexcept nogil:
    random.state += GAMMA
    cdef uint64_t z = random.state
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return <double>((z ^ (z >> 31)) >> 11) * 2.0 ** -53


cdef inline uint32_t below(Random* random, uint32_t bound) noexcept nogil:
    """Java's ``nextInt(bound)``: above the last whole multiple of `bound` a number will not do, another is drawn."""
    cdef uint32_t number = next_int(random), rest
    if bound & (bound - 1) == 0:
        return number & (bound - 1)
    number >>= 1
    rest = number % bound
    while number + (bound - 1) - rest >= <uint32_t>1 << 31:
        number = next_int(random) >> 1
        rest = number % bound
    return rest


cdef inline int64_t price(Random* random) noexcept nogil:
    """Cents from 100 to 100 million, as many below 10,000 as above 1,000,000."""
    return <int64_t>floor(power(10.0, next_double(random) * 6.0) * 100.0 + 0.5)


def numbers(seed, bounds):
    """Return what ``nextInt(bound)`` gives for each bound in turn."""
    cdef Random random = Random(seed)
    return [below(&random, bound) for bound in bounds]


# --- texts


cdef struct Text:
    const char* letters  # ASCII, of somebody else
    Py_ssize_t length


cdef inline str text_of(Text text):
    cdef object made = PyUnicode_New(text.length, 127)
    memcpy(PyUnicode_DATA(made), text.letters, text.length)
    return made


cdef inline Text word(Random* random, char* letters, uint32_t most, char special) noexcept nogil:
    """Draw a text of up to so many letters, at most 100, one of 13 of which is the special one; it is in `letters`."""
    cdef Py_ssize_t place, first = 0, count = 3 + below(random, most - 3)
    for place in range(count):
        letters[place] = special if below(random, 13) == 0 else <char>(97 + below(random, 26))
    while first < count and letters[first] == 32:
        first += 1
    while first < count and letters[count - 1] == 32:
        count -= 1
    return Text(letters + first, count - first)


cdef inline Text between(const char* begin, const char* end) noexcept nogil:
    return Text(begin, end - begin)


cdef inline char* append(char* end, Text text) noexcept nogil:
    memcpy(end, text.letters, text.length)
    return end + text.length


cdef class Texts:
    """Texts by number, one behind the other."""

    cdef uint32_t count
    cdef Py_ssize_t longest
    cdef bytes letters
    cdef Text* places

    def __init__(self, texts):
        cdef Py_ssize_t length, place = 0
        self.letters = "".join(texts).encode("ascii")
        self.count, self.longest = <uint32_t>len(texts), max(map(len, texts))
        self.places = <Text*>PyMem_Malloc(self.count * sizeof(Text))
        if self.places == NULL:
            raise MemoryError
        for number, text in enumerate(texts):
            length = len(text)
            self.places[number] = Text(<const char*>self.letters + place, length)
            place += length

    def __dealloc__(self):
        PyMem_Free(self.places)


@functools.cache
def pool(seed=1_000_001):
    """Return the letters of which extra texts are slices: six of each number, in the order of Java's remainders."""
    cdef Random random = Random(seed)
    cdef int64_t number, rest
    letters = bytearray()
    while len(letters) < rules.POOL_SIZE:
        number = <int>next_int(&random)
        for _ in range(6):
            rest = number % 26  # negative if the number is, as in Java
            letters.append(97 + rest)
            number = (number - rest) // 26
    return bytes(letters[: rules.POOL_SIZE])


@functools.cache
def channels(seed=1_000_000):
    """Return names and URLs of all channels, the four hot ones first."""
    cdef Random random = Random(seed)
    cdef char letters[LONGEST]
    names = [*rules.HOT_CHANNELS, *(f"channel-{number}" for number in range(rules.CHANNEL_COUNT))]
    urls = []
    for place in range(len(names)):
        parts = [text_of(word(&random, letters, 5, 95)) for _ in range(3)]
        urls.append(f"https://www.nexmark.com/{'/'.join(parts)}/item.htm?query=1")
        if place >= len(rules.HOT_CHANNELS) and below(&random, 10):
            urls[place] += channel_id(place - len(rules.HOT_CHANNELS))
    return names, urls


@functools.cache
def channel_texts():
    return tuple(map(Texts, channels()))


def channel_id(number):
    """Return the part of a URL that names its channel: its number with its bits the other way round."""
    turned, top = int(f"{number:032b}"[::-1], 2), 1 << 31
    return f"&channel_id={turned if turned < top else turned - (1 << 32) if turned == top else (1 << 32) - turned}"


# --- columns


cdef class Columns:
    """Rows of one kind of events, column by column: numbers, and texts with the places where they end.

    Parameters
    ----------
    most : int
        Rows.
    schema : pyarrow.Schema
        Columns of numbers and of texts, each in the order in which they are put.
    longest : list of int, optional
        Bytes of a text of each column, at most. None: `open_text` is called for each column before its texts are put.
    """

    cdef readonly Py_ssize_t count
    cdef object schema
    cdef list buffers  # of each column
    cdef int64_t* numbers[MOST_COLUMNS]
    cdef int32_t* ends[MOST_COLUMNS]
    cdef char* letters[MOST_COLUMNS]

    def __init__(self, Py_ssize_t most, schema, longest=None):
        from pyarrow import allocate_buffer
        from pyarrow.types import is_string

        self.count, self.schema, self.buffers = 0, schema, []
        number_count, text_count = 0, 0
        for place, kind in enumerate(schema.types):
            self.buffers.append(None)
            if not is_string(kind):
                numbers = allocate_buffer(8 * most)
                self.buffers[place] = [None, numbers]
                self.numbers[number_count] = <int64_t*><uintptr_t>numbers.address
                number_count += 1
            elif longest is not None:
                self.open_text(place, text_count, most, most * longest[text_count])
                text_count += 1

    cdef int open_text(self, Py_ssize_t place, int column, Py_ssize_t most, Py_ssize_t size) except -1:
        """Have room for so many texts, of so many bytes in all, in the column at a place, which is that text column."""
        from pyarrow import allocate_buffer

        ends, letters = allocate_buffer(4 * (most + 1)), allocate_buffer(size)
        self.buffers[place] = [None, ends, letters]
        self.ends[column] = <int32_t*><uintptr_t>ends.address
        self.letters[column] = <char*><uintptr_t>letters.address
        self.ends[column][0] = 0
        return 0

    cdef inline void put_text(self, int column, Text text) noexcept nogil:
        cdef int32_t end = self.ends[column][self.count]
        memcpy(self.letters[column] + end, text.letters, text.length)
        self.ends[column][self.count + 1] = end + <int32_t>text.length

    def batch(self):
        """Return the rows as a ``pyarrow.RecordBatch``."""
        from pyarrow import Array, RecordBatch

        columns = [
            Array.from_buffers(kind, self.count, buffers, 0)
            for kind, buffers in zip(self.schema.types, self.buffers, strict=True)
        ]
        return RecordBatch.from_arrays(columns, schema=self.schema)


cdef struct BidTexts:
    uint32_t channel    # its number, by which its name and its URL are found
    uint32_t extra      # where it begins in the pool
    uint32_t length     # of it


cdef class BidColumns(Columns):
    """Bids, whose texts lie where they are, once for all bids, until somebody wants the batch.

    Nearly all bytes of the events are these. Flink's source, too, makes rows that refer to them, and copies none.

    Parameters
    ----------
    most, schema
        See `Columns`.
    names, urls : Texts
        Of the channels.
    pool : bytes
        Of which extra texts are slices.
    """

    cdef Texts names, urls
    cdef bytes pool
    cdef BidTexts* texts    # of each row; NULL: they were put
    cdef object made

    def __init__(self, Py_ssize_t most, schema, Texts names not None, Texts urls not None, bytes pool not None):
        Columns.__init__(self, most, schema)
        self.names, self.urls, self.pool = names, urls, pool
        self.texts = <BidTexts*>PyMem_Malloc(most * sizeof(BidTexts))
        if self.texts == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.texts)

    def batch(self):
        cdef Py_ssize_t row
        cdef int64_t sizes[3]
        cdef const char* pool = self.pool
        if self.made is None:
            sizes[0] = sizes[1] = sizes[2] = 0
            for row in range(self.count):
                sizes[0] += self.names.places[self.texts[row].channel].length
                sizes[1] += self.urls.places[self.texts[row].channel].length
                sizes[2] += self.texts[row].length
            for column, name in enumerate(("channel", "url", "extra")):
                self.open_text(self.schema.get_field_index(name), column, self.count, sizes[column])
            with nogil:
                self.put_of_channels(0, self.names.places)
                self.put_of_channels(1, self.urls.places)
                self.put_extra(2, pool)
            self.made = Columns.batch(self)
            PyMem_Free(self.texts)
            self.texts = NULL
        return self.made

    cdef void put_of_channels(self, int column, const Text* places) noexcept nogil:
        cdef Py_ssize_t row
        cdef int32_t end = 0
        cdef char* letters = self.letters[column]
        cdef int32_t* ends = self.ends[column]
        cdef Text text
        for row in range(self.count):
            if row + AHEAD < self.count:
                text = places[self.texts[row + AHEAD].channel]
                prefetch(text.letters)
                prefetch(text.letters + text.length)
            text = places[self.texts[row].channel]
            memcpy(letters + end, text.letters, text.length)
            end += <int32_t>text.length
            ends[row + 1] = end

    cdef void put_extra(self, int column, const char* pool) noexcept nogil:
        cdef Py_ssize_t row
        cdef int32_t end = 0
        cdef char* letters = self.letters[column]
        cdef int32_t* ends = self.ends[column]
        cdef BidTexts* text
        for row in range(self.count):
            if row + AHEAD < self.count:
                text = &self.texts[row + AHEAD]
                prefetch(pool + text.extra)
                prefetch(pool + text.extra + text.length)
            text = &self.texts[row]
            memcpy(letters + end, pool + text.extra, text.length)
            end += <int32_t>text.length
            ends[row + 1] = end


# --- events


cdef struct BidFields:
    int64_t auction, bidder, price, date_time
    bint is_hot_auction, is_hot_bidder
    uint32_t channel
    Text extra


cdef struct AuctionFields:
    int64_t id, initial_bid, reserve, date_time, expires, seller, category
    Text name, description, extra
    char name_letters[LONGEST]
    char description_letters[LONGEST]


cdef struct PersonFields:
    int64_t id, date_time
    Text name, email, card, city, state, extra
    char name_letters[LONGEST]
    char email_letters[LONGEST]
    char card_letters[LONGEST]


cdef inline void put(object event, Py_ssize_t place, object field) noexcept:
    Py_INCREF(field)  # which the tuple takes
    PyTuple_SET_ITEM(event, place, field)


@cython.final
cdef class Number:
    """A number that many events have one after the other, as one object."""

    cdef int64_t value
    cdef object made

    cdef inline object of(self, int64_t value):
        if self.made is None or self.value != value:
            self.value, self.made = value, value
        return self.made


cdef class Generator:
    """Iterates over the events of a split from where it stands; or gives them in columns.

    Parameters
    ----------
    split : rules.Split
        The events before took `drawn` numbers, so the rest is made without them.

    Attributes
    ----------
    done, drawn : int
        Events up to now, and the numbers that they took: those of a split that goes on from here.
    """

    cdef readonly int64_t done
    cdef int64_t first_event_id, count, base_time_ms, ahead_events
    cdef double delay_us
    cdef Random random
    cdef BidFields ahead        # the next event, if it is a bid, drawn one event before it is wanted
    cdef bint is_ahead
    cdef uint64_t state_before  # of `random`: its state before `ahead` was drawn
    cdef uint64_t seed
    cdef bytes pool
    cdef const char* letters
    cdef uint32_t pool_size
    cdef object person_class, auction_class, bid_class
    cdef Number hot_auction_id, hot_bidder_id, when
    # Where it stands, and what is the same for all events of an epoch.
    cdef int64_t epoch, turn, last_auction, hot_auction, hot_person
    cdef list channels, urls
    cdef Texts channel_texts, url_texts, first_names, last_names, cities, states
    # Of the rules, which see.
    cdef uint32_t first_id, first_bidder, events_per_epoch, auctions_per_epoch, hot_batch, auctions_in_flight
    cdef uint32_t active_persons, id_lead, hot_auctions, hot_sellers, hot_bidders, first_category, category_count
    cdef uint32_t person_size, auction_size, bid_size, channel_count, hot_channel_count

    def __init__(self, split):
        # A worker of Spark imports the modules of each job anew, but not this one: classes are those of now.
        from nexmark import events

        self.person_class, self.auction_class, self.bid_class = events.Person, events.Auction, events.Bid
        self.done, self.first_event_id, self.count = split.done, split.first_event_id, split.count
        self.delay_us, self.seed = split.delay_us, split.seed
        self.random = Random(self.seed + GAMMA * <uint64_t>split.drawn)
        self.pool, (self.channels, self.urls) = pool(), channels()
        self.letters, self.pool_size = self.pool, rules.POOL_SIZE
        self.channel_texts, self.url_texts = channel_texts()
        self.first_names, self.last_names = Texts(rules.FIRST_NAMES), Texts(rules.LAST_NAMES)
        self.cities, self.states = Texts(rules.CITIES), Texts(rules.STATES)
        self.base_time_ms, self.ahead_events = rules.BASE_TIME_MS, rules.AHEAD_EVENTS
        self.first_id = rules.FIRST_ID
        self.first_bidder = rules.FIRST_ID * (2 if split.doubles_bidder_id else 1)
        self.events_per_epoch, self.auctions_per_epoch = rules.EVENTS_PER_EPOCH, rules.AUCTIONS_PER_EPOCH
        self.hot_batch, self.auctions_in_flight = rules.HOT_BATCH, rules.AUCTIONS_IN_FLIGHT
        self.active_persons, self.id_lead = rules.ACTIVE_PERSONS, rules.ID_LEAD
        self.hot_auctions, self.hot_sellers = rules.HOT_AUCTION_RATIO, rules.HOT_SELLER_RATIO
        self.hot_bidders = rules.HOT_BIDDER_RATIO
        self.first_category, self.category_count = rules.FIRST_CATEGORY, rules.CATEGORY_COUNT
        self.person_size, self.auction_size, self.bid_size = rules.PERSON_SIZE, rules.AUCTION_SIZE, rules.BID_SIZE
        self.channel_count, self.hot_channel_count = rules.CHANNEL_COUNT, len(rules.HOT_CHANNELS)
        self.hot_auction_id, self.hot_bidder_id, self.when = Number(), Number(), Number()
        self.turn = (self.first_event_id + self.done) % self.events_per_epoch
        self.begin_epoch((self.first_event_id + self.done) // self.events_per_epoch)

    @property
    def drawn(self):
        cdef uint64_t state = self.state_before if self.is_ahead else self.random.state
        return (state - self.seed) * GAMMA_INVERSE

    def __iter__(self):
        return self

    def __next__(self):
        if self.done >= self.count:
            raise StopIteration
        self.next_turn()
        if self.turn > self.auctions_per_epoch:
            made = self.bid()
        else:
            made = self.auction() if self.turn else self.person()
        if self.auctions_per_epoch <= self.turn < self.events_per_epoch - 1 and self.done < self.count:
            self.draw_ahead()
        return made

    cdef inline void next_turn(self) noexcept nogil:
        self.done += 1
        self.turn += 1
        if self.turn == self.events_per_epoch:
            self.turn = 0
            self.begin_epoch(self.epoch + 1)

    cdef void begin_epoch(self, int64_t epoch) noexcept nogil:
        self.epoch = epoch
        self.last_auction = epoch * self.auctions_per_epoch + self.auctions_per_epoch - 1
        self.hot_auction = self.last_auction // self.hot_batch * self.hot_batch
        self.hot_person = epoch // self.hot_batch * self.hot_batch

    def next_columns(self, int64_t most, person_schema, auction_schema, bid_schema):
        """Return the next events, at most so many, as `Columns` of persons, auctions and bids; None at the end."""
        cdef int64_t count = min(most, self.count - self.done)
        if count <= 0:
            return None
        cdef int64_t epochs = count // self.events_per_epoch + 2
        cdef Py_ssize_t auction_count = epochs * self.auctions_per_epoch
        longest = [self.longest_extra(size) for size in (self.person_size, self.auction_size)]
        persons = Columns(epochs, person_schema, [LONGEST] * 5 + [longest[0]])
        auctions = Columns(auction_count, auction_schema, [LONGEST, LONGEST, longest[1]])
        bids = BidColumns(count, bid_schema, self.channel_texts, self.url_texts, self.pool)
        with nogil:
            self.put_events(count, persons, auctions, bids)
        return persons, auctions, bids

    cdef void put_events(self, int64_t count, Columns persons, Columns auctions, BidColumns bids) noexcept nogil:
        cdef BidFields bid
        cdef AuctionFields auction
        cdef PersonFields person
        if self.is_ahead:
            self.is_ahead, self.random.state = False, self.state_before
        for _ in range(count):
            self.next_turn()
            if self.turn > self.auctions_per_epoch:
                self.draw_bid(self.done, &bid)
                self.put_bid(bids, &bid)
            elif self.turn:
                self.draw_auction(&auction)
                self.put_auction(auctions, &auction)
            else:
                self.draw_person(&person)
                self.put_person(persons, &person)

    cdef inline int64_t date_time(self, int64_t number) noexcept nogil:
        """When the event of this number happens; its split counts from 1."""
        return self.base_time_ms + <int64_t>(number * self.delay_us) // 1000

    cdef inline int64_t some_person(self) noexcept nogil:
        """One of the persons of late, or one that will come soon."""
        cdef int64_t active = min(self.epoch + 1, <int64_t>self.active_persons)
        return self.epoch + 1 - active + below(&self.random, <uint32_t>active + self.id_lead)

    cdef inline Text extra(self, Py_ssize_t current, Py_ssize_t average) noexcept nogil:
        """A text that fills a record of `current` bytes up to `average`, more or less."""
        if current > average:
            return Text(self.letters, 0)
        cdef Py_ssize_t missing = average - current
        cdef uint32_t spread = <uint32_t>(missing * 0.2 + 0.5)
        cdef Py_ssize_t length = missing - spread
        if spread:
            length += below(&self.random, 2 * spread)
        return Text(self.letters + below(&self.random, self.pool_size - <uint32_t>length), length)

    cdef Py_ssize_t longest_extra(self, Py_ssize_t average) noexcept:
        return average + <uint32_t>(average * 0.2 + 0.5)

    # --- bids

    cdef inline void draw_bid(self, int64_t number, BidFields* bid) noexcept nogil:
        cdef Random* random = &self.random
        cdef int64_t low, auction, bidder
        bid.is_hot_auction = below(random, self.hot_auctions) != 0
        if bid.is_hot_auction:
            auction = self.hot_auction
        else:
            low = max(self.last_auction - self.auctions_in_flight, <int64_t>0)
            auction = low + below(random, <uint32_t>(self.last_auction - low) + 1 + self.id_lead)
        bid.is_hot_bidder = below(random, self.hot_bidders) != 0
        bidder = self.hot_person + 1 if bid.is_hot_bidder else self.some_person()
        bid.auction, bid.bidder, bid.price = auction + self.first_id, bidder + self.first_bidder, price(random)
        if below(random, 2):
            bid.channel = below(random, self.hot_channel_count)
        else:
            bid.channel = self.hot_channel_count + below(random, self.channel_count)
        bid.date_time = self.date_time(number)
        bid.extra = self.extra(32, self.bid_size)

    cdef inline void put_bid(self, BidColumns bids, BidFields* bid) noexcept nogil:
        cdef Py_ssize_t row = bids.count
        bids.numbers[0][row], bids.numbers[1][row] = bid.auction, bid.bidder
        bids.numbers[2][row], bids.numbers[3][row] = bid.price, bid.date_time
        bids.texts[row] = BidTexts(
            bid.channel, <uint32_t>(bid.extra.letters - self.letters), <uint32_t>bid.extra.length
        )
        bids.count = row + 1

    cdef inline void draw_ahead(self):
        """Its texts are any of thousands: the processor fetches them while something is done with the event before."""
        self.state_before = self.random.state
        self.draw_bid(self.done + 1, &self.ahead)
        self.is_ahead = True
        prefetch(PyList_GET_ITEM(self.channels, self.ahead.channel))
        prefetch(PyList_GET_ITEM(self.urls, self.ahead.channel))
        prefetch(self.ahead.extra.letters)
        prefetch(self.ahead.extra.letters + self.ahead.extra.length)

    cdef object bid(self):
        cdef BidFields bid
        if self.is_ahead:
            bid, self.is_ahead = self.ahead, False
        else:
            self.draw_bid(self.done, &bid)
        cdef object event = PyType_GenericAlloc(<PyTypeObject*>self.bid_class, 7)
        put(event, 0, self.hot_auction_id.of(bid.auction) if bid.is_hot_auction else bid.auction)
        put(event, 1, self.hot_bidder_id.of(bid.bidder) if bid.is_hot_bidder else bid.bidder)
        put(event, 2, bid.price)
        put(event, 3, self.channels[bid.channel])
        put(event, 4, self.urls[bid.channel])
        put(event, 5, self.when.of(bid.date_time))
        put(event, 6, text_of(bid.extra))
        return event

    # --- auctions

    cdef void draw_auction(self, AuctionFields* auction) noexcept nogil:
        cdef Random* random = &self.random
        cdef int64_t when = self.date_time(self.done)
        cdef int64_t ahead = self.date_time(self.done + self.ahead_events) - when
        auction.id, auction.date_time = self.epoch * self.auctions_per_epoch + self.turn - 1 + self.first_id, when
        auction.seller = self.hot_person if below(random, self.hot_sellers) else self.some_person()
        auction.seller += self.first_id
        auction.category = self.first_category + below(random, self.category_count)
        auction.initial_bid = price(random)
        auction.expires = when + 1 + below(random, <uint32_t>max(2 * ahead, <int64_t>1))
        auction.name = word(random, auction.name_letters, 20, 32)
        auction.description = word(random, auction.description_letters, 100, 32)
        auction.reserve = auction.initial_bid + price(random)
        auction.extra = self.extra(48 + auction.name.length + auction.description.length, self.auction_size)

    cdef inline void put_auction(self, Columns auctions, AuctionFields* auction) noexcept nogil:
        cdef Py_ssize_t row = auctions.count
        auctions.numbers[0][row] = auction.id
        auctions.numbers[1][row], auctions.numbers[2][row] = auction.initial_bid, auction.reserve
        auctions.numbers[3][row], auctions.numbers[4][row] = auction.date_time, auction.expires
        auctions.numbers[5][row], auctions.numbers[6][row] = auction.seller, auction.category
        auctions.put_text(0, auction.name)
        auctions.put_text(1, auction.description)
        auctions.put_text(2, auction.extra)
        auctions.count = row + 1

    cdef object auction(self):
        cdef AuctionFields auction
        self.draw_auction(&auction)
        cdef object event = PyType_GenericAlloc(<PyTypeObject*>self.auction_class, 10)
        put(event, 0, auction.id)
        put(event, 1, text_of(auction.name))
        put(event, 2, text_of(auction.description))
        put(event, 3, auction.initial_bid)
        put(event, 4, auction.reserve)
        put(event, 5, self.when.of(auction.date_time))
        put(event, 6, auction.expires)
        put(event, 7, auction.seller)
        put(event, 8, auction.category)
        put(event, 9, text_of(auction.extra))
        return event

    # --- persons

    cdef void draw_person(self, PersonFields* person) noexcept nogil:
        cdef Random* random = &self.random
        cdef char letters[LONGEST]
        cdef char* end = append(person.name_letters, self.one_of(self.first_names))
        end[0] = 32
        end = append(end + 1, self.one_of(self.last_names))
        person.name = between(person.name_letters, end)
        end = append(person.email_letters, word(random, letters, 7, 32))
        end[0] = 64
        end = append(append(end + 1, word(random, letters, 5, 32)), Text(".com", 4))
        person.email = between(person.email_letters, end)
        person.card = self.draw_card(person.card_letters)
        person.city, person.state = self.one_of(self.cities), self.one_of(self.states)
        cdef Py_ssize_t size = 8 + person.name.length + person.email.length + person.card.length
        person.extra = self.extra(size + person.city.length + person.state.length, self.person_size)
        person.id, person.date_time = self.epoch + self.first_id, self.date_time(self.done)

    cdef inline Text one_of(self, Texts texts) noexcept nogil:
        return texts.places[below(&self.random, texts.count)]

    cdef inline Text draw_card(self, char* letters) noexcept nogil:
        """Draw four times four digits, with blanks between."""
        cdef uint32_t number
        cdef int group, place
        for group in range(4):
            number = below(&self.random, 10_000)
            for place in range(3, -1, -1):
                letters[5 * group + place] = <char>(48 + number % 10)
                number //= 10
            letters[5 * group + 4] = 32
        return Text(letters, 19)

    cdef inline void put_person(self, Columns persons, PersonFields* person) noexcept nogil:
        cdef Py_ssize_t row = persons.count
        persons.numbers[0][row], persons.numbers[1][row] = person.id, person.date_time
        persons.put_text(0, person.name)
        persons.put_text(1, person.email)
        persons.put_text(2, person.card)
        persons.put_text(3, person.city)
        persons.put_text(4, person.state)
        persons.put_text(5, person.extra)
        persons.count = row + 1

    cdef object person(self):
        cdef PersonFields person
        self.draw_person(&person)
        cdef object event = PyType_GenericAlloc(<PyTypeObject*>self.person_class, 8)
        put(event, 0, person.id)
        put(event, 1, text_of(person.name))
        put(event, 2, text_of(person.email))
        put(event, 3, text_of(person.card))
        put(event, 4, text_of(person.city))
        put(event, 5, text_of(person.state))
        put(event, 6, self.when.of(person.date_time))
        put(event, 7, text_of(person.extra))
        return event
