"""The rows of column operators in snapshots: in pages by key group, of which parts of large batches have their own."""

import numpy as np
import pyarrow as pa
import pytest

from flinkbuf.checkpoints.state_index import StateMeta
from flinkbuf.records.column_batch import PageReader
from flinkbuf.records.column_exchange import RowKeys
from flinkbuf.streaming.state import column_state
from flinkbuf.streaming.state.column_state import FrozenColumns
from flinkbuf.streaming.state.key_groups import KeyGroups


class Sections:
    """What a writer of sections was given."""

    def __init__(self):
        self.pages = []

    def put_pieces(self, key_group, pieces):
        self.pages.append((key_group, b"".join(pieces)))


@pytest.mark.parametrize("part_bytes", [1, 1000, 1 << 26])
def test_pages_hold_the_rows_of_their_key_groups_in_order(monkeypatch, part_bytes):
    monkeypatch.setattr(column_state, "_PART_BYTES", part_bytes)
    monkeypatch.setattr(column_state, "_PAGE_BYTES", 1)
    batches = [
        pa.record_batch({"k": np.arange(count) % 50, "row": np.arange(start, start + count)})
        for start, count in ((0, 400), (400, 0), (400, 1))
    ]
    sections = Sections()
    key_groups = KeyGroups.of_subtask(None, 8, parallelism=1, subtask_index=0)
    FrozenColumns(StateMeta("s", "columns", is_internal=True), batches, 1).write(sections, None, key_groups)
    found = {}
    for group, page in sections.pages:
        batch = PageReader().read(page).batch
        assert batch.nbytes <= max(part_bytes, 16)
        assert set(RowKeys(("k",), 8).of(batch).tolist()) == {group}
        found.setdefault(group, []).extend(batch["row"].to_pylist())
    assert sorted(row for rows in found.values() for row in rows) == list(range(401))
    assert all(rows == sorted(rows) for rows in found.values())
