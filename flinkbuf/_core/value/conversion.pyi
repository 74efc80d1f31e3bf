from typing import Any

from flinkbuf._core.value.type_codec import TypeCodec

def convert(codec: TypeCodec, value: Any) -> Any: ...
