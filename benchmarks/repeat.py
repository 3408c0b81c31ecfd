"""Repeats the rows of a CSV file on the standard input of a command: repeat.py TIMES FILE COMMAND..."""

import subprocess
import sys

times, file, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
process = subprocess.Popen(command, stdin=subprocess.PIPE)
with open(file, "rb") as rows:
    header = rows.readline()
    process.stdin.write(header)
    for _ in range(times):
        rows.seek(len(header))
        while chunk := rows.read(1 << 20):
            process.stdin.write(chunk)
process.stdin.close()
sys.exit(process.wait())
