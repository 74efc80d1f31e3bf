"""A host: the first process in namespaces of its own, `unshare … python host_process.py SETTINGS`.

It makes the host's device, gives its other end to the switch, and ends when its standard input does. With the first
process of a namespace all others in it end, and with the last one its network goes: so nothing can be left.
"""

import array
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys

TUNSETIFF = 0x400454CA
TAP, WITHOUT_HEAD, WITH_OFFLOADS = 0x0002, 0x1000, 0x4000


def main(settings):
    """Become the host."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"eth0", TAP | WITHOUT_HEAD | WITH_OFFLOADS))
    for name in ("all", "default", "eth0"):
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
            file.write("1")
    for words in (
        f"link set eth0 address 02:00:00:00:00:{settings['number']:02x}",
        f"address add {settings['address']}/24 dev eth0",
        "link set lo up",
        "link set eth0 up",
    ):
        run("ip", *words.split())
    socket.sethostname(settings["name"])
    run("mount", "--bind", settings["names"], "/etc/hosts")
    run("mount", "--bind", settings["shared"], settings["shared_at"])
    run("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
    with socket.socket(fileno=settings["switch"]) as channel:
        channel.sendmsg([b"d"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [device]))])
    os.close(device)
    signal.signal(signal.SIGCHLD, reap)
    print("ready", flush=True)
    while os.read(0, 4096):
        pass


def run(*command):
    """Run it, or fail with what it says."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")


def reap(*_):
    """Take leave of processes whose parents have gone."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
