"""Rows: what they have in common with PyFlink's. How they are made, compared and encoded is tested with the types."""

import pytest

from flinkbuf.types.row import Row, RowKind


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
