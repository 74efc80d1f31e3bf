"""The generator makes the events that the rules say, wherever it begins, also after a restore."""

import itertools
import pickle

import pytest
from nexmark import generator, rules
from nexmark.events import Auction, Bid, Person
from nexmark.kept_events import keep
from nexmark.source import NexmarkReader
from plain_events import PlainSplit, SplittableRandom, channels, pool


@pytest.fixture(scope="module")
def plain():
    """What all splits share, made number by number."""
    return pool(), channels()


def events_of(split):
    return list(itertools.chain.from_iterable(map(generator.as_events, generator.Generator(split))))


def test_pool_and_channels_are_those_of_the_rules(plain):
    assert generator.pool() == plain[0]
    assert generator.channels() == tuple(map(list, plain[1])) or generator.channels() == plain[1]


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


def test_numbers_that_do_not_do_are_drawn_again_as_in_java(monkeypatch, plain):
    """One in some ten thousand events has such a number; here every second one may have."""
    monkeypatch.setattr(generator, "BID_RISK", 1 << 30)
    monkeypatch.setattr(generator, "WORD_RISK", 1 << 30)
    split = rules.splits_of(2_000, 1)[0]
    expected = [fields for _, fields in PlainSplit(0, 1, 2_000, 10_000, 1, *plain)]
    assert list(map(tuple, events_of(split))) == expected


def test_a_bound_that_is_no_power_of_two_refuses_the_last_numbers():
    numbers = generator.Numbers(1, 0, 100)
    numbers.view = memoryview(bytearray((2**32 - 1).to_bytes(4, "little") + (14).to_bytes(4, "little"))).cast("I")
    assert numbers.below(10) == 7 and numbers.place == 2


@pytest.mark.parametrize("first", [0, 1, 2**40])
def test_numbers_are_those_of_a_splittable_random(first):
    random = SplittableRandom((7 + first * generator.GAMMA) % 2**64)
    numbers = generator.Numbers(7, first, 50)
    assert [numbers.below(1 << 31) for _ in range(50)] == [random.next_int() % 2**31 for _ in range(50)]


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


@pytest.mark.parametrize("is_kept", [False, True], ids=["made", "read"])
@pytest.mark.parametrize("places", [(0,), (1, 1), (6_000, 9_000), (7_431, 7_432, 1), (12_345, 7_000)])
def test_a_split_goes_on_with_the_event_it_was_at(tmp_path, places, is_kept):
    """Restored at each of these places, counted from the restore before."""
    split = rules.splits_of(30_000, 1)[0]
    folder = tmp_path if is_kept else None
    if is_kept:
        keep(split, folder)
    straight, made = events_of(split), []
    for place in places:
        reader = NexmarkReader(None, folder)
        made += itertools.islice(reader.open_split(split), place)
        split = pickle.loads(pickle.dumps(reader.split_after(split, place)))
    made += NexmarkReader(None, folder).open_split(split)
    assert made == straight


def test_a_split_goes_on_also_where_a_block_ends():
    split = rules.splits_of(30_000, 1)[0]
    straight = events_of(split)
    end_of_block = len(next(generator.Generator(split)))
    for place in (end_of_block - 1, end_of_block, end_of_block + 1):
        reader = NexmarkReader(None)
        made = list(itertools.islice(reader.open_split(split), place))
        made += NexmarkReader(None).open_split(reader.split_after(split, place))
        assert made == straight
