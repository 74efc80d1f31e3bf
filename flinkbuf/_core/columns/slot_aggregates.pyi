import pyarrow as pa

from flinkbuf._core.columns.slot_aggregate import SlotAggregate

def make_aggregate(kind: str, *arrow_types: pa.DataType) -> SlotAggregate: ...
