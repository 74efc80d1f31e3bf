"""Events that were made before, in files: where a query is to be measured and not the making of its events."""

import dataclasses
import hashlib
import marshal
import os
import struct
from pathlib import Path

from nexmark.generator import Generator

HEAD = struct.Struct("<QQQ")  # before each block: events and numbers up to its end, bytes of its rows


def path_of(split, folder):
    """Return the file of a split; its name says what is in it."""
    name = hashlib.sha256(repr(dataclasses.replace(split, done=0, drawn=0, skip=0)).encode()).hexdigest()[:16]
    return Path(folder, f"{split.count}-events-{name}")


def keep(split, folder):
    """Make the file of a split, unless it is there."""
    path = path_of(split, folder)
    if path.exists():
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    generator = Generator(split)
    with open(temporary, "wb") as file:
        for rows in generator:
            block = marshal.dumps(rows)
            file.write(HEAD.pack(generator.done, generator.drawn, len(block)) + block)
    temporary.rename(path)


class KeptEvents:
    """Reads the rows of a split from where it stands; the same as what a `Generator` makes."""

    def __init__(self, split, folder):
        self.path, self.count, self.place = path_of(split, folder), split.count, 0
        self.done = self.drawn = 0
        while self.done < split.done:
            self.next_block()

    def next_block(self):
        """Return the bytes of the next rows."""
        with open(self.path, "rb") as file:
            file.seek(self.place)
            self.done, self.drawn, size = HEAD.unpack(file.read(HEAD.size))
            self.place += HEAD.size + size
            return file.read(size)

    def __iter__(self):
        return self

    def __next__(self):
        """Return some thousand rows more."""
        if self.done >= self.count:
            raise StopIteration
        return marshal.loads(self.next_block())
