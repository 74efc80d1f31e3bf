"""Jars that Maven fetches once, for servers that tests start."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>flinkbuf</groupId><artifactId>{name}-for-tests</artifactId><version>1</version>
  <dependencies>
    {dependencies}
  </dependencies>
</project>
"""
_COPY = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"]


def cache_folder():
    """The folder for what tests fetch, outside of the tree."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "flinkbuf-tests")


def maven_jars(name, version, *dependencies):
    """The folder of jars, ``group:artifact:version`` and all they need, fetched unless they were before.

    Skips the test where that cannot be.
    """
    for program, package in (("java", "openjdk-17-jre-headless"), ("mvn", "maven")):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here, which {name} needs; on Debian or Ubuntu: apt-get install {package}")
    folder = cache_folder() / f"{name.lower()}-{version}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    tags = ("groupId", "artifactId", "version")
    lines = []
    for each in dependencies:
        inside = "".join(f"<{tag}>{word}</{tag}>" for tag, word in zip(tags, each.split(":"), strict=True))
        lines.append(f"<dependency>{inside}</dependency>")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        Path(scratch, "pom.xml").write_text(_POM.format(name=name.lower(), dependencies="\n    ".join(lines)))
        done = subprocess.run(_COPY, cwd=scratch, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"Maven cannot fetch {name} {version}: {done.stdout.strip().splitlines()[:1]}")
        with contextlib.suppress(OSError):  # another run was first
            Path(scratch, "jars").rename(folder)
    return folder
