"""Manifests say what they were given, and nobody takes a damaged, foreign or later one for whole."""

import json
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.errors import CorruptDataError
from flinkbuf.partition_files.manifest import DataFile, Layout, Manifest, job_of, layout_difference
from flinkbuf.partition_files.schema_merge import merged_schema

SCHEMA = {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": False, "metadata": {}}]}
LAYOUT = Layout(SCHEMA, "Types.ROW_NAMED(['k'], [Types.LONG()])", ("k",), 3, 128)
FILE = DataFile(
    "part-0123456789abcdef-00007-89abcdef",
    100,
    48,
    0xFFFF_FFFF,
    (1, 0, 2),
    (40, 0, 60),
    (7, 0, 8),
    32_768,
    "LZ4",
    "1",
    "9",
)
MANIFEST = Manifest(
    7, "0123456789abcdef", 1_700_000_000_000, "append", LAYOUT, (FILE,), "a" * 16, {"query": 3}, "b" * 16
)

texts = st.text(max_size=8)
counts = st.lists(st.integers(0, 2**62), min_size=3, max_size=3).map(tuple)
digits = st.text("0123456789abcdef", min_size=16, max_size=16)
files = st.builds(
    DataFile,
    digits.map(lambda job: f"part-{job}-00000-00000000"),
    st.integers(0, 2**62),
    st.integers(0, 2**62),
    st.integers(0, 2**32 - 1),
    counts,
    counts,
    counts,
    st.integers(1, 2**30),
    st.sampled_from([None, "LZ4", "ZSTD"]),
    st.none() | texts,
    st.none() | texts,
)


@given(st.integers(1, 2**62), digits, st.integers(0, 2**62), texts, st.lists(files, max_size=3).map(tuple))
def test_what_is_written_is_read(version, job, created_ms, record_type, found):
    manifest = Manifest(version, job, created_ms, "overwrite", replace(LAYOUT, record_type=record_type), found)
    assert Manifest.parse(manifest.to_bytes(), "x") == manifest


def test_a_document_of_the_first_format_is_read():
    document = json.loads(MANIFEST.to_bytes())
    body = {name: value for name, value in document["body"].items() if name not in ("generation", "batches", "parent")}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    old = document | {"format_version": 1, "crc32": f"{zlib.crc32(text.encode()):08x}", "body": body}
    assert Manifest.parse(json.dumps(old).encode(), "x") == replace(MANIFEST, generation="", batches={}, parent="")


def test_every_flipped_bit_is_found():
    data = MANIFEST.to_bytes()
    for offset in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[offset] ^= 1 << bit
            with pytest.raises(CorruptDataError, match="^/set/7.json: at "):
                Manifest.parse(bytes(changed), "/set/7.json")


def test_every_cut_is_found():
    data = MANIFEST.to_bytes()
    for end in range(len(data) - 1):  # the last byte ends the line
        with pytest.raises(CorruptDataError, match="byte [0-9]+"):
            Manifest.parse(data[:end], "x")


def with_body(**changes):
    document = json.loads(MANIFEST.to_bytes())
    document["body"] |= changes
    text = json.dumps(document["body"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    document["crc32"] = f"{zlib.crc32(text.encode()):08x}"
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row_format": "binary-row"}, "body.row_format: 'binary-row' is not known"),
        ({"hash": "murmur3"}, "body.hash: 'murmur3' is not known.*a later version"),
        ({"subpartition_count": 0}, "body.subpartition_count: 0 is not between 1 and 32768"),
        ({"subpartition_count": 4}, r"body.files\[0\].records: 3 numbers for 4 subpartitions"),
        ({"subpartition_count": True}, "int must stand here, not True"),
        ({"key": ["z"]}, "body.key: the schema has no column 'z'"),
        ({"key": "k"}, "list must stand here"),
        ({"files": [7]}, r"body.files\[0\]: dict must stand here"),
        ({"generation": 7}, "body.generation: str must stand here"),
        ({"batches": {"query": -1}}, "body.batches.query: -1 is not between"),
        ({"batches": []}, "body.batches: dict must stand here"),
    ],
)
def test_a_whole_document_of_somebody_else_is_refused(changes, message):
    with pytest.raises(CorruptDataError, match=message):
        Manifest.parse(with_body(**changes), "x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "../../etc/passwd"}, "is no name of a data file"),
        ({"records": [1, -1, 2]}, r"records\[1\]: -1 is not between"),
        ({"records": [1, 1.5, 2]}, r"records\[1\]: int must stand here, not 1.5"),
        ({"compression": "SNAPPY"}, "'SNAPPY' is not known"),
        ({"key_min": 3}, "key_min: str must stand here"),
    ],
)
def test_a_file_that_cannot_be_is_refused(changes, message):
    body = json.loads(MANIFEST.to_bytes())["body"]
    with pytest.raises(CorruptDataError, match=message):
        Manifest.parse(with_body(files=[body["files"][0] | changes]), "x")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: this is no JSON"),
        (b"PAR1\x00\xff", "byte 5: this is no text"),
        (b'{"a": 1}', "byte 0: this is no manifest of flinkbuf"),
        (b"[1]", "byte 0: this is no manifest"),
        (b"[" * 100_000, "nested too deep|no JSON"),
        (b'{"format": "flinkbuf partition files", "format_version": 3}', "3 is not known.*a later version"),
        (b'{"format": "flinkbuf partition files"}', "format_version: this is missing"),
    ],
)
def test_what_is_no_manifest_is_refused(data, message):
    with pytest.raises(CorruptDataError, match=message):
        Manifest.parse(data, "x")


def test_names_of_data_files_say_their_job():
    assert job_of(FILE.name + ".shuffle.data") == "0123456789abcdef"
    assert job_of("part-0123-00000-0.shuffle.data") is None


def test_a_merged_schema_is_nullable_where_one_of_both_is():
    def schema(nullable):
        inner = {"type": "array", "elementType": "long", "containsNull": nullable}
        pairs = {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": not nullable}
        fields = [{"name": "a", "type": inner, "nullable": nullable}, {"name": "b", "type": pairs, "nullable": False}]
        return {"type": "struct", "fields": fields}

    merged = merged_schema(schema(False), schema(True))
    assert merged["fields"][0] == schema(True)["fields"][0]
    assert merged["fields"][1]["type"]["valueContainsNull"] is True
    assert merged["fields"][1]["nullable"] is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fields: fields[::-1], "in another order"),
        (lambda fields: fields[:1], r"the columns are \['k', 's'\] in the data set and \['k'\] in the new rows"),
        (lambda fields: [fields[0] | {"type": "string"}, fields[1]], "column 'k' is long in the data set and string"),
    ],
)
def test_other_columns_are_refused_by_name(change, message):
    fields = [{"name": "k", "type": "long"}, {"name": "s", "type": {"type": "struct", "fields": []}}]
    with pytest.raises(ValueError, match=message):
        merged_schema({"type": "struct", "fields": fields}, {"type": "struct", "fields": change(fields)})


def test_files_of_another_layout_are_named():
    assert layout_difference(LAYOUT, LAYOUT) is None
    assert "num_partitions is 3, that of the new rows 4" in layout_difference(
        LAYOUT, replace(LAYOUT, subpartition_count=4)
    )
    assert "its key is ['k']" in layout_difference(LAYOUT, replace(LAYOUT, key=()))
