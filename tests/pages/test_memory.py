"""Memory that the server's process gives back."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path
from midchart.pages.ui import memory

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024

if sys.argv[1] == "returned":
    assert memory.return_freed_blocks()
bytearray(30 << 20)  # freed at once: glibc raises its threshold above the next blocks
blocks = [(bytearray(b"x" * (1 << 20)), bytearray(b"x" * 60_000)) for _ in range(200)]
between = [small for _, small in blocks]  # as caches that fill meanwhile
before = resident()
del blocks
print(before - resident())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_freed_blocks_go_back_to_the_system_whatever_lies_between_them():
    def freed(how):
        arguments = [sys.executable, "-c", SCRIPT, how]
        return int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)

    assert freed("returned") > 180, "of 200 MB"
    assert freed("as it was") < 100, "else the test shows nothing"
