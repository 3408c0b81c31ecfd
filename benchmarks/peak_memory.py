"""Runs a command and prints its run time and its peak memory.

python benchmarks/peak_memory.py NAME COMMAND…
"""

import resource
import subprocess
import sys
import time

name, *command = sys.argv[1:]
start = time.perf_counter()
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # KiB, or bytes on macOS
peak_mib = peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
print(f"  {name}: {seconds:.1f} s, peak memory {peak_mib:.0f} MiB")
