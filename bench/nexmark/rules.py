"""The rules by which events are made: numbers, texts, and how they are numbered."""

from dataclasses import dataclass, replace

FIRST_ID = 1000  # of persons and auctions
FIRST_CATEGORY = 10
CATEGORY_COUNT = 5
EVENTS_PER_EPOCH = 50  # 1 person, 3 auctions, 46 bids
AUCTIONS_PER_EPOCH = 3
HOT_BATCH = 100  # so many persons or auctions have one hot one among them
HOT_AUCTION_RATIO = 2
HOT_SELLER_RATIO = 4
HOT_BIDDER_RATIO = 4
AUCTIONS_IN_FLIGHT = 100
ACTIVE_PERSONS = 1000
ID_LEAD = 10  # how far ahead of what exists an id may be
PERSON_SIZE, AUCTION_SIZE, BID_SIZE = 200, 500, 100  # average bytes
CHANNEL_COUNT = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
POOL_SIZE = 1 << 20  # letters of which extra texts are slices
AHEAD_EVENTS = AUCTIONS_IN_FLIGHT * EVENTS_PER_EPOCH // AUCTIONS_PER_EPOCH  # auctions last about so many events

FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]

BASE_TIME_MS = 1_600_000_000_000


@dataclass(frozen=True)
class Split:
    """The events of one subtask: `count` of them, of which the first `done` have been made.

    `drawn` is how many numbers they took, so that the rest can be made without them.
    """

    index: int
    split_count: int
    first_event_id: int
    count: int
    rate: int
    seed: int
    doubles_bidder_id: bool
    done: int = 0
    drawn: int = 0

    @property
    def split_id(self):
        return str(self.index)

    @property
    def delay_us(self):
        """Between two events of this split."""
        return 1_000_000.0 / self.rate * self.split_count

    def at(self, done, drawn):
        """Return the rest of the split."""
        return replace(self, done=done, drawn=drawn)


def splits_of(events, split_count, rate=10_000, seed=1, doubles_bidder_id=True):
    """Cut so many events into splits; the last one takes what is left over.

    Upstream adds the first id to a bidder's twice, and all figures that were published since 2021 have it so;
    ``doubles_bidder_id=False`` adds it once.
    """
    share = events // split_count
    counts = [share] * (split_count - 1) + [events - share * (split_count - 1)]
    return [
        Split(index, split_count, 1 + index * share, count, rate, seed + index, doubles_bidder_id)
        for index, count in enumerate(counts)
    ]
