"""The generator makes the events that the rules say, wherever it begins, also after a restore."""

import itertools
import pickle

import pytest
from nexmark import column_events, generator, rules
from nexmark.column_events import NexmarkColumnReader
from nexmark.events import Auction, Bid, Person
from nexmark.running import as_in_records
from nexmark.source import NexmarkReader, NexmarkSource
from plain_events import PlainSplit, SplittableRandom, channels, pool


@pytest.fixture(scope="module")
def plain():
    """What all splits share, made number by number."""
    return pool(), channels()


def events_of(split):
    return list(generator.Generator(split))


def test_pool_and_channels_are_those_of_the_rules(plain):
    assert (generator.pool().decode(), generator.channels()) == plain


@pytest.mark.parametrize(
    ("total", "split_count", "rate", "seed"),
    [(30_000, 1, 10_000, 1), (20_003, 3, 10_000_000, 1), (9_000, 2, 77, 5), (49, 2, 10_000, 1)],
)
def test_each_event_is_the_one_of_the_rules(plain, total, split_count, rate, seed):
    for index, split in enumerate(rules.splits_of(total, split_count, rate, seed)):
        expected = list(PlainSplit(index, split_count, total, rate, seed, *plain))
        made = [(type(event).__name__, tuple(event)) for event in events_of(split)]
        wrong = next((place for place, pair in enumerate(zip(made, expected, strict=True)) if pair[0] != pair[1]), None)
        assert wrong is None, f"event {wrong} of split {index}: {made[wrong]}, by the rules {expected[wrong]}"


@pytest.mark.parametrize("bounds", [[1 << 31], [1_500_000_000], [16, 13, 26, 10], [1]])
def test_numbers_are_those_of_a_splittable_random(bounds):
    """Of bounds like the second, one number in four is too high for an even chance and another is drawn."""
    random, bounds = SplittableRandom(7), bounds * 500
    assert generator.numbers(7, bounds) == [random.below(bound) for bound in bounds]


def test_one_in_fifty_is_a_person_and_three_are_auctions():
    kinds = [type(event) for event in events_of(rules.splits_of(5_000, 1)[0])]
    assert [kinds.count(kind) for kind in (Person, Auction, Bid)] == [100, 300, 4_600]


def test_the_first_id_is_added_to_a_bidder_twice_unless_it_is_said_otherwise():
    twice, once = (
        [event.bidder for event in events_of(split) if type(event) is Bid]
        for doubles in (True, False)
        for split in rules.splits_of(500, 1, doubles_bidder_id=doubles)
    )
    assert [bidder - 1000 for bidder in twice] == once and min(once) >= 1000


@pytest.mark.parametrize("places", [(0,), (1, 1), (6_000, 9_000), (7_431, 7_432, 1), (12_345, 7_000)])
def test_a_split_goes_on_with_the_event_it_was_at(places):
    """Restored at each of these places, counted from the restore before."""
    split = rules.splits_of(30_000, 1)[0]
    straight, made = events_of(split), []
    for place in places:
        reader = NexmarkReader(None)
        made += itertools.islice(reader.open_split(split), place)
        split = pickle.loads(pickle.dumps(reader.split_after(split, place)))
    made += NexmarkReader(None).open_split(split)
    assert made == straight


def test_a_split_goes_on_at_each_place_of_an_epoch_as_records_or_as_columns():
    split = rules.splits_of(170, 1)[0]
    straight = events_of(split)
    for place in range(90, 151):
        first = generator.Generator(split)
        made = list(itertools.islice(first, place))
        assert made + events_of(split.at(first.done, first.drawn)) == straight
        kinds = column_events.PERSON, column_events.AUCTION, column_events.BID
        block = column_events.Block(first.next_columns(1000, *kinds))
        assert block[2] is block[2]
        assert events_in([block]) == by_kind(straight[place:])


class Assigned:
    """An enumerator's context that notes what each subtask got."""

    parallelism = 2

    def __init__(self):
        self.given = []

    def assign_split(self, split, subtask_index):
        self.given.append((subtask_index, split.index))

    def signal_no_more_splits(self, subtask_index):
        self.given.append((subtask_index, None))


def test_a_subtask_that_is_done_early_leaves_the_splits_of_others_to_them():
    context = Assigned()
    enumerator = NexmarkSource(100, split_count=3).create_enumerator(context)
    for subtask in (0, 0, 0):
        enumerator.handle_split_request(subtask, None)
    (left,) = enumerator.snapshot_state(1)
    NexmarkSource(100).restore_enumerator(context, [left]).handle_split_request(1, None)
    enumerator.add_splits_back([left], 1)
    enumerator.handle_split_request(1, None)
    assert context.given == [(0, 0), (0, 2), (0, None), (1, 1), (1, 1)]


def events_in(blocks):
    """Return the events of each kind, with their times as records have them."""
    found = {Person: [], Auction: [], Bid: []}
    for block in blocks:
        for kind, batch in zip(found, block, strict=True):
            batch.validate(full=True)
            found[kind] += [kind(*map(as_in_records, row.values())) for row in batch.to_pylist()]
    return found


def by_kind(events):
    return {kind: [event for event in events if type(event) is kind] for kind in (Person, Auction, Bid)}


@pytest.mark.parametrize("block", [1, 49, 50, 333, 8192])
@pytest.mark.parametrize(("total", "split_count", "rate"), [(2_000, 2, 77), (1_001, 1, 10_000_000), (49, 2, 10_000)])
def test_columns_hold_the_same_events_however_many_are_in_a_block(total, split_count, rate, block):
    for split in rules.splits_of(total, split_count, rate, seed=3):
        blocks = list(NexmarkColumnReader(None, block).open_split(split))
        assert [sum(batch.num_rows for batch in each) for each in blocks[:-1]] == [block] * (len(blocks) - 1)
        assert events_in(blocks) == by_kind(events_of(split))


@pytest.mark.parametrize("places", [(0,), (1, 1), (11, 20), (3, 0, 1)])
def test_a_split_goes_on_with_the_block_it_was_at(places):
    """Restored at each of these places, counted from the restore before, and read in blocks of another size then."""
    split = rules.splits_of(7_000, 1)[0]
    straight, blocks = by_kind(events_of(split)), []
    for block, place in enumerate(places, start=150):
        reader = NexmarkColumnReader(None, block)
        blocks += itertools.islice(reader.open_split(split), place)
        split = pickle.loads(pickle.dumps(reader.split_after(split, place)))
    blocks += NexmarkColumnReader(None, 1000).open_split(split)
    assert events_in(blocks) == straight
