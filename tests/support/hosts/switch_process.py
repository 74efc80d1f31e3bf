"""The network between hosts: passes Ethernet frames on, late, slowly, or not at all, as it is told for each direction.

A process of its own, `python switch_process.py ADDRESSES`: the hosts come over its sockets as the ends of TAP devices,
and what is to be done as lines of JSON on its standard input; it goes when that ends. A kernel's netem would do the
same where there is one. Packets of TCP pass as the sender made them, up to 64 KiB at once, but for a direction that
loses some: there each goes alone, as on a cable.
"""

import fcntl
import heapq
import json
import os
import random
import select
import socket
import sys
import time

TUNSETOFFLOAD = 0x400454D0
WITH_CHECKSUMS, WITH_SEGMENTS = 1, 1 | 2  # TUN_F_CSUM, TUN_F_TSO4
HEAD = 10  # of the device, before each frame: what the other end's device has to know of it
QUEUE_S = 0.1  # of data at the speed of a direction: what comes on top is lost, as in a real switch
FRAME_MAX = 70_000
SYN, ACK = 2, 16


class Direction:
    """What happens to frames from one host to another one."""

    def __init__(self):
        self.delay_s = self.loss = 0.0
        self.bytes_a_second = self.cut_after = self.ports = None
        self.is_cut = False
        self.free_s = 0.0  # when all that was sent before has left
        self.passed = 0  # bytes of TCP

    def due_s(self, frame, now_s, chance):
        """Return when a frame arrives; None: never."""
        size, opens = tcp_of(frame)
        if self.cut_after is not None and self.passed + size > self.cut_after:
            self.is_cut = True
        if self.is_cut or (self.loss and chance.random() < self.loss) or (opens and self.is_closed(opens)):
            return None
        self.passed += size
        if self.bytes_a_second is None:
            return now_s + self.delay_s
        start_s = max(now_s, self.free_s)
        if start_s - now_s > QUEUE_S:
            return None
        self.free_s = start_s + len(frame) / self.bytes_a_second
        return self.free_s + self.delay_s

    def is_closed(self, port):
        """Whether a firewall lets nobody in at that port."""
        return self.ports is not None and not any(low <= port <= high for low, high in self.ports)


def tcp_of(frame):
    """Return how many bytes of TCP a frame carries, and the port that it asks to be let in at; 0 for none."""
    frame = frame[HEAD:]
    if frame[12:14] != b"\x08\x00" or frame[23] != 6:
        return 0, 0
    begin = 14 + (frame[14] & 15) * 4
    size = 14 + int.from_bytes(frame[16:18], "big") - begin - (frame[begin + 12] >> 4) * 4
    opens = frame[begin + 13] & (SYN | ACK) == SYN
    return max(0, size), int.from_bytes(frame[begin + 2 : begin + 4], "big") if opens else 0


class Switch:
    """Devices by the last byte of their address."""

    def __init__(self, devices):
        self.devices = devices
        self.numbers = {device: number for number, device in devices.items()}
        self.directions = {(one, other): Direction() for one in devices for other in devices if one != other}
        self.waiting = []  # (when, a count, device, frame)
        self.count = 0
        self.chance = random.Random(7)
        for device in self.numbers:
            fcntl.ioctl(device, TUNSETOFFLOAD, WITH_SEGMENTS)

    def run(self):
        """Until standard input ends."""
        commands = b""
        while True:
            wait_s = max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else None
            for device in select.select([0, *self.numbers], [], [], wait_s)[0]:
                if device != 0:
                    self.take(device)
                    continue
                data = os.read(0, 1 << 16)
                if not data:
                    return
                *lines, commands = (commands + data).split(b"\n")
                for line in lines:
                    print(json.dumps(self.obey(json.loads(line))), flush=True)
            self.deliver()

    def obey(self, command):
        """Change directions, and return how many bytes of TCP each of them has let through."""
        changes = command["changes"]
        for one, other in command["directions"]:
            direction = self.directions[one, other]
            for name, value in changes.items():
                setattr(direction, name, value)
            if "is_cut" in changes or "cut_after" in changes:
                direction.passed = 0
        for number, device in self.devices.items():
            loses = any(direction.loss for pair, direction in self.directions.items() if pair[0] == number)
            fcntl.ioctl(device, TUNSETOFFLOAD, WITH_CHECKSUMS if loses else WITH_SEGMENTS)
        return [self.directions[one, other].passed for one, other in command["directions"]]

    def take(self, device):
        """Take what has come from a host."""
        source, now_s = self.numbers[device], time.monotonic()
        for _ in range(64):
            try:
                frame = os.read(device, FRAME_MAX)
            except OSError:  # nothing more, or the device is down
                return
            is_for_all = frame[HEAD] & 1
            targets = [number for number in self.devices if number != source] if is_for_all else [frame[HEAD + 5]]
            for target in targets:
                direction = self.directions.get((source, target))
                due_s = direction and direction.due_s(frame, now_s, self.chance)
                if due_s is not None:
                    self.count += 1
                    heapq.heappush(self.waiting, (due_s, self.count, self.devices[target], frame))

    def deliver(self):
        """Give the hosts what is due."""
        now_s = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now_s:
            *_, device, frame = heapq.heappop(self.waiting)
            try:
                os.write(device, frame)
            except OSError:  # it is down, or has no room
                continue


def main(descriptors):
    """Pass frames on between the devices that come over these sockets, numbered from 1."""
    devices = {}
    for number, descriptor in enumerate(descriptors, 1):
        with socket.socket(fileno=descriptor) as channel:
            devices[number] = socket.recv_fds(channel, 1, 1)[1][0]
        os.set_blocking(devices[number], False)
    print("ready", flush=True)
    Switch(devices).run()


if __name__ == "__main__":
    main(list(map(int, sys.argv[1:])))
