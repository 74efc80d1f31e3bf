"""Unpacks an archive of the user's, and nothing outside of its directory. Flink: CompressionUtils."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from pathlib import Path

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def unpack(archive: str, directory: Path) -> None:
    """Unpack an archive into a directory, which is made if it is missing.

    Parameters
    ----------
    archive : str
        A tar file by its name (``.tar``, ``.tar.gz``, ``.tgz``, ``.tar.bz2``, ``.tar.xz``); anything else is read as a
        zip file, such as ``.zip``, ``.whl``, ``.egg``.
    directory : Path

    Raises
    ------
    ValueError
        If it is no archive, or a member would lie outside of the directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        if archive.lower().endswith(TAR_SUFFIXES):
            _unpack_tar(archive, directory)
        else:
            _unpack_zip(archive, directory)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise ValueError(
            f"archive {archive!r} cannot be unpacked: {reason}; it must be a zip file, or a tar file whose name ends "
            f"in {', '.join(TAR_SUFFIXES)}"
        ) from error


def _unpack_tar(archive: str, directory: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            _check_inside(archive, directory, member.name)
            if member.issym():
                _check_inside(archive, directory, os.path.join(os.path.dirname(member.name), member.linkname))
            elif member.islnk():
                _check_inside(archive, directory, member.linkname)
            elif not (member.isfile() or member.isdir()):
                raise ValueError(f"archive {archive!r}: {member.name!r} is neither file, directory nor link")
        if hasattr(tarfile, "data_filter"):
            tar.extractall(directory, filter="tar")
        else:  # Python before its security releases of 2023
            tar.extractall(directory)


def _unpack_zip(archive: str, directory: Path) -> None:
    """Unpack as zipfile does, but with links and permissions, without which a zipped environment would not run."""
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            _check_inside(archive, directory, member.filename)
            place, mode = directory / member.filename, member.external_attr >> 16
            if stat.S_ISLNK(mode):
                linked = os.fsdecode(zipped.read(member))
                _check_inside(archive, directory, os.path.join(os.path.dirname(member.filename), linked))
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(linked)
                continue
            zipped.extract(member, directory)
            if stat.S_IMODE(mode) and not member.is_dir():
                place.chmod(stat.S_IMODE(mode) | stat.S_IRUSR)


def _check_inside(archive: str, directory: Path, name: str) -> None:
    """Refuse a member outside of the directory; links unpacked before are followed."""
    root = directory.resolve()
    if os.path.isabs(name) or not (directory / name).resolve().is_relative_to(root):
        raise ValueError(f"archive {archive!r}: {name!r} would lie outside of the directory it is unpacked in")
