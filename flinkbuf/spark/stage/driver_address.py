"""Where the driver listens for the tasks of exchanges and jobs, and how a task gets there."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flinkbuf.config import TlsConfig
from flinkbuf.control.control_client import ControlClient
from flinkbuf.network.ports import parse_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flinkbuf.control.control_server import ServerLease

CONNECT_TIMEOUT_S = 5.0  # then the driver counts as out of reach
_PORT = "spark.flinkbuf.driver.port"
_HINT = (
    f"The driver listens at spark.flinkbuf.driver.bindAddress (else spark.driver.bindAddress) and a port of {_PORT} "
    "(any, unless set), and tells its tasks spark.flinkbuf.driver.host (else spark.driver.host): before Spark starts, "
    "set them to what the executors can reach"
)


class Settings(Protocol):
    """A SparkConf."""

    def get(self, name: str) -> str | None:
        """Return what is set, if it is."""


class ClientSettings:
    """The settings of a client of Spark Connect: those of flinkbuf alone, for Spark's driver is another process.

    Where nobody says which address the tasks find this process at, it is that which it reaches the server from.

    Parameters
    ----------
    session : SparkSession
        Of Spark Connect.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def get(self, name: str) -> str | None:
        """Return what is set, if it is."""
        if name.startswith("spark.flinkbuf."):
            return self._session.conf.get(name, None)
        return address_towards(self._session.client.host) if name == "spark.driver.host" else None


def address_towards(host: str) -> str:
    """Return the address of this machine that packets to another one come from; nothing is sent.

    Examples
    --------
    >>> address_towards("127.0.0.1")
    '127.0.0.1'
    """
    family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def driver_hosts(conf: Settings) -> tuple[str, str]:
    """Return the address that the driver listens at, and the one that its tasks are told."""
    host = conf.get("spark.flinkbuf.driver.host") or conf.get("spark.driver.host") or "127.0.0.1"
    return conf.get("spark.flinkbuf.driver.bindAddress") or conf.get("spark.driver.bindAddress") or host, host


def listen_for_tasks(conf: Settings, tls: TlsConfig | None = None) -> ServerLease:
    """Return the control server of this process that listens where the settings say, opened if it is not yet.

    Raises
    ------
    OSError
        If it cannot listen there.
    ValueError
        If the port's setting is none.
    """
    from flinkbuf.control.control_server import control_server_of  # brings asyncio, which no task needs

    bind_host, host = driver_hosts(conf)
    return control_server_of(bind_host, host, parse_ports(conf.get(_PORT) or "0"), tls=tls, option=_PORT)


@dataclass(frozen=True)
class DriverAddress:
    """What a task needs to reach the driver; it travels in Spark's closure.

    Attributes
    ----------
    address : tuple of (str, int)
    group_id : str
        Whom the task wants to see there.
    secret : bytes
        What both have to know.
    tls : TlsConfig or None
        With it the connection is encrypted, with the certificates that are found where the task runs.
    """

    address: tuple[str, int]
    group_id: str
    secret: bytes = field(repr=False)
    tls: TlsConfig | None = None

    def connect(self) -> ControlClient:
        """Connect, and prove to each other that both know the secret.

        Raises
        ------
        RemoteTransportError
            If the driver is out of reach, which says what host and port to open and which settings decide them; or if
            what listens there is not this driver.
        """
        return ControlClient.connect(
            self.address, self.group_id, self.secret, tls=self.tls, timeout_s=CONNECT_TIMEOUT_S, hint=_HINT
        )
