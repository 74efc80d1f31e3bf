"""In which directory of a file sink a record goes. Decides only.

PyFlink: BucketAssigner of pyflink.datastream.connectors.file_system.
"""

from __future__ import annotations

import datetime
import re
from zoneinfo import ZoneInfo

from flinkbuf.streaming.sinks.sink import SinkContext

__all__ = ["BucketAssigner"]


class BucketAssigner:
    """Says in which directory below the base path a record goes; a subclass overrides get_bucket_id."""

    def get_bucket_id(self, element: object, context: SinkContext) -> str:
        """Return the directory, relative to the base path; empty: the base path itself."""
        raise NotImplementedError(f"{type(self).__name__}.get_bucket_id")

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Everything into the base path."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """A directory for each hour, or whatever the format tells apart, of processing time.

        Parameters
        ----------
        format_str : str
            A pattern of Java's DateTimeFormatter, of yyyy, MM, dd, HH, mm, ss, SSS and text in single quotes.
        timezone_id : str, optional
            Such as "America/Los_Angeles"; None: the computer's own.
        """
        return DateTimeBucketAssigner(format_str, timezone_id)


class BasePathBucketAssigner(BucketAssigner):
    """Everything into the base path. Flink: BasePathBucketAssigner."""

    def get_bucket_id(self, element: object, context: SinkContext) -> str:
        """No directory."""
        return ""


_FIELDS = {
    "yyyy": "{0:%Y}",
    "uuuu": "{0:%Y}",
    "yy": "{0:%y}",
    "MM": "{0:%m}",
    "M": "{0.month}",
    "dd": "{0:%d}",
    "d": "{0.day}",
    "HH": "{0:%H}",
    "H": "{0.hour}",
    "mm": "{0:%M}",
    "ss": "{0:%S}",
    "SSS": "{1:03d}",
}


class DateTimeBucketAssigner(BucketAssigner):
    """A directory by processing time. Flink: DateTimeBucketAssigner.

    Examples
    --------
    >>> DateTimeBucketAssigner("yyyy/MM/dd 'at' HH", "UTC").directory_at(0)
    '1970/01/01 at 00'
    """

    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        parts = re.findall(r"'([^']+)'|(([A-Za-z])\3*)|(''|.)", format_str)
        self._format = "".join(
            _field(letters) if letters else _text(quoted or other) for quoted, letters, _, other in parts
        )
        self._timezone_id = timezone_id
        self._zone = None if timezone_id is None else ZoneInfo(timezone_id)
        self._last = (-1, "")  # the millisecond that was formatted last, since many records come in one

    def get_bucket_id(self, element: object, context: SinkContext) -> str:
        """By the time that it is."""
        return self.directory_at(context.current_processing_time())

    def directory_at(self, now_ms: int) -> str:
        """The directory of a time."""
        last_ms, directory = self._last
        if now_ms != last_ms:
            moment = datetime.datetime.fromtimestamp(now_ms // 1_000, self._zone)
            directory = self._format.format(moment, now_ms % 1_000)
            self._last = (now_ms, directory)
        return directory


def _text(text: str) -> str:
    """A text as it stands in a format of Python's."""
    return "'" if text == "''" else text.replace("{", "{{").replace("}", "}}")


def _field(letters: str) -> str:
    try:
        return _FIELDS[letters]
    except KeyError:
        raise ValueError(f"a date format knows {', '.join(_FIELDS)}, got {letters!r}") from None
