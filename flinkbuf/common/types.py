"""Rows. PyFlink: common/types.py."""

from flinkbuf.types.values import Row, RowKind

__all__ = ["Row", "RowKind"]
