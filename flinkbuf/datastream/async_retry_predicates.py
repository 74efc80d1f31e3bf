"""Which outcomes of an asynchronous call are tried again. PyFlink: datastream/async_retry_predicates.py."""

from __future__ import annotations


def empty_result_predicate(result: list[object] | None) -> bool:
    """Tell whether there are no results."""
    return not result


def has_exception_predicate(error: BaseException | None) -> bool:
    """Tell whether there was an exception."""
    return error is not None


def exception_type_predicate(error: BaseException | None, expected_error_type: type[BaseException]) -> bool:
    """Tell whether there was an exception of a class."""
    return isinstance(error, expected_error_type)
