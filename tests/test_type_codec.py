import pytest
from golden_types import element_of, load, parse, same, value_of

from flinkbuf.types import Types

CASES = load("types")["cases"]
ELEMENTS = load("stream_elements")["cases"]


def names(cases):
    return [f"{i}-{case.get('type', case.get('element'))[:40]}" for i, case in enumerate(cases)]


@pytest.mark.parametrize("case", CASES, ids=names(CASES))
def test_values_have_the_bytes_that_flink_writes(case):
    flink_type, value = parse(case["type"]), value_of(case["type"], case["value"])
    data = bytes.fromhex(case["hex"])
    assert flink_type.serialize(value) == data
    assert same(flink_type.deserialize(data), value)
    assert flink_type.codec.skip(data + b"\xff") == len(data)


@pytest.mark.parametrize("case", ELEMENTS, ids=names(ELEMENTS))
def test_stream_elements_have_the_bytes_that_flink_writes(case):
    flink_type, value = Types.STREAM_ELEMENT(parse(case.get("type", "int"))), element_of(case)
    data = bytes.fromhex(case["hex"])
    assert flink_type.serialize(value) == data
    assert same(flink_type.deserialize(data), value)
    assert flink_type.codec.skip(data + b"\xff") == len(data)
