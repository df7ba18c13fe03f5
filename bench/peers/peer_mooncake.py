# SPDX-License-Identifier: Apache-2.0
"""Mooncake's node daemon: mooncake_client holds the memory, the measured client attaches to it with
setup_dummy (shared memory and RPC), as an inference worker does. Buffers lie in the daemon's pool and
are registered: its fastest way; an engine's own buffer would need one more copy.
"""

import ctypes
import os
from importlib import metadata

# The daemon's and the client's own words; before the module is loaded.
_QUIET = {"GLOG_minloglevel": "2", "MC_LOG_LEVEL": "ERROR"}
os.environ.update(_QUIET)

import mooncake  # noqa: E402
from cells import MIB, ROUND_BYTES, STORE_BYTES  # noqa: E402
from mooncake.store import MooncakeDistributedStore  # noqa: E402
from servers import Servers, free_port  # noqa: E402

# Reads hold a lease; one shorter than the slowest batch fails reads (seen with 1,000 ms).
_LEASE_MS = 5000
# The pool holds what we get into and, behind it, the text that puts take their values from.
_GET_BYTES = ROUND_BYTES
_POOL_BYTES = 2 * ROUND_BYTES


def _program(name: str) -> str:
    path = os.path.join(os.path.dirname(mooncake.__file__), name)
    os.chmod(path, 0o755)  # the wheel installs it without the x bit
    return path


class Peer:
    def start(self) -> list[int]:
        self.servers = Servers()
        rpc, metrics, daemon = free_port(), free_port(), free_port()
        master = self.servers.start(
            [_program("mooncake_master"), f"--rpc_port={rpc}", f"--metrics_port={metrics}",
             "--rpc_thread_num=2", f"--default_kv_lease_ttl={_LEASE_MS}",
             "--enable_metric_reporting=false"], "mooncake_master", _QUIET)
        self.servers.wait_port(rpc, master, "mooncake_master")
        client = self.servers.start(
            [_program("mooncake_client"), "--host=127.0.0.1", f"--port={daemon}",
             f"--global_segment_size={STORE_BYTES // MIB}MB",
             f"--master_server_address=127.0.0.1:{rpc}", "--metadata_server=P2PHANDSHAKE",
             "--protocol=tcp", "--threads=2"], "mooncake_client", _QUIET)
        self.servers.wait_port(daemon, client, "mooncake_client")
        self.client = MooncakeDistributedStore()
        # Its local buffer is the second number; a 16 MiB value needs more than 16 MiB.
        if code := self.client.setup_dummy(2 * _POOL_BYTES, _POOL_BYTES, f"127.0.0.1:{daemon}"):
            raise RuntimeError(f"setup_dummy answered {code}\n{self.servers.log('mooncake_client')}")
        self.pool = self.client.alloc_from_mem_pool(_POOL_BYTES)
        if not self.pool:
            raise RuntimeError("alloc_from_mem_pool gave no memory")
        if code := self.client.register_buffer(self.pool, _POOL_BYTES):
            raise RuntimeError(f"register_buffer answered {code}")
        version = metadata.version("mooncake-transfer-engine-non-cuda")
        self.about = {
            "server": f"mooncake_master and mooncake_client {version}",
            "client": f"mooncake.store {version}, setup_dummy, registered buffers",
            "transport": "shared memory and RPC",
            "lease": f"{_LEASE_MS} ms"}
        self.size = 0
        return self.servers.pids()

    def stop(self) -> None:
        self.servers.stop()

    def clear(self) -> None:
        self.client.remove_all(True)

    def _source(self, values, i) -> int:
        """Address of value i in the pool; copies the text there when it is new."""
        begin = self.pool + _GET_BYTES
        if self.source is not values:
            self.source = values
            text = (ctypes.c_char * len(values.text)).from_buffer(values.text)
            ctypes.memmove(begin, text, len(values.text))
        return begin + values.offset(i)

    source = None

    def store(self, keys, values) -> None:
        call = self.put_call(keys, values)
        for i in range(len(keys)):
            call(i)

    def got(self, i) -> int:
        return self.pool + i * self.size

    def get_call(self, keys, values):
        get, pool, size = self.client.get_into, self.pool, values.size
        self.size = size

        def call(i):
            if get(keys[i], pool, size) != size:
                raise RuntimeError("get_into: not found")

        return call

    def put_call(self, keys, values):
        put, size, count = self.client.put_from, values.size, values.count
        sources = [self._source(values, i) for i in range(count)]

        def call(i):
            if code := put(keys[i], sources[i % count], size):
                raise RuntimeError(f"put_from answered {code}")

        return call

    def batch_get_call(self, keys, values):
        get, sizes = self.client.batch_get_into, [values.size] * len(keys)
        pointers = [self.pool + i * values.size for i in range(len(keys))]
        self.size = values.size

        def call(_):
            if get(keys, pointers, sizes) != sizes:
                raise RuntimeError("batch_get_into: not found")

        return call

    def batch_put_call(self, batches, values):
        put, sizes = self.client.batch_put_from, [values.size] * len(batches[0])
        pointers = [self._source(values, i) for i in range(len(batches[0]))]

        def call(i):
            if any(put(batches[i], pointers, sizes)):
                raise RuntimeError("batch_put_from failed")

        return call

    def exists_call(self, keys):
        exists = self.client.batch_is_exist
        return lambda _: exists(keys).count(1)
