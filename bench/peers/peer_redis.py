# SPDX-License-Identifier: Apache-2.0
"""Redis over a Unix socket, with redis-py and hiredis as its users have it.

redis-py returns a bytes object; moving that into the caller's buffer is part of the get. Existence is
one EXISTS of all keys: a count, less than the prefix or the answer per key that the others give.
"""

import os
import shutil
import subprocess

import hiredis
import redis
from cells import STORE_BYTES
from servers import Servers
from values import address_of, make_buffer


class Peer:
    def start(self) -> list[int]:
        self.servers = Servers()
        server = shutil.which("redis-server")
        if server is None:
            raise RuntimeError("no redis-server; ./dev setup bench installs it")
        self.path = os.path.join(self.servers.folder, "redis.sock")
        # Nothing saved, nothing evicted; twice what we store, for fragmentation.
        process = self.servers.start(
            [server, "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no",
             "--maxmemory", str(2 * STORE_BYTES), "--dir", self.servers.folder], "redis")
        self.servers.wait_until(lambda: os.path.exists(self.path), process, "redis")
        self.client = redis.Redis(unix_socket_path=self.path)
        version = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
        self.about = {
            "server": "redis-server " + version.split("v=")[1].split()[0],
            "client": f"redis-py {redis.__version__}, hiredis {hiredis.__version__}",
            "transport": "Unix socket"}
        self.buffers = []
        return self.servers.pids()

    def stop(self) -> None:
        self.servers.stop()

    def clear(self) -> None:
        self.client.flushall()

    def store(self, keys, values) -> None:
        for i, key in enumerate(keys):
            self.client.set(key, bytes(values.view(i % values.count)))

    def _take_buffers(self, count, size):
        if len(self.buffers) < count or len(self.buffers[0]) != size:
            self.buffers = [make_buffer(size) for _ in range(count)]
        return [memoryview(buffer) for buffer in self.buffers[:count]]

    def got(self, i) -> int:
        return address_of(self.buffers[i])

    def get_call(self, keys, values):
        get = self.client.get
        [buffer] = self._take_buffers(1, values.size)

        def call(i):
            buffer[:] = get(keys[i])

        return call

    def put_call(self, keys, values):
        put = self.client.set
        data = [bytes(values.view(i)) for i in range(values.count)]
        count = values.count
        return lambda i: put(keys[i], data[i % count])

    def batch_get_call(self, keys, values):
        get = self.client.mget
        buffers = self._take_buffers(len(keys), values.size)

        def call(_):
            for buffer, value in zip(buffers, get(keys)):
                buffer[:] = value

        return call

    def batch_put_call(self, batches, values):
        put = self.client.mset
        data = [bytes(values.view(i)) for i in range(values.count)]
        dicts = [dict(zip(batch, data)) for batch in batches]
        return lambda i: put(dicts[i])

    def exists_call(self, keys):
        exists = self.client.exists
        return lambda _: exists(*keys)
