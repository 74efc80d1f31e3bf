"""Two ends of a data exchange on two hosts: ``python network_pair.py write|read SETTINGS``, settings as JSON.

The writer prints its port, and at its end how it was; the reader prints how it was. `records` numbers are sent over
each of `channels`; None: until it fails. Each record says its channel, its number and what both make of `size` bytes.
"""

import itertools
import json
import sys
import threading
import time

import flinkbuf as fb

TYPE = "channel int, number bigint, text string"


def record_of(channel, number, size):
    return channel, number, (f"{channel}/{number} " * (size // 4))[:size]


class Ends:
    """One thread for each channel, and what became of them."""

    def __init__(self):
        self.errors = []
        self.threads = []

    def start(self, function, *args):
        def run():
            try:
                function(*args)
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def say(self, began, **what):
        for thread in self.threads:
            thread.join()
        print(json.dumps({"seconds": time.monotonic() - began, "errors": self.errors, **what}), flush=True)


def write(settings):
    ends, began = Ends(), time.monotonic()
    config = fb.NetworkConfig(**settings["config"])
    with fb.NetworkEnvironment(config, host=settings["host"], num_segments=1024) as env:
        partition = env.create_partition(settings["partition"], settings["channels"])
        print("port", env.address[1], flush=True)

        def emit():
            numbers = itertools.count() if settings["records"] is None else range(settings["records"])
            with partition, fb.RecordWriter(partition, TYPE, lambda record, count: record[0]) as writer:
                for number in numbers:
                    for channel in range(settings["channels"]):
                        writer.emit(record_of(channel, number, settings["size"]))

        ends.start(emit)
        ends.say(began)


def read(settings):
    ends, began, counts = Ends(), time.monotonic(), [0] * settings["channels"]
    with fb.NetworkEnvironment(fb.NetworkConfig(**settings["config"]), host="0.0.0.0", num_segments=1024) as env:
        address = settings["host"], settings["port"], settings["partition"]
        gate = env.create_gate([fb.network.RemoteChannel(*address, index) for index in range(settings["channels"])])

        def take():
            with gate, fb.RecordReader(gate, TYPE) as reader:
                for channel, number, text in reader:
                    assert (channel, number, text) == record_of(channel, counts[channel], settings["size"])
                    counts[channel] += 1
                    if counts[0] == 1000 and channel == 0:
                        print("reads", flush=True)

        ends.start(take)
        ends.say(began, counts=counts)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](json.loads(sys.argv[2]))
