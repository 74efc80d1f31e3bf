"""How much memory this process takes."""

import os


def resident_kib():
    """What is in memory of it, in units of 1,024 bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
