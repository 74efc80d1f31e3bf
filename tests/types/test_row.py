"""Rows: what they have in common with PyFlink's. How they are made, compared and encoded is tested with the types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.types.row import Row, RowKind, row_class
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
        for other_names in (["p", "q", "r", "s"], names, ["w", "x", "y", "z"]):
            row.set_field_names(other_names)
            row.set_row_kind(RowKind.DELETE)
            assert list(row.as_dict()) == other_names and row.row_kind is RowKind.DELETE


@given(
    st.lists(
        st.sampled_from(["a", "b", "row_kind", "index", "count", "__x", "_names", "_attribute_names", "of kind", "ä"]),
        unique=True,
    )
)
def test_fields_are_attributes_whatever_way_their_names_are_made(names):
    row = row_class(names)(*range(len(names)))
    for place, name in enumerate(names):
        made = "".join(list(name))  # not the string object that the class has
        assert row[made] == place
        if name in ("row_kind", "__x", "_names", "_attribute_names"):
            assert getattr(row, made, None) is not place
        else:
            assert getattr(row, name) == getattr(row, made) == place
            assert row.replace({name: "new"})[place] == getattr(row.replace({name: "new"}), name) == "new"


def test_rows_of_many_classes_do_not_mix_their_attributes_up():
    rows = [row_class([f"f{number}", "same", f"g{number}"])(number, -number, "x") for number in range(200)]
    for _ in range(2):
        for number, row in enumerate(rows):
            assert (getattr(row, f"f{number}"), row.same, getattr(row, f"g{number}")) == (number, -number, "x")
            with pytest.raises(AttributeError, match="no field 'f200'.*its fields are"):
                row.f200


def test_a_class_below_one_of_rows_may_have_attributes_of_its_own():
    class Mine(row_class(["a", "b"])):
        @property
        def a(self):
            return "mine"

    assert (Mine(1, 2).a, Mine(1, 2).b, Mine(1, 2)["a"]) == ("mine", 2, 1)
    assert row_class(["a", "b"])(1, 2).a == 1


def test_a_row_with_too_few_fields_has_no_attribute_for_the_others():
    short = tuple.__new__(row_class(["a", "b"]), (1,))
    assert short.a == 1
    with pytest.raises((AttributeError, IndexError)):
        short.b


def test_a_row_that_gets_other_names_has_their_attributes():
    row = Row(a=1, b=2)
    assert row.a == 1
    row.set_field_names(["b", "c"])
    assert (row.b, row.c) == (1, 2)
    with pytest.raises(AttributeError):
        row.a
