"""Makes the events of a split, some thousand at a time: bids as columns of numpy, the rarer rest one by one.

Numbers of Java's SplittableRandom are what a function makes of consecutive states, so a block of them is made at once.
How many of them an event takes depends on some of them; finding where each event begins is the one loop over all.
"""

import functools
from bisect import bisect_left
from itertools import repeat

import numpy as np

from nexmark import rules
from nexmark.events import Auction, Bid, Person

GAMMA = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
TOP = 1 << 31
BLOCK_NUMBERS = 1 << 17  # some 7,500 events
WORD_RISK = TOP - 26  # from here on a number may not do for a letter, and another one is drawn
BID_RISK = TOP - (1 << 18)  # likewise for all that a bid draws
BID_EXTRA, BID_EXTRA_LENGTHS = rules.extra_length_range(32, rules.BID_SIZE)


def states(seed, first, count):
    """Return the states of a SplittableRandom from its number `first` on, counted from 0."""
    start = np.uint64((seed + GAMMA * (first + 1)) & MASK)
    return start + np.arange(count, dtype=np.uint64) * np.uint64(GAMMA)


def mixed_ints(z):
    """Return what ``nextInt()`` gives in these states, without sign; `z` is used up."""
    z ^= z >> np.uint64(33)
    z *= np.uint64(0x62A9D9ED799705F5)
    z ^= z >> np.uint64(28)
    z *= np.uint64(0xCB24D0A5C88C35B3)
    return (z >> np.uint64(32)).astype(np.uint32)


def mixed_doubles(z):
    """Return what ``nextDouble()`` gives in these states; `z` is used up."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


class Numbers:
    """Consecutive numbers of a SplittableRandom; `place` is that of the next one."""

    def __init__(self, seed, first, count):
        self.seed, self.first, self.count, self.place = seed, first, count, 0
        self.ints = mixed_ints(states(seed, first, count))
        self.halves = self.ints >> np.uint32(1)
        self.view = memoryview(self.ints)
        # numpy divides by one number faster than it makes remainders, and those of 26 tell those of 13.
        letters = (self.halves - self.halves // np.uint32(26) * np.uint32(26)).astype(np.uint8)
        is_special = (letters == 0) | (letters == 13)
        letters += np.uint8(ord("a"))
        self.letters, self.specials = letters.tobytes(), is_special.tobytes()
        self.find_characters(letters, is_special)
        self.risky = np.flatnonzero(self.halves >= np.uint32(WORD_RISK)).tolist()

    def find_characters(self, letters, is_special):
        """Find where characters of words begin, if one does behind each number that makes a special one.

        A letter takes two numbers, the special character one; so behind a special number a character begins in any
        case, and from there on at each second number up to the next special one.
        """
        places = np.arange(len(letters), dtype=np.int32)
        behind = np.maximum.accumulate(np.where(is_special, places + np.int32(1), np.int32(0)))
        begins = np.ones(len(letters), dtype=bool)
        begins[1:] = (places[1:] - behind[:-1]) & 1 == 0
        ranks = np.cumsum(begins, dtype=np.int32)
        begins[-1] = False
        starts = np.flatnonzero(begins)
        self.starts, self.ranks = (
            memoryview(starts),
            memoryview(ranks),
        )  # of characters: places; and the other way round
        self.characters = np.where(is_special[starts], np.uint8(ord(" ")), letters[starts + 1]).tobytes()

    def below(self, bound):
        """Draw ``nextInt(bound)``."""
        number = self.view[self.place]
        self.place += 1
        if bound & (bound - 1) == 0:
            return number & (bound - 1)
        number >>= 1
        result = number % bound
        while number + bound - 1 - result >= TOP:
            number = self.view[self.place] >> 1
            self.place += 1
            result = number % bound
        return result

    def word(self, most, special=b" "):
        """Draw a text of up to so many characters, one of 13 of which is the special one."""
        count = 3 + self.below(most - 3)
        place = self.place
        found = self.specials.find(1, place, place + 2 * count)
        if found < 0:
            text = self.letters[place + 1 : place + 2 * count : 2]
            end = place + 2 * count
        else:  # what was found is special, or the second number of a letter; behind it characters are known
            letter_count, is_second = divmod(found - place, 2)
            text = self.letters[place + 1 : found + is_second : 2] + (b"" if is_second else b" ")
            first, left = self.ranks[found + 1] - 1, count - letter_count - 1
            text += self.characters[first : first + left]
            end = self.starts[first + left]
        if self.risky and bisect_left(self.risky, place) < bisect_left(self.risky, end):
            text = self.word_letter_by_letter(count)
        else:
            self.place = end
        return text.replace(b" ", special).decode("ascii").strip(" ")

    def word_letter_by_letter(self, count):
        """Draw a text whose numbers may not all do."""
        return b"".join(b" " if self.below(13) == 0 else b"%c" % (97 + self.below(26)) for _ in range(count))

    def below_at(self, places, bounds):
        """Return what ``nextInt(bound)`` gives at these places, where the number there does."""
        bounds = bounds.astype(np.uint32)
        is_power_of_two = bounds & (bounds - np.uint32(1)) == 0
        numbers = np.where(is_power_of_two, self.ints[places], self.halves[places])
        return (numbers % bounds).astype(np.int64)

    def doubles_at(self, places):
        """Return what ``nextDouble()`` gives at these places."""
        first = np.uint64((self.seed + GAMMA * (self.first + 1)) & MASK)
        return mixed_doubles(first + places.astype(np.uint64) * np.uint64(GAMMA))

    def extra(self, current, average):
        """Draw a text that fills a record of `current` bytes up to `average`, more or less."""
        if current > average:
            return ""
        length, length_count = rules.extra_length_range(current, average)
        if length_count:
            length += self.below(length_count)
        start = self.below(rules.POOL_SIZE - length)
        return pool()[start : start + length]


def prices_of(doubles):
    """Return cents from 100 to 100 million, as many below 10,000 as above 1,000,000."""
    return np.floor(np.power(10.0, doubles * 6) * 100.0 + 0.5).astype(np.int64)


@functools.cache
def pool(seed=1_000_001):
    """Return the letters of which extra texts are slices: six of each number, in the order of Java's remainders."""
    count = -(-rules.POOL_SIZE // 6)
    numbers = mixed_ints(states(seed, 0, count)).view(np.int32).astype(np.int64)
    columns = []
    for _ in range(6):
        rest = np.fmod(numbers, 26)
        columns.append((rest + ord("a")).astype(np.uint8))
        numbers = (numbers - rest) // 26
    return np.stack(columns, axis=1).tobytes()[: rules.POOL_SIZE].decode("ascii")


@functools.cache
def channels(seed=1_000_000):
    """Return names and URLs of all channels, the four hot ones first."""
    numbers = Numbers(seed, 0, 400_000)

    def url():
        parts = [numbers.word(5, b"_") for _ in range(3)]
        return f"https://www.nexmark.com/{'/'.join(parts)}/item.htm?query=1"

    urls = [url() for _ in rules.HOT_CHANNELS]
    for number in range(rules.CHANNEL_COUNT):
        urls.append(url() + (channel_id(number) if numbers.below(10) else ""))
    return [*rules.HOT_CHANNELS, *(f"channel-{number}" for number in range(rules.CHANNEL_COUNT))], urls


def channel_id(number):
    """Return the part of a URL that names its channel: its number with its bits the other way round."""
    turned = int(f"{number:032b}"[::-1], 2)
    return f"&channel_id={turned if turned < TOP else turned - (1 << 32) if turned == TOP else (1 << 32) - turned}"


KIND_OF_LENGTH = {len(kind._fields): kind for kind in (Person, Auction, Bid)}


def as_events(rows):
    """Go over a list of rows as events. Each is made when it is wanted: what lives long costs the garbage collector."""
    return map(tuple.__new__, map(KIND_OF_LENGTH.__getitem__, map(len, rows)), rows)


class Generator:
    """Makes the events of a split from where it stands, as plain rows, some thousand at a time."""

    def __init__(self, split):
        self.split = split
        self.done, self.drawn = split.done, split.drawn
        self.names, self.urls = channels()
        self.pool = pool()

    def __iter__(self):
        return self

    def __next__(self):
        """Return some thousand rows more."""
        split = self.split
        if self.done >= split.count:
            raise StopIteration
        block = Block(self, Numbers(split.seed, self.drawn, BLOCK_NUMBERS))
        rows = block.rows()
        self.done += len(rows)
        self.drawn += block.numbers.place
        return rows


class Block:
    """The events that can be made of some numbers."""

    def __init__(self, generator, numbers):
        self.generator, self.split, self.numbers = generator, generator.split, numbers
        self.first = self.split.first_event_id + 1 + generator.done  # id of the first event
        self.room = self.split.count - generator.done
        self.auction_places, self.auction_fields = [], []

    def rows(self):
        """Return the events in order, as plain tuples."""
        numbers, made = self.numbers, []
        steps, starts, runs, slow = self.bid_steps(), [], [], []
        limit = numbers.count - rules.EPOCH_ROOM
        event, end = self.first, self.first + self.room
        while event < end and numbers.place < limit:
            turn = event % rules.EVENTS_PER_EPOCH
            if turn == 0:
                made.append(self.person(event))
                event += 1
            elif turn <= rules.AUCTIONS_PER_EPOCH:
                self.auction(event, len(made))
                made.append(None)
                event += 1
            else:
                count = min(rules.EVENTS_PER_EPOCH - turn, end - event)
                runs.append((len(made), event, count))
                made.extend(repeat(None, count))
                place = numbers.place
                for at in range(count):
                    starts.append(place)
                    step = steps[place]
                    if not step:
                        numbers.place = place
                        slow.append((len(made) - count + at, self.bid(event + at)))
                        place = numbers.place
                    else:
                        place += step
                numbers.place = place
                event += count
        self.put_bids(made, runs, np.array(starts, dtype=np.int64))
        self.put_auctions(made)
        for at, bid in slow:
            made[at] = bid
        return made

    def date_times(self, number):
        """Return when the events of these numbers happen."""
        return rules.BASE_TIME_MS + (number * self.split.delay_us).astype(np.int64) // 1000

    def date_time(self, number):
        """Return when the event of this number happens."""
        return rules.BASE_TIME_MS + int(number * self.split.delay_us) // 1000

    def number_of(self, event):
        """Return an event's number in its split, from 1."""
        return event - self.split.first_event_id

    # --- bids, which are most of the events

    def bid_steps(self):
        """Return how many numbers a bid takes that begins at each place; 0: it has to be made number by number."""
        ints = self.numbers.ints
        no_hot_auction = (ints & 1 == 0).astype(np.uint8)
        no_hot_bidder = (ints & 3 == 0).astype(np.uint8)
        steps = np.zeros(len(ints), dtype=np.uint8)
        steps[:-2] = 7 + no_hot_auction[:-2] + np.where(no_hot_auction[:-2], no_hot_bidder[2:], no_hot_bidder[1:-1])
        for place in np.flatnonzero(self.numbers.halves >= np.uint32(BID_RISK)).tolist():
            steps[max(place - 8, 0) : place + 1] = 0
        return steps.tobytes()

    def put_bids(self, made, runs, starts):
        """Make all bids; those that were made number by number come out wrong and are replaced."""
        events = np.concatenate([np.arange(event, event + count) for _, event, count in runs] or [starts])
        ints, halves, split = self.numbers.ints, self.numbers.halves, self.split
        epoch = events // rules.EVENTS_PER_EPOCH
        last_auction = epoch * rules.AUCTIONS_PER_EPOCH + 2  # all bids come behind the auctions of their epoch

        is_hot = ints[starts] & 1 > 0
        place = starts + 1
        low = np.maximum(last_auction - rules.AUCTIONS_IN_FLIGHT, 0)
        some = low + self.numbers.below_at(place, last_auction - low + 1 + rules.ID_LEAD)
        auction = np.where(is_hot, last_auction // rules.HOT_BATCH * rules.HOT_BATCH, some) + rules.FIRST_ID
        place += ~is_hot

        is_hot = ints[place] & 3 > 0
        place += 1
        active = np.minimum(epoch + 1, rules.ACTIVE_PERSONS)
        some = epoch + 1 - active + self.numbers.below_at(place, active + rules.ID_LEAD)
        bidder = np.where(is_hot, epoch // rules.HOT_BATCH * rules.HOT_BATCH + 1, some)
        bidder += rules.FIRST_ID * (2 if split.doubles_bidder_id else 1)
        place += ~is_hot

        price = prices_of(self.numbers.doubles_at(place))
        is_hot = ints[place + 1] & 1 > 0
        cold = halves[place + 2] % rules.CHANNEL_COUNT + len(rules.HOT_CHANNELS)
        channel = np.where(is_hot, ints[place + 2] & 3, cold).tolist()
        length = BID_EXTRA + (halves[place + 3] % BID_EXTRA_LENGTHS).astype(np.int64)
        start = halves[place + 4] % (rules.POOL_SIZE - length)
        text, names, urls = self.generator.pool, self.generator.names, self.generator.urls
        columns = (
            auction.tolist(),
            bidder.tolist(),
            price.tolist(),
            map(names.__getitem__, channel),
            map(urls.__getitem__, channel),
            self.date_times(self.number_of(events)).tolist(),
            [text[first:end] for first, end in zip(start.tolist(), (start + length).tolist(), strict=True)],
        )
        bids = list(zip(*columns, strict=True))
        at = 0
        for first, _, count in runs:
            made[first : first + count] = bids[at : at + count]
            at += count

    def bid(self, event):
        """Make one bid number by number."""
        below, split = self.numbers.below, self.split
        epoch = event // rules.EVENTS_PER_EPOCH
        last_auction = epoch * rules.AUCTIONS_PER_EPOCH + 2
        if below(rules.HOT_AUCTION_RATIO):
            auction = last_auction // rules.HOT_BATCH * rules.HOT_BATCH
        else:
            low = max(last_auction - rules.AUCTIONS_IN_FLIGHT, 0)
            auction = low + below(last_auction - low + 1 + rules.ID_LEAD)
        bidder = (
            epoch // rules.HOT_BATCH * rules.HOT_BATCH + 1 if below(rules.HOT_BIDDER_RATIO) else self.person_id(epoch)
        )
        bidder += rules.FIRST_ID * (2 if split.doubles_bidder_id else 1)
        price = int(prices_of(self.numbers.doubles_at(np.array([self.numbers.place])))[0])
        self.numbers.place += 1
        channel = below(len(rules.HOT_CHANNELS)) if below(2) else below(rules.CHANNEL_COUNT) + len(rules.HOT_CHANNELS)
        name, url = self.generator.names[channel], self.generator.urls[channel]
        when = self.date_time(self.number_of(event))
        return (auction + rules.FIRST_ID, bidder, price, name, url, when, self.numbers.extra(32, rules.BID_SIZE))

    # --- persons and auctions

    def person_id(self, epoch):
        """Draw one of the persons of late, or one that will come soon."""
        active = min(epoch + 1, rules.ACTIVE_PERSONS)
        return epoch + 1 - active + self.numbers.below(active + rules.ID_LEAD)

    def person(self, event):
        """Make a person."""
        below, word = self.numbers.below, self.numbers.word
        first = rules.FIRST_NAMES[below(len(rules.FIRST_NAMES))]
        name = f"{first} {rules.LAST_NAMES[below(len(rules.LAST_NAMES))]}"
        email = f"{word(7)}@{word(5)}.com"
        card = " ".join([f"{below(10_000):04d}" for _ in range(4)])
        city, state = rules.CITIES[below(len(rules.CITIES))], rules.STATES[below(len(rules.STATES))]
        size = 8 + len(name) + len(email) + len(card) + len(city) + len(state)
        extra = self.numbers.extra(size, rules.PERSON_SIZE)
        when = self.date_time(self.number_of(event))
        return (event // rules.EVENTS_PER_EPOCH + rules.FIRST_ID, name, email, card, city, state, when, extra)

    def auction(self, event, at):
        """Draw what an auction is; its two prices are made with those of all auctions."""
        numbers = self.numbers
        epoch, turn = divmod(event, rules.EVENTS_PER_EPOCH)
        seller = epoch // rules.HOT_BATCH * rules.HOT_BATCH
        if numbers.below(rules.HOT_SELLER_RATIO) == 0:
            seller = self.person_id(epoch)
        category = rules.FIRST_CATEGORY + numbers.below(rules.CATEGORY_COUNT)
        self.auction_places.append(numbers.place)
        numbers.place += 1
        number = self.number_of(event)
        when = self.date_time(number)
        ahead = self.date_time(number + rules.AHEAD_EVENTS) - when
        expires = when + 1 + numbers.below(max(2 * ahead, 1))
        name, description = numbers.word(20), numbers.word(100)
        self.auction_places.append(numbers.place)
        numbers.place += 1
        extra = numbers.extra(48 + len(name) + len(description), rules.AUCTION_SIZE)
        number = epoch * rules.AUCTIONS_PER_EPOCH + turn - 1 + rules.FIRST_ID
        self.auction_fields.append(
            (at, number, name, description, when, expires, seller + rules.FIRST_ID, category, extra)
        )

    def put_auctions(self, made):
        """Make all auctions."""
        prices = iter(prices_of(self.numbers.doubles_at(np.array(self.auction_places, dtype=np.int64))).tolist())
        for at, number, name, description, when, expires, seller, category, extra in self.auction_fields:
            first = next(prices)
            reserve = first + next(prices)
            made[at] = (number, name, description, first, reserve, when, expires, seller, category, extra)
