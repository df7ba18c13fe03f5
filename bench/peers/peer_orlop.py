# SPDX-License-Identifier: Apache-2.0
"""Orlop: `orlopd` and the Python package of this build. Checksums are on; there is no way to turn them off."""

import os
import subprocess

import orlop
from cells import KEY_BYTES, SINGLE_SIZES, STORE_BYTES
from servers import Servers
from values import address_of, make_buffer


class Peer:
    def start(self) -> list[int]:
        self.servers = Servers()
        program = os.path.join(os.environ["RACE_PROGRAMS"], "orlopd")
        path = os.path.join(self.servers.folder, "node.sock")
        node = self.servers.start(
            [program, "--socket", path, "--admin", "off", "--capacity", f"{STORE_BYTES}B",
             "--max-value-len", f"{max(SINGLE_SIZES)}B", "--max-prepared", f"{STORE_BYTES // 2}B"],
            "orlopd")
        self.servers.wait_until(lambda: os.path.exists(path), node, "orlopd")
        self.client = orlop.Client(socket=path)
        self.servers.wait_until(lambda: self.client.wait_ready(1.0), node, "orlopd")
        self.namespaces = {}
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        self.about = {
            "server": "orlopd " + version.stdout.split()[-1],
            "client": "Python package orlop of the same build",
            "transport": "shared memory",
            "checksum": "always"}
        return self.servers.pids()

    def stop(self) -> None:
        if hasattr(self, "client"):
            self.client.close()
        self.servers.stop()

    def _namespace(self, size: int):
        if size not in self.namespaces:
            self.namespaces[size] = self.client.open_namespace(
                engine="race", layout="bytes/1", model="m", revision="1", dtype="u8",
                page_tokens=16, value_len=size)
        return self.namespaces[size]

    def clear(self) -> None:
        for namespace in self.namespaces.values():
            self.client.flush(namespace)

    def store(self, keys, values) -> None:
        call = self.put_call(keys, values)
        for i in range(len(keys)):
            call(i)

    def _take_buffers(self, count, size):
        self.buffer, self.size = make_buffer(count * size), size
        return [memoryview(self.buffer)[i * size : (i + 1) * size] for i in range(count)]

    def got(self, i) -> int:
        return address_of(self.buffer) + i * self.size

    def get_call(self, keys, values):
        get, namespace = self.client.get, self._namespace(values.size)
        buffers = self._take_buffers(1, values.size)
        lists = [[key.encode()] for key in keys]

        def call(i):
            if get(namespace, lists[i], buffers) != 1:
                raise RuntimeError("get: not found")

        return call

    def put_call(self, keys, values):
        put, namespace, stored = self.client.put, self._namespace(values.size), [orlop.Outcome.STORED]
        lists = [[key.encode()] for key in keys]
        data = [[values.view(i)] for i in range(values.count)]
        count = values.count

        def call(i):
            outcomes = put(namespace, lists[i], data[i % count])
            if outcomes != stored:
                raise RuntimeError(f"put: {outcomes}")

        return call

    def batch_get_call(self, keys, values):
        get, namespace = self.client.get, self._namespace(values.size)
        buffers = self._take_buffers(len(keys), values.size)
        packed, count = self._packed(keys), len(keys)

        def call(_):
            if get(namespace, packed, buffers) != count:
                raise RuntimeError("get: not found")

        return call

    def batch_put_call(self, batches, values):
        put, namespace = self.client.put, self._namespace(values.size)
        packed = [self._packed(batch) for batch in batches]
        data = [values.view(i) for i in range(len(batches[0]))]
        stored = [orlop.Outcome.STORED] * len(data)

        def call(i):
            outcomes = put(namespace, packed[i], data)
            if outcomes != stored:
                raise RuntimeError(f"put: {outcomes}")

        return call

    @staticmethod
    def _packed(keys):
        return orlop.PackedKeys("".join(keys).encode(), KEY_BYTES)

    def exists_call(self, keys):
        exists, namespace = self.client.exists, self._namespace(4096)
        packed = self._packed(keys)
        return lambda _: exists(namespace, packed).prefix_len


