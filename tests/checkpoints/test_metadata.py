"""The bytes of _metadata: all comes back, and nothing that was not written is believed."""

import dataclasses
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.data.checkpoint_files import write_checkpoint

from flinkbuf.checkpoints.handles import (
    ChannelState,
    CheckpointMetadata,
    KeyedStateHandle,
    OperatorInCheckpoint,
    OperatorSubtaskState,
    SharedFile,
    StateHandle,
    SubtaskState,
    VertexInCheckpoint,
)
from flinkbuf.checkpoints.metadata import decode_metadata, encode_metadata
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.errors import CorruptDataError

HERE = "/c/job/chk-1"
PATHS = st.sampled_from([HERE + "/a", "/c/job/shared/b", "/d/c", "s3://bucket/x?region=y", "/c/job/chk-12/z"])
COUNTS = st.integers(0, 1 << 40)
HANDLES = st.builds(StateHandle, size=COUNTS, checksum=COUNTS, path=PATHS, offset=COUNTS) | st.binary(max_size=9).map(
    lambda data: StateHandle(len(data), zlib.crc32(data), data=data)
)
TEXTS = st.text(max_size=5)
KEYED = st.builds(
    lambda first, more, handle, backend, files: KeyedStateHandle(first, first + more, 128, handle, backend, files),
    st.integers(0, 63),
    st.integers(0, 64),
    HANDLES,
    TEXTS,
    st.lists(st.builds(SharedFile, TEXTS, HANDLES), max_size=2).map(tuple),
)
OPERATORS = st.builds(
    OperatorSubtaskState,
    TEXTS,
    st.none() | HANDLES,
    st.booleans(),
    st.booleans(),
    st.lists(KEYED, max_size=2).map(tuple),
)
CHANNELS = st.lists(st.builds(ChannelState, COUNTS, COUNTS, HANDLES), max_size=2).map(tuple)
SUBTASKS = st.none() | st.builds(SubtaskState, st.lists(OPERATORS, max_size=2).map(tuple), CHANNELS, CHANNELS)
VERTICES = st.lists(SUBTASKS, min_size=1, max_size=3).flatmap(
    lambda subtasks: st.builds(
        VertexInCheckpoint,
        TEXTS,
        TEXTS,
        st.just(len(subtasks)),
        st.just(128),
        st.lists(st.builds(OperatorInCheckpoint, TEXTS, TEXTS, st.none() | TEXTS, st.none() | HANDLES)).map(tuple),
        st.just(tuple(subtasks)),
    )
)
METADATA = st.builds(
    CheckpointMetadata, COUNTS, COUNTS, TEXTS, TEXTS, st.booleans(), st.lists(VERTICES, max_size=2).map(tuple)
)


@settings(max_examples=60)
@given(METADATA)
def test_all_comes_back(metadata):
    assert decode_metadata(encode_metadata(metadata, HERE), HERE) == metadata


@pytest.fixture
def checkpoint(tmp_path):
    metadata, path = write_checkpoint(storage_of(str(tmp_path)))
    with open(path, "rb") as file:
        return metadata, file.read(), path.rpartition("/")[0]


def test_every_truncation_is_refused_with_file_and_offset(checkpoint):
    _, data, _ = checkpoint
    for size in range(len(data)):
        with pytest.raises(CorruptDataError, match="/c/job/chk-1/_metadata is damaged at byte") as caught:
            decode_metadata(data[:size], HERE)
        assert caught.value.path == HERE + "/_metadata"
        assert 0 <= caught.value.offset <= size
    with pytest.raises(CorruptDataError, match=f"damaged at byte {len(data)}: it has {len(data) + 1} bytes"):
        decode_metadata(data + b"x", HERE)


def test_every_flip_of_a_bit_is_refused(checkpoint):
    _, data, _ = checkpoint
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(CorruptDataError) as caught:
                decode_metadata(bytes(flipped), HERE)
            assert caught.value.offset <= place, "it begins where one should look"


def sealed(description, state=b"", version=1):
    head = struct.pack(
        "<8sIQQII",
        b"fb-chkpt",
        version,
        len(description),
        len(state),
        zlib.crc32(description),
        zlib.crc32(state),
    )
    return head + struct.pack("<I", zlib.crc32(head)) + description + state


def test_a_later_version_is_refused_by_its_number(checkpoint):
    with pytest.raises(CorruptDataError, match="it is of version 2; this flinkbuf reads version 1 alone"):
        decode_metadata(sealed(b"{}", version=2), HERE)


SMALL = b'"checkpoint_id":1,"timestamp_ms":2,"job_id":"","job_name":"","is_savepoint":false'
VERTEX = b'"vertex_id":"","name":"v","operators":[],"max_parallelism":4'


@pytest.mark.parametrize(
    "description, message",
    [
        (b"", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"{}", "with the fields"),
        (b"{" + SMALL + b"}", "with the fields"),
        (b"{" + SMALL + b',"vertices":[],"more":1}', "with the fields"),
        (b"{" + SMALL + b',"vertices":[{%b,"parallelism":2,"subtasks":[null]}]}' % VERTEX, "has 2 subtasks, and st"),
        (
            b"{" + SMALL + b',"vertices":[{%b,"parallelism":5,"subtasks":[%b]}]}' % (VERTEX, b",".join([b"null"] * 5)),
            "5",
        ),
        (b"{" + SMALL + b',"vertices":[{%b,"parallelism":0,"subtasks":[]}]}' % VERTEX, "parallelism 0 and at most 4"),
    ],
)
def test_what_no_writer_wrote_is_refused_whatever_its_checksum_says(description, message):
    with pytest.raises(CorruptDataError, match=message):
        decode_metadata(sealed(description), HERE)


def with_operator(**changes):
    operator = OperatorSubtaskState("aa", **changes)
    vertex = VertexInCheckpoint("", "", 1, 128, (), (SubtaskState((operator,)),))
    return CheckpointMetadata(1, 2, "", "", False, (vertex,))


@pytest.mark.parametrize("first, last, of", [(-1, 3, 8), (3, 2, 8), (0, 8, 8), (0, 0, 0)])
def test_key_groups_that_cannot_be_are_refused(first, last, of):
    data = encode_metadata(with_operator(keyed=(KeyedStateHandle(first, last, of, StateHandle(0)),)), HERE)
    with pytest.raises(CorruptDataError, match="operator aa has the key groups"):
        decode_metadata(data, HERE)


@pytest.mark.parametrize("handle", [{"size": 9}, {"size": 1, "offset": 3}, {"size": -1}, {"size": 1, "offset": -1}])
def test_state_that_is_not_there_is_refused(handle):
    good = encode_metadata(with_operator(operator=StateHandle(3, data=b"abc")), HERE)
    text = str(handle).replace("'", '"').replace(" ", "").encode()
    description = good[40:-3].replace(b'{"size":3}', text)
    with pytest.raises(CorruptDataError, match="bytes"):
        decode_metadata(sealed(description, b"abc"), HERE)


def test_a_state_that_says_another_size_is_not_written():
    with pytest.raises(ValueError, match="is said to have 4 bytes, and has 3"):
        encode_metadata(with_operator(operator=StateHandle(4, data=b"abc")), HERE)


def test_files_are_named_relative_to_where_the_checkpoint_lies(checkpoint):
    metadata, data, location = checkpoint
    assert location.encode() not in data
    moved = decode_metadata(data, "s3://bucket/job/chk-7?region=x")
    paths = {each.path for subtask in moved.subtasks() for each in subtask.handles()}
    paths |= {each.handle.path for subtask in moved.subtasks() for each in subtask.shared_files()}
    file, shared = sorted(paths - {""})
    assert file.startswith("s3://bucket/job/chk-7/") and shared.startswith("s3://bucket/job/shared/")
    assert decode_metadata(data, location) == metadata


def test_what_was_written_before_a_field_was_added_is_read(checkpoint):
    """A state handle without its last fields: they are as their defaults."""
    metadata = with_operator(operator=StateHandle(0))
    assert b"keyed" not in encode_metadata(metadata, HERE)
    assert decode_metadata(encode_metadata(metadata, HERE), HERE) == metadata
    assert {field.name for field in dataclasses.fields(StateHandle)} > {"size"}
