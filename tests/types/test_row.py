"""Rows: what they have in common with PyFlink's. How they are made, compared and encoded is tested with the types."""

import pytest

from flinkbuf.types.row import Row, RowKind
from flinkbuf.types.types import Types


def test_a_row_has_the_methods_of_pyflinks():
    row = Row("a", "b")(1, Row(c=[Row(d=2)]))
    assert row == Row(a=1, b=Row(c=[Row(d=2)]))
    assert row.as_dict(True) == {"a": 1, "b": {"c": [{"d": 2}]}}
    assert row.get_fields_by_names(["b", "a"]) == [row.b, 1]
    assert Row(1, 2).get_fields_by_names(["b", "a"]) == [1, 2]
    row.set_row_kind(RowKind.UPDATE_AFTER)
    assert (row.get_row_kind(), str(row.row_kind), row.a) == (RowKind.UPDATE_AFTER, "+U", 1)
    row.set_field_names(["x", "y"])
    assert (row.x, row.row_kind) == (1, RowKind.UPDATE_AFTER)
    with pytest.raises(ValueError, match="1 field names"):
        row.set_field_names(["x"])


def test_rows_of_a_codec_and_of_a_program_take_each_other_s_names():
    """A codec frees its rows in its own way, and a row can become one of another class only where both are."""
    names = ["only", "in", "this", "test"]
    codec = Types.ROW_NAMED(names, [Types.INT()] * 4).codec
    for row in (codec.deserialize(codec.serialize((1, 2, 3, 4))), Row(a=1, b=2, c=3, d=4), Row(1, 2, 3, 4)):
        for given in (["p", "q", "r", "s"], names, ["w", "x", "y", "z"]):
            row.set_field_names(given)
            row.set_row_kind(RowKind.DELETE)
            assert list(row.as_dict()) == given and row.row_kind is RowKind.DELETE
