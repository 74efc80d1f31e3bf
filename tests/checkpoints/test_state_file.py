"""Regions of state: what is written comes back, what is damaged is refused, large ones take little memory."""

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.worlds.plain_storage import PlainStorage

from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.state_file import KEYED, OPERATOR, Region, SectionWriter, SnapshotOutput
from flinkbuf.errors import CorruptDataError

SECTIONS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.binary(max_size=50)), max_size=12)


def write(output, sections, kind=KEYED, is_compressed=False, head=None):
    writer = SectionWriter(output, kind, is_compressed)
    for place, (state, key_group, data) in enumerate(sections):
        if place % 2:
            writer.put_pieces(state, key_group, (data[:7], memoryview(data)[7:]))
        else:
            writer.put(state, key_group, data)
    return writer.finish({"x": 1} if head is None else head)


def inline(sections, **arguments):
    output = SnapshotOutput(None, 0)
    place = write(output, sections, **arguments)
    output.finish()
    return output.handle(*place)


def read(region, sections=None):
    found = region.read(region.sections if sections is None else sections)
    return [(each.state, each.key_group, bytes(data)) for each, data in found]


@given(first=SECTIONS, second=SECTIONS, is_compressed=st.booleans(), threshold=st.sampled_from([0, 200, 10**6]))
def test_regions_beside_each_other_come_back_from_file_or_inline(
    first, second, is_compressed, threshold, tmp_path_factory
):
    storage = PlainStorage()
    output = SnapshotOutput(lambda: storage.open_output(tmp_path_factory.getbasetemp()), threshold)
    places = [write(output, sections, is_compressed=is_compressed) for sections in (first, second)]
    output.finish()
    for sections, place in zip((first, second), places, strict=True):
        handle = output.handle(*place)
        assert bool(handle.path) == (output.position > threshold)
        region = Region(handle, storage.open_input, KEYED)
        assert region.head == {"x": 1}
        assert read(region) == sections
        assert read(region, region.sections[1::2]) == sections[1::2]
        region.close()


@pytest.mark.parametrize("is_compressed", [False, True])
def test_every_bit_and_every_length_counts(is_compressed):
    handle = inline([(0, 1, b"state" * 9), (1, 2, b""), (2, 3, b"x")], is_compressed=is_compressed)

    def refuses(data):
        with pytest.raises(CorruptDataError, match="damaged at byte"):
            Region(StateHandle(len(data), data=bytes(data)), None, KEYED).verify()

    for position in range(handle.size):
        refuses(handle.data[:position])
        for bit in range(8):
            data = bytearray(handle.data)
            data[position] ^= 1 << bit
            refuses(data)


def test_damage_is_named_by_file_and_byte(tmp_path):
    storage = PlainStorage()
    output = SnapshotOutput(lambda: storage.open_output(tmp_path), 0)
    output.write(b"before")
    place = write(output, [(0, 0, b"a" * 100), (0, 1, b"b" * 100)])
    output.finish()
    handle = output.handle(*place)
    data = bytearray(Path(handle.path).read_bytes())
    data[6 + 150] ^= 1
    Path(handle.path).write_bytes(data)
    region = Region(handle, storage.open_input, KEYED)
    assert read(region, region.sections[:1]) == [(0, 0, b"a" * 100)]
    with pytest.raises(CorruptDataError, match=f"{handle.path} is damaged at byte 106: the checksum of a section"):
        region.verify()
    region.close()
    Path(handle.path).write_bytes(data[:-3])
    with pytest.raises(CorruptDataError, match="ends 3 bytes too early"):
        Region(handle, storage.open_input, KEYED)


def test_another_kind_or_version_is_refused():
    handle = inline([(0, 0, b"a")], kind=OPERATOR)
    with pytest.raises(CorruptDataError, match="it holds b'O'"):
        Region(handle, None, KEYED)
    data = bytearray(handle.data)
    data[-12] = 9
    data[-4:] = struct.pack(">I", zlib.crc32(data[-34:-4]))
    with pytest.raises(CorruptDataError, match="it has version 9, and this flinkbuf reads 1"):
        Region(StateHandle(len(data), data=bytes(data)), None, OPERATOR)


@given(data=st.binary(max_size=200), tail=st.booleans())
def test_bytes_of_nobody_are_refused(data, tail):
    if tail:
        trailer = struct.pack(">QBcBB4s", len(data), 1, KEYED, 0, 0, b"fbst")
        data += trailer + struct.pack(">I", zlib.crc32(data + trailer))
    with pytest.raises(CorruptDataError):
        Region(StateHandle(len(data), data=data), None, KEYED).verify()


def test_sections_beside_each_other_are_read_at_once(tmp_path):
    storage = PlainStorage()
    output = SnapshotOutput(lambda: storage.open_output(tmp_path), 0)
    place = write(output, [(0, group, bytes(100_000)) for group in range(100)])
    output.finish()
    region = Region(output.handle(*place), storage.open_input, KEYED)
    before = storage.read_size
    assert len(read(region, region.sections[20:60])) == 40
    assert storage.read_size - before == 40 * 100_000
    assert storage.open_count == 1
    region.close()


def test_what_is_written_is_held_only_while_it_is_little(tmp_path):
    sizes = []
    storage = PlainStorage(sizes.append)
    output = SnapshotOutput(lambda: storage.open_output(tmp_path), 1000)
    for _ in range(1000):
        output.write(bytes(1000))
    output.write(bytes(1 << 20))
    assert sum(sizes) == 1_000_000 + (1 << 20)
    assert len(sizes) < 6
    output.abort()
    assert list(tmp_path.iterdir()) == []


def test_there_is_a_limit_where_no_directory_is():
    output = SnapshotOutput(None, 0, limit=100)
    output.write(bytes(100))
    with pytest.raises(ValueError, match=r"larger than 100 bytes.*set_checkpoint_storage_dir"):
        output.write(b"x")
