"""Reuse of freed memory, so that a training step does not request it from the system again.

glibc hands the end of its heap back whenever enough of it is free, and large blocks at once. A step
allocates and frees the same tensors again and again, and each page that comes back to it costs a
fault: long runs on a CPU spent up to half of their time there.
"""

from __future__ import annotations

import ctypes
import functools
import sys

__all__ = ["keep_freed_memory"]

#: parameters of glibc's ``mallopt`` (malloc.h)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
#: bytes: the heap is never trimmed, and blocks up to glibc's largest allowed size lie in it
NEVER, LARGEST = 2**31 - 1, 2**25


@functools.cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory; True where it did (Linux with glibc)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has no mallopt
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, NEVER)) and bool(mallopt(M_MMAP_THRESHOLD, LARGEST))
