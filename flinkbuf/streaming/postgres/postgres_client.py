"""The client library of PostgreSQL, and what is wrong with servers that cannot do what a source or a sink asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkbuf.errors import FlinkbufError

if TYPE_CHECKING:
    from types import ModuleType


class PostgresSetupError(FlinkbufError, RuntimeError):
    """The server, or what it has, is not as a source or a sink needs it; to begin again does not help."""

    can_restart = False


def psycopg_module(user: str) -> ModuleType:
    """Return psycopg, which is an extra; `user` is what needs it."""
    try:
        import psycopg
    except ImportError as error:
        raise ImportError(f"{user} needs psycopg: pip install 'flinkbuf[postgres]'") from error
    return psycopg


def check_connection(user: str, connection: str) -> None:
    """Refuse what libpq cannot read; whether a server is there is seen when the job begins.

    Raises
    ------
    ValueError
        It is no text of a connection.
    ImportError
        psycopg is not installed.
    """
    psycopg = psycopg_module(user)
    try:
        psycopg.conninfo.conninfo_to_dict(connection)
    except psycopg.ProgrammingError as error:
        raise ValueError(
            f"set_connection(...) of a {user} takes what libpq does, such as 'host=localhost dbname=flights': {error}"
        ) from error
