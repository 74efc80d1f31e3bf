"""Certificates for tests of TLS: of this network, of another one, and one that has expired."""

import shutil
import subprocess
from types import SimpleNamespace

from flinkbuf.config import TlsConfig

CAN_MAKE = shutil.which("openssl") is not None
CURVE = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder, name):
        self.folder, self.path, self.key = folder, folder / f"{name}.pem", folder / f"{name}.key"
        openssl(f"req -x509 {CURVE} -keyout {self.key} -out {self.path} -days 10 -subj /CN={name}")

    def issue(self, name, days=10, address=None):
        """Make files for one process, which may be one at an address. Return its TlsConfig."""
        key, request, certificate = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        openssl(f"req {CURVE} -keyout {key} -out {request} -subj /CN={name}")
        signed = f"-CA {self.path} -CAkey {self.key} -CAcreateserial -out {certificate} -days {days}"
        if address is not None:
            extensions = self.folder / f"{name}.ext"
            extensions.write_text(f"subjectAltName=IP:{address}")
            signed += f" -extfile {extensions}"
        openssl(f"x509 -req -in {request} {signed}")
        return TlsConfig(certificate=certificate, key=key, authority=self.path)


def openssl(arguments):
    subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True)


def make_certificates(folder):
    """Files for two processes of this network and for three that do not belong to it."""
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    worker, other, stranger = ours.issue("worker"), ours.issue("other"), theirs.issue("stranger")
    return SimpleNamespace(
        worker=worker,
        other=other,
        expired=ours.issue("expired", days=-1),
        # Each knows the other's authority, but is signed by its own.
        stranger=TlsConfig(certificate=stranger.certificate, key=stranger.key, authority=ours.path),
        truster=TlsConfig(certificate=worker.certificate, key=worker.key, authority=theirs.path),
    )
