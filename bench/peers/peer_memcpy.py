# SPDX-License-Identifier: Apache-2.0
"""No store at all: one memcpy a value inside this process. Shown beside the peers as the floor of every
call that hands over bytes: nobody who copies a value once can be faster, and Orlop also sums a checksum.
"""

import ctypes

from values import address_of, make_buffer

_copy = ctypes.memmove


class Peer:
    about = {"client": "ctypes.memmove, no store", "checksum": "none"}

    def start(self) -> list[int]:
        return []

    def stop(self) -> None:
        pass

    def clear(self) -> None:
        pass

    def store(self, keys, values) -> None:
        self.put_call(keys, values)
        for i in range(len(keys)):
            self._put(i, i)

    def _slots(self, keys, values) -> None:
        """Values side by side; keys are not looked up."""
        self.size, self.count = values.size, values.count
        self.area = make_buffer(len(keys) * values.size)
        self.slots = {key: address_of(self.area) + i * values.size for i, key in enumerate(keys)}
        # Views keep what they show alive and cost nothing in the timed part.
        self.views = [values.view(i) for i in range(values.count)]
        self.sources = [address_of(view) for view in self.views]

    def _put(self, slot, value) -> None:
        _copy(address_of(self.area) + slot * self.size, self.sources[value % self.count], self.size)

    def got(self, i) -> int:
        return address_of(self.buffer) + i * self.size

    def get_call(self, keys, values):
        self.buffer = make_buffer(values.size)
        target, size = address_of(self.buffer), values.size
        slots = [self.slots[key] for key in keys]
        return lambda i: _copy(target, slots[i], size)

    def put_call(self, keys, values):
        self._slots(keys, values)
        slots, sources, size, count = list(self.slots.values()), self.sources, self.size, self.count
        return lambda i: _copy(slots[i], sources[i % count], size)

    def batch_get_call(self, keys, values):
        self.buffer = make_buffer(len(keys) * values.size)
        target, size = address_of(self.buffer), values.size
        pairs = [(target + i * size, self.slots[key]) for i, key in enumerate(keys)]

        def call(_):
            for to, slot in pairs:
                _copy(to, slot, size)

        return call

    def batch_put_call(self, batches, values):
        self._slots([key for batch in batches for key in batch], values)
        slots, sources, size = list(self.slots.values()), self.sources, self.size
        calls = [list(zip(slots[i:], sources)) for i in range(0, len(slots), len(batches[0]))]

        def call(i):
            for to, source in calls[i]:
                _copy(to, source, size)

        return call
