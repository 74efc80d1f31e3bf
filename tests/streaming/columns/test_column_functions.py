"""What a user says of columns: names, expressions and functions, and what is refused."""

import pyarrow as pa
import pytest

from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.columns.column_functions import RenameColumns, SelectColumns


def batch_of(call, batch):
    (element,) = call(ColumnBatch(batch))
    return element.batch


def test_no_two_columns_have_one_name():
    """Else with_columns() and the like would leave one of them out, and nobody would know which."""
    batch = pa.record_batch({"a": [1], "b": [2]})
    with pytest.raises(ValueError, match=r"rename\(\): two columns would be called 'b'; .* the columns are b, b"):
        batch_of(RenameColumns((("a", "b"),)), batch)
    assert batch_of(RenameColumns((("a", "b"), ("b", "a"))), batch).to_pydict() == {"b": [1], "a": [2]}
    twice = pa.record_batch([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(ValueError, match=r"with_columns\(\): two columns would be called 'a'"):
        batch_of(SelectColumns((("c", lambda batch: pa.array([3])),), keeps=True), twice)


def test_rows_without_columns_are_not_selected():
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([(1,)]).as_columns("n int")
    with pytest.raises(ValueError, match=r"select\(\) needs a column"):
        stream.select()
