from typing import Any

from flinkbuf._core.columns.slot_aggregate import SlotAggregate

class ExtremeAggregate(SlotAggregate):
    def __init__(self, type_: Any, is_max: bool) -> None: ...

class WinnerAggregate(SlotAggregate):
    def __init__(self, kind: str, type_: Any, by: Any | None = None) -> None: ...

class CollectAggregate(SlotAggregate):
    def __init__(self, type_: Any) -> None: ...

class DistinctAggregate(CollectAggregate): ...
