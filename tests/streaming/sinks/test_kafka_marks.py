"""The text that says which transactions of Kafka were committed."""

from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.streaming.sinks.kafka_marks import CommittedNumbers

NAMES = st.builds("{}.{}".format, st.sampled_from("abc"), st.integers(1, 40))


@given(st.lists(NAMES), NAMES)
def test_what_was_added_is_said_and_nothing_else(names, other):
    committed = CommittedNumbers()
    for name in names:
        committed = CommittedNumbers.parse(str(committed))
        committed.add(name)
    found = CommittedNumbers.parse(str(committed))
    assert all(name in found for name in names)
    assert (other in found) == (other in names)


def test_a_writer_s_transactions_in_order_are_one_range_however_many():
    committed = CommittedNumbers()
    for number in range(1, 10_001):
        committed.add(f"writer.{number}")
    assert str(committed) == "writer:1-10000"


def test_the_oldest_are_forgotten_when_they_no_longer_fit():
    committed = CommittedNumbers()
    for writer in range(1_000):
        committed.add(f"{writer:016x}.1")
    text = str(committed)
    assert 3_900 < len(text) < 4_096
    found = CommittedNumbers.parse(text)
    assert f"{999:016x}.1" in found and f"{900:016x}.1" in found and f"{0:016x}.1" not in found
    for number in range(1, 4_000, 2):
        committed.add(f"gaps.{number}")
    found = CommittedNumbers.parse(str(committed))
    assert len(str(committed)) < 4_096 and "gaps.3999" in found and "gaps.1" not in found


def test_names_from_before_transactions_were_counted_are_kept():
    committed = CommittedNumbers.parse("0123456789abcdef0123 fedcba98765432100123")
    committed.add("new.1")
    assert str(committed) == "0123456789abcdef0123 fedcba98765432100123 new:1-1"
    assert "fedcba98765432100123" in CommittedNumbers.parse(str(committed)) and "other" not in committed
