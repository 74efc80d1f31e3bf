"""Where PyFlink has its Table API and SQL, which there are none of here: whoever asks for a name of it is told so."""

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    """Refuse each class with what to use instead (PEP 562); tools look for other names."""
    if not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise ImportError(
        f"flinkbuf has no Table API and no SQL, so there is no {name}: write the program with DataStream, whose "
        "map_batches(...) computes with columns, or use Spark's DataFrames"
    )
