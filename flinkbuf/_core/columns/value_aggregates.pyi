import pyarrow as pa

from flinkbuf._core.columns.slot_aggregate import SlotAggregate

class ExtremeAggregate(SlotAggregate):
    def __init__(self, type_: pa.DataType, is_max: bool) -> None: ...

class WinnerAggregate(SlotAggregate):
    def __init__(self, kind: str, type_: pa.DataType, by: pa.DataType | None = None) -> None: ...

class CollectAggregate(SlotAggregate):
    def __init__(self, type_: pa.DataType) -> None: ...

class DistinctAggregate(CollectAggregate): ...
