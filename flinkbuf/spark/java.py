"""Finds the Java runtime that Spark needs; uses only the standard library, so it also runs as a script."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from glob import glob
from pathlib import Path

OLDEST_JAVA = 17  # Spark 4 runs on nothing older
TESTED_JAVA = (17, 21)  # what Spark 4 is tested on; newer ones have dropped methods that Hadoop calls

_USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    os.path.expanduser("~/.sdkman/candidates/java/*"),
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
)

INSTALL_HINT = """\
Spark needs a Java runtime, version 17 or later (17 and 21 are what Spark is tested on). Install one:
  Debian, Ubuntu   apt-get install openjdk-17-jre-headless     (or openjdk-21-jre-headless)
  Fedora, RHEL     dnf install java-21-openjdk-headless        (or java-17-openjdk-headless)
  macOS            brew install openjdk@17
  conda            conda install -c conda-forge openjdk=17
or set JAVA_HOME to one that is already there."""


def find_java() -> Path:
    """Find the home folder of a Java runtime that Spark can use.

    ``JAVA_HOME`` is taken if it is new enough. Else the runtime on ``PATH`` and those in the usual folders are
    looked at, and one of version 17 or 21 is preferred to a newer one.

    Returns
    -------
    Path
        A folder with ``bin/java``, fit for ``JAVA_HOME``.

    Raises
    ------
    FileNotFoundError
        If there is none; the message says what was looked at and what to install.
    """
    seen: dict[Path, int | None] = {}
    for home in _candidates():
        if home not in seen:
            seen[home] = java_version(home)
            if len(seen) == 1 and _is_java_home_of_user(home) and (seen[home] or 0) >= OLDEST_JAVA:
                return home
    for home, version in seen.items():
        if version in TESTED_JAVA:
            return home
    for home, version in seen.items():
        if version is not None and version >= OLDEST_JAVA:
            return home
    found = ", ".join(f"{home} (version {version or 'unknown'})" for home, version in seen.items()) or "nothing"
    raise FileNotFoundError(
        f"no Java {OLDEST_JAVA} or later in JAVA_HOME, on PATH or in the usual folders; found {found}\n{INSTALL_HINT}"
    )


def use_java() -> Path:
    """Point ``JAVA_HOME`` of this process at the runtime of `find_java`, so that PySpark starts that one.

    Returns
    -------
    Path
        The home folder. Raises like `find_java`.
    """
    home = find_java()
    os.environ["JAVA_HOME"] = str(home)
    return home


def java_version(home: Path) -> int | None:
    """Return the feature version (8, 17, ...) of the Java runtime in `home`, or None where none answers."""
    release = home / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    match = re.search(r'JAVA_VERSION="?(\d+)(?:\.(\d+))?', text)
    if match is None:
        try:
            answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        return None
    # Up to Java 8 the version was written 1.8.
    return int(match[2]) if match[1] == "1" and match[2] else int(match[1])


def _is_java_home_of_user(home: Path) -> bool:
    return bool(os.environ.get("JAVA_HOME")) and home == Path(os.environ["JAVA_HOME"])


def _candidates() -> Iterator[Path]:
    """Yield the folders that hold a ``bin/java``, the user's own choice first."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        # /usr/bin/java is a link into the real home; macOS has a stub there that answers nothing.
        yield Path(on_path).resolve().parent.parent
    for pattern in _USUAL_FOLDERS:
        for found in sorted(glob(pattern)):
            if os.access(os.path.join(found, "bin", "java"), os.X_OK):
                yield Path(found).resolve()


if __name__ == "__main__":
    try:
        print(find_java())
    except FileNotFoundError as missing:
        raise SystemExit(str(missing)) from None
