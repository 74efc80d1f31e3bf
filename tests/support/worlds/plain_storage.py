"""Files of state in one directory, for tests of those who write and read them."""

import uuid
import zlib
from pathlib import Path


class PlainStorage:
    def __init__(self, write=lambda size: None):
        self.write = write  # called before each write
        self.open_count = 0
        self.read_size = 0

    def open_output(self, location):
        Path(location).mkdir(parents=True, exist_ok=True)
        return PlainOutput(Path(location) / uuid.uuid4().hex, self)

    def open_input(self, path):
        self.open_count += 1
        return PlainInput(path, self)

    def read(self, handle):
        data = handle.data
        if handle.path:
            file = self.open_input(handle.path)
            data = file.read_at(handle.offset, handle.size)
            file.close()
        assert len(data) == handle.size and zlib.crc32(data) == handle.checksum
        return data


class PlainOutput:
    def __init__(self, path, storage):
        self.path, self.storage = path, storage
        self.file = path.open("wb")

    def write(self, data):
        self.storage.write(len(data))
        offset = self.file.tell()
        self.file.write(data)
        return offset

    def write_all(self, pieces):
        for data in pieces:
            self.write(data)

    def finish(self):
        self.file.close()
        return str(self.path)

    def discard(self):
        self.file.close()
        self.path.unlink(missing_ok=True)


class PlainInput:
    def __init__(self, path, storage):
        self.file, self.storage = open(path, "rb"), storage  # noqa: SIM115

    def read_at(self, offset, size):
        self.storage.read_size += size
        self.file.seek(offset)
        return self.file.read(size)

    def close(self):
        self.file.close()
