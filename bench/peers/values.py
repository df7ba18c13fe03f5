# SPDX-License-Identifier: Apache-2.0
"""Values whose bytes can be checked without a second copy of each in memory.

A value of a size is the window of one random text that begins at byte 64 * k. Windows differ
everywhere, so stale or misplaced bytes never compare equal; and checking 64 values reads little more
memory than checking one, so that it does not empty the caches between two timed calls.

Which window value i is changes with `turn`, so that a store that keeps what was stored under the same
key a turn before is found out.
"""

import ctypes
import mmap
import random

STEP = 64
_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_libc.memcmp.restype = ctypes.c_int


def address_of(buffer) -> int:
    """Of a writable buffer object."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def make_buffer(size: int) -> mmap.mmap:
    """Zeroed, resident memory that begins at a page: engines' buffers are aligned, a bytearray is not."""
    buffer = mmap.mmap(-1, size)
    buffer.write(bytes(size))
    return buffer


class Values:
    def __init__(self, size: int, count: int):
        self.size = size
        self.count = count
        # The same in every process: the seed is the size.
        self.text = make_buffer(size + STEP * count)
        self.text[:] = random.Random(size).randbytes(size + STEP * count)
        self._address = address_of(self.text)
        self.turn = 0

    def offset(self, i: int) -> int:
        """Of value i in the text."""
        return STEP * ((i + self.turn) % self.count)

    def view(self, i: int) -> memoryview:
        begin = self.offset(i)
        return memoryview(self.text)[begin : begin + self.size]

    def check(self, i: int, address: int, what: str) -> None:
        """Compares memory at `address` with value i."""
        if _libc.memcmp(address, self._address + self.offset(i), self.size) != 0:
            raise RuntimeError(f"{what}: wrong bytes of value {i}, {self.size} bytes long")

    def spoil(self, i: int, address: int) -> None:
        """Makes value i at `address` wrong in one place, so that only a call that writes it anew passes check()."""
        at = i * 4099 % self.size  # elsewhere for each value; a prime, no multiple of a page
        ctypes.c_ubyte.from_address(address + at).value ^= 0xFF


def keys(tag: str, count: int) -> list[str]:
    """`count` keys of 16 characters that begin with `tag` (at most 6 characters) and share no order."""
    spread = random.Random(tag)
    return [f"{tag:_<6}{i:05}{spread.randrange(10**5):05}" for i in range(count)]
