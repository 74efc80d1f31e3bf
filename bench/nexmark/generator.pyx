# cython: cdivision=True
"""Makes the events of a split one after the other, number by number, as the rules say.

It is compiled since a record should cost what a query does with it, and not what making it up does: an event takes 18
numbers of Java's SplittableRandom on the average. Random is a value without memory of its own; a Generator holds one
and belongs to the thread of its reader.
"""

import functools

from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.math cimport floor, pow as power
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from nexmark import rules

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t count)  # a tuple's fields are put in one by one
    object PyUnicode_New(Py_ssize_t size, uint32_t greatest)
    void* PyUnicode_DATA(object text)

cdef uint64_t GAMMA = 0x9E3779B97F4A7C15
cdef uint64_t GAMMA_INVERSE = pow(0x9E3779B97F4A7C15, -1, 1 << 64)


# --- numbers


cdef struct Random:
    uint64_t state


cdef inline uint32_t next_int(Random* random) noexcept:
    """Java's ``nextInt()``, without sign."""
    random.state += GAMMA
    cdef uint64_t z = random.state
    z = (z ^ (z >> 33)) * <uint64_t>0x62A9D9ED799705F5
    z = (z ^ (z >> 28)) * <uint64_t>0xCB24D0A5C88C35B3
    return <uint32_t>(z >> 32)


cdef inline double next_double(Random* random) noexcept:
    random.state += GAMMA
    cdef uint64_t z = random.state
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return <double>((z ^ (z >> 31)) >> 11) * 2.0 ** -53


cdef inline uint32_t below(Random* random, uint32_t bound) noexcept:
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


cdef inline int64_t price(Random* random) noexcept:
    """Cents from 100 to 100 million, as many below 10,000 as above 1,000,000."""
    return <int64_t>floor(power(10.0, next_double(random) * 6.0) * 100.0 + 0.5)


def numbers(seed, bounds):
    """Return what ``nextInt(bound)`` gives for each bound in turn."""
    cdef Random random = Random(seed)
    return [below(&random, bound) for bound in bounds]


# --- texts


cdef inline str text_of(const char* letters, Py_ssize_t count):
    cdef object text = PyUnicode_New(count, 127)
    memcpy(PyUnicode_DATA(text), letters, count)
    return text


cdef str word(Random* random, uint32_t most, char special):
    """Draw a text of up to so many letters, at most 100, one of 13 of which is the special one."""
    cdef char letters[128]
    cdef Py_ssize_t place, first = 0, count = 3 + below(random, most - 3)
    for place in range(count):
        letters[place] = special if below(random, 13) == 0 else <char>(97 + below(random, 26))
    while first < count and letters[first] == 32:
        first += 1
    while first < count and letters[count - 1] == 32:
        count -= 1
    return text_of(letters + first, count - first)


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
    names = [*rules.HOT_CHANNELS, *(f"channel-{number}" for number in range(rules.CHANNEL_COUNT))]
    urls = []
    for place in range(len(names)):
        parts = [word(&random, 5, 95) for _ in range(3)]
        urls.append(f"https://www.nexmark.com/{'/'.join(parts)}/item.htm?query=1")
        if place >= len(rules.HOT_CHANNELS) and below(&random, 10):
            urls[place] += channel_id(place - len(rules.HOT_CHANNELS))
    return names, urls


def channel_id(number):
    """Return the part of a URL that names its channel: its number with its bits the other way round."""
    turned, top = int(f"{number:032b}"[::-1], 2), 1 << 31
    return f"&channel_id={turned if turned < top else turned - (1 << 32) if turned == top else (1 << 32) - turned}"


# --- events


cdef inline void put(object event, Py_ssize_t place, object field) noexcept:
    Py_INCREF(field)  # which the tuple takes
    PyTuple_SET_ITEM(event, place, field)


cdef class Generator:
    """Iterates over the events of a split from where it stands.

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
    cdef uint64_t seed
    cdef bytes pool
    cdef const char* letters
    cdef uint32_t pool_size
    cdef object person_class, auction_class, bid_class
    cdef list channels, urls, first_names, last_names, cities, states
    # Of the rules, which see.
    cdef uint32_t first_id, first_bidder, events_per_epoch, auctions_per_epoch, hot_batch, auctions_in_flight
    cdef uint32_t active_persons, id_lead, hot_auction, hot_seller, hot_bidder, first_category, category_count
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
        self.first_names, self.last_names = rules.FIRST_NAMES, rules.LAST_NAMES
        self.cities, self.states = rules.CITIES, rules.STATES
        self.base_time_ms, self.ahead_events = rules.BASE_TIME_MS, rules.AHEAD_EVENTS
        self.first_id = rules.FIRST_ID
        self.first_bidder = rules.FIRST_ID * (2 if split.doubles_bidder_id else 1)
        self.events_per_epoch, self.auctions_per_epoch = rules.EVENTS_PER_EPOCH, rules.AUCTIONS_PER_EPOCH
        self.hot_batch, self.auctions_in_flight = rules.HOT_BATCH, rules.AUCTIONS_IN_FLIGHT
        self.active_persons, self.id_lead = rules.ACTIVE_PERSONS, rules.ID_LEAD
        self.hot_auction, self.hot_seller = rules.HOT_AUCTION_RATIO, rules.HOT_SELLER_RATIO
        self.hot_bidder = rules.HOT_BIDDER_RATIO
        self.first_category, self.category_count = rules.FIRST_CATEGORY, rules.CATEGORY_COUNT
        self.person_size, self.auction_size, self.bid_size = rules.PERSON_SIZE, rules.AUCTION_SIZE, rules.BID_SIZE
        self.channel_count, self.hot_channel_count = rules.CHANNEL_COUNT, len(rules.HOT_CHANNELS)

    @property
    def drawn(self):
        return (self.random.state - self.seed) * GAMMA_INVERSE

    def __iter__(self):
        return self

    def __next__(self):
        if self.done >= self.count:
            raise StopIteration
        self.done += 1
        cdef int64_t event = self.first_event_id + self.done
        cdef int64_t epoch = event // self.events_per_epoch
        cdef int64_t turn = event - epoch * self.events_per_epoch
        if turn > self.auctions_per_epoch:
            return self.bid(epoch)
        return self.auction(epoch, turn) if turn else self.person(epoch)

    cdef inline int64_t date_time(self, int64_t number) noexcept:
        """When the event of this number happens; its split counts from 1."""
        return self.base_time_ms + <int64_t>(number * self.delay_us) // 1000

    cdef inline int64_t hot_person(self, int64_t epoch) noexcept:
        return epoch // self.hot_batch * self.hot_batch

    cdef inline int64_t some_person(self, int64_t epoch) noexcept:
        """One of the persons of late, or one that will come soon."""
        cdef int64_t active = min(epoch + 1, <int64_t>self.active_persons)
        return epoch + 1 - active + below(&self.random, <uint32_t>active + self.id_lead)

    cdef str extra(self, Py_ssize_t current, Py_ssize_t average):
        """A text that fills a record of `current` bytes up to `average`, more or less."""
        if current > average:
            return ""
        cdef Py_ssize_t missing = average - current
        cdef uint32_t spread = <uint32_t>(missing * 0.2 + 0.5)
        cdef Py_ssize_t length = missing - spread
        if spread:
            length += below(&self.random, 2 * spread)
        return text_of(self.letters + below(&self.random, self.pool_size - <uint32_t>length), length)

    cdef object bid(self, int64_t epoch):
        cdef Random* random = &self.random
        cdef int64_t last_auction = epoch * self.auctions_per_epoch + self.auctions_per_epoch - 1, low, auction, bidder
        cdef uint32_t channel
        if below(random, self.hot_auction):
            auction = last_auction // self.hot_batch * self.hot_batch
        else:
            low = max(last_auction - self.auctions_in_flight, <int64_t>0)
            auction = low + below(random, <uint32_t>(last_auction - low) + 1 + self.id_lead)
        bidder = self.hot_person(epoch) + 1 if below(random, self.hot_bidder) else self.some_person(epoch)
        cdef object event = PyType_GenericAlloc(<PyTypeObject*>self.bid_class, 7)
        put(event, 0, auction + self.first_id)
        put(event, 1, bidder + self.first_bidder)
        put(event, 2, price(random))
        if below(random, 2):
            channel = below(random, self.hot_channel_count)
        else:
            channel = self.hot_channel_count + below(random, self.channel_count)
        put(event, 3, self.channels[channel])
        put(event, 4, self.urls[channel])
        put(event, 5, self.date_time(self.done))
        put(event, 6, self.extra(32, self.bid_size))
        return event

    cdef object auction(self, int64_t epoch, int64_t turn):
        cdef Random* random = &self.random
        cdef int64_t when = self.date_time(self.done)
        cdef int64_t ahead = self.date_time(self.done + self.ahead_events) - when
        cdef int64_t seller = self.hot_person(epoch) if below(random, self.hot_seller) else self.some_person(epoch)
        cdef int64_t category = self.first_category + below(random, self.category_count)
        cdef int64_t initial_bid = price(random)
        cdef int64_t expires = when + 1 + below(random, <uint32_t>max(2 * ahead, <int64_t>1))
        cdef str name = word(random, 20, 32), description = word(random, 100, 32)
        cdef int64_t reserve = initial_bid + price(random)
        cdef object event = PyType_GenericAlloc(<PyTypeObject*>self.auction_class, 10)
        put(event, 0, epoch * self.auctions_per_epoch + turn - 1 + self.first_id)
        put(event, 1, name)
        put(event, 2, description)
        put(event, 3, initial_bid)
        put(event, 4, reserve)
        put(event, 5, when)
        put(event, 6, expires)
        put(event, 7, seller + self.first_id)
        put(event, 8, category)
        put(event, 9, self.extra(48 + len(name) + len(description), self.auction_size))
        return event

    cdef object person(self, int64_t epoch):
        cdef Random* random = &self.random
        first = self.first_names[below(random, <uint32_t>len(self.first_names))]
        name = f"{first} {self.last_names[below(random, <uint32_t>len(self.last_names))]}"
        user = word(random, 7, 32)
        email = f"{user}@{word(random, 5, 32)}.com"
        card = " ".join([f"{below(random, 10_000):04d}" for _ in range(4)])
        city = self.cities[below(random, <uint32_t>len(self.cities))]
        state = self.states[below(random, <uint32_t>len(self.states))]
        cdef Py_ssize_t size = 8 + len(name) + len(email) + len(card) + len(city) + len(state)
        fields = (epoch + self.first_id, name, email, card, city, state, self.date_time(self.done))
        return self.person_class(*fields, self.extra(size, self.person_size))
