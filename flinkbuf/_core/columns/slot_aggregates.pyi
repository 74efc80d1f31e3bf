from typing import Any

from flinkbuf._core.columns.slot_aggregate import SlotAggregate

def make_aggregate(kind: str, *arrow_types: Any) -> SlotAggregate: ...
