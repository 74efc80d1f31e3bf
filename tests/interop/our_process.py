"""A process of flinkbuf that serves one partition and then waits to be killed: python our_process.py PARTITION_ID."""

import sys
import time

import flinkbuf as fb

environment = fb.NetworkEnvironment()
partition = environment.create_partition(sys.argv[1], 1)
writer = fb.RecordWriter(partition, fb.Types.LONG(), buffer_timeout_ms=0)
writer.emit_all(range(10))
print(environment.address[1], flush=True)
time.sleep(600)
