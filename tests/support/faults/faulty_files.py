"""A storage for checkpoints on this machine whose every so-manieth call fails, or hangs until it is let go."""

import contextlib
import errno
import itertools
import threading

from flinkbuf.checkpoints import storage
from flinkbuf.checkpoints.files import Files, StateInput, StateOutput
from flinkbuf.checkpoints.local_files import LocalFiles
from flinkbuf.checkpoints.locations import path_within

SCHEME = "faulty"


class Faults:
    """Counts calls from all threads; each `every`-th one has bad luck."""

    def __init__(self, every=10, hangs=False):
        self.every, self.hangs = every, hangs
        self.calls = itertools.count(1)
        self.struck = []  # what had bad luck
        self.healed = threading.Event()  # whoever hangs goes on, and nothing more happens
        self.hung = threading.Event()

    def meet(self, call):
        if next(self.calls) % self.every or self.healed.is_set():
            return
        self.struck.append(call)
        if self.hangs:
            self.hung.set()
            assert self.healed.wait(120)
        else:
            raise OSError(errno.EIO, f"bad luck in {call}")


class FaultyFiles(Files):
    def __init__(self, faults):
        self.faults = faults
        self.local = LocalFiles()

    def create(self, path):
        self.faults.meet("create")
        return FaultyOutput(self.local.create(local(path)), path, self.faults)

    def open(self, path):
        self.faults.meet("open")
        return FaultyInput(self.local.open(local(path)), path, self.faults)

    def put(self, path, data):
        self.faults.meet("put")
        self.local.put(local(path), data)

    def delete(self, path):
        self.faults.meet("delete")
        self.local.delete(local(path))

    def delete_tree(self, location):
        self.faults.meet("delete_tree")
        self.local.delete_tree(local(location))

    def make_directory(self, location):
        self.faults.meet("make_directory")
        self.local.make_directory(local(location))

    def entries(self, location):
        self.faults.meet("entries")
        return self.local.entries(local(location))


def local(path):
    return "/" + path_within(path)


class FaultyOutput(StateOutput):
    def __init__(self, output, path, faults):
        super().__init__(path)
        self.output, self.faults = output, faults

    def _write(self, data):
        self.faults.meet("write")
        self.output.write(data)

    def _finish(self):
        self.faults.meet("finish")
        self.output.finish()

    def _remove(self):
        self.output.abort()


class FaultyInput(StateInput):
    def __init__(self, file, path, faults):
        super().__init__(path, file.size)
        self.file, self.faults = file, faults

    def _read(self, offset, size):
        self.faults.meet("read")
        return self.file.read_at(offset, size)

    def close(self):
        self.file.close()


@contextlib.contextmanager
def faulty_storage(directory, **faults):
    """Within the block ``faulty://disk/<directory>`` is a directory of this machine with such faults: the URI, and
    the faults.
    """
    faults = Faults(**faults)
    storage.FILES_OF_SCHEME[SCHEME] = lambda uri: FaultyFiles(faults)
    try:
        yield f"{SCHEME}://disk{directory}", faults
    finally:
        faults.healed.set()
        del storage.FILES_OF_SCHEME[SCHEME]
