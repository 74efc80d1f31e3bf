"""Messages of pgoutput: what they say, and that nothing else than an error comes of bytes that are none."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.postgres import pgoutput
from flinkbuf.streaming.postgres.pgoutput import (
    Change,
    Column,
    Relation,
    TransactionBegin,
    TransactionCommit,
    Truncate,
    TypeName,
    Unchanged,
    decode,
)

LSN = st.integers(0, 2**64 - 1)
OID = st.integers(0, 2**32 - 1)
NAME = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1, max_size=10)
VALUES = st.lists(st.none() | st.just(Unchanged.VALUE) | st.binary(max_size=20), max_size=5).map(tuple)
BEGIN = st.builds(TransactionBegin, LSN, st.integers(0, 2**53))
COMMIT = st.builds(TransactionCommit, LSN, LSN)
RELATION = st.builds(Relation, OID, NAME, NAME, st.lists(st.builds(Column, NAME, OID), max_size=5).map(tuple))
CHANGE = st.one_of(
    st.builds(Change, OID, st.just(False), st.none(), VALUES),
    st.builds(Change, OID, st.just(True), st.none(), VALUES),
    st.builds(Change, OID, st.just(True), VALUES, VALUES, st.booleans()),
    st.builds(Change, OID, st.just(False), VALUES, st.none(), st.booleans()),
)
TRUNCATE = st.builds(Truncate, st.lists(OID, max_size=4).map(tuple))
MESSAGE = st.one_of(BEGIN, COMMIT, RELATION, CHANGE, TRUNCATE, st.builds(TypeName, OID, NAME))


def text(value):
    return value.encode() + b"\0"


def encoded_values(values):
    found = struct.pack("!H", len(values))
    for value in values:
        if value is None:
            found += b"n"
        elif value is Unchanged.VALUE:
            found += b"u"
        else:
            found += b"t" + struct.pack("!I", len(value)) + value
    return found


def encoded_change(change):
    kind = b"U" if change.is_update else b"D" if change.new is None else b"I"
    old = b"" if change.old is None else (b"O" if change.is_old_whole else b"K") + encoded_values(change.old)
    new = b"" if change.new is None else b"N" + encoded_values(change.new)
    return kind + struct.pack("!I", change.relation_oid) + old + new


def encoded(message):
    """What a server would send."""
    if isinstance(message, TransactionBegin):
        return b"B" + struct.pack("!QqI", message.commit_lsn, message.commit_us - 946_684_800_000_000, 7)
    if isinstance(message, TransactionCommit):
        return b"C\0" + struct.pack("!QQq", message.commit_lsn, message.end_lsn, 0)
    if isinstance(message, Relation):
        columns = b"".join(b"\1" + text(each.name) + struct.pack("!Ii", each.type_oid, -1) for each in message.columns)
        head = b"R" + struct.pack("!I", message.oid) + text(message.schema) + text(message.name) + b"d"
        return head + struct.pack("!H", len(message.columns)) + columns
    if isinstance(message, TypeName):
        return b"Y" + struct.pack("!I", message.oid) + text("") + text(message.name)
    if isinstance(message, Truncate):
        oids = message.relation_oids
        return b"T" + struct.pack(f"!IB{len(oids)}I", len(oids), 0, *oids)
    return encoded_change(message)


@given(MESSAGE)
def test_a_message_says_what_the_server_has_put_into_it(message):
    assert decode(encoded(message)) == message


def test_where_a_change_comes_from_says_nothing_of_rows():
    assert decode(b"O" + bytes(8) + b"elsewhere\0") is None


@given(MESSAGE, st.data())
def test_a_message_that_is_cut_off_or_goes_on_is_refused(message, data):
    whole = encoded(message)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:cut], whole + b"\0"):
        with pytest.raises(CorruptDataError, match="of pgoutput"):
            decode(wrong)


@given(MESSAGE, st.data())
def test_bytes_that_changed_are_another_message_or_an_error(message, data):
    whole = bytearray(encoded(message))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptDataError):
        decode(bytes(whole))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(data):
    for kind in (b"", *pgoutput._READERS):
        with suppress(CorruptDataError):
            decode(kind + data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "1 bytes are to come, and 0 are there"),
        (b"S", "no message of version 1 begins with b'S'"),
        (b"I\0\0\0\1N\0\1t\xff\xff\xff\xffab", "4294967295 bytes are to come, and 2 are there"),
        (b"I\0\0\0\1N\0\1b\0\0\0\0", "form b'b'"),
        (b"I\0\0\0\1O\0\0", "'N' and a row are expected, got b'O'"),
        (b"D\0\0\0\1N\0\0", "'K' or 'O' and a row are expected"),
        (b"T\xff\xff\xff\xff\0", "17179869180 bytes are to come"),
        (b"R\0\0\0\1name", "a name has no end"),
        (b"R\0\0\0\1\xff\0", "is not in UTF-8"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(data, words):
    with pytest.raises(CorruptDataError, match=words):
        decode(data)
