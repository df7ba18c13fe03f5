# SPDX-License-Identifier: Apache-2.0
"""LMCache's stand-alone store, lmcache_server, with its own message classes over TCP on loopback.

Its answers leave in two sends without TCP_NODELAY, so a small GET waits 40 ms for a delayed
acknowledgement. The server cannot be told otherwise from outside, but the client can acknowledge at
once (TCP_QUICKACK, again before each receive): Peer does, and peer_lmcache_plain does not. Requests are
made beforehand, which LMCache's own client does not do. A PUT is never answered, so a put is PUT and
EXIST of the same key. There is no batch call: our batches send all requests before they read the
first answer, which its own client does not do either. Nothing can be removed: keys are used again, which
frees the old value.
"""

import os
import socket
import sys
from importlib import metadata

os.environ.update(LMCACHE_LOG_LEVEL="ERROR", LMCACHE_DISABLE_BANNER="1", LMCACHE_TRACK_USAGE="false")

import torch  # noqa: E402
from lmcache.utils import CacheEngineKey  # noqa: E402
from lmcache.v1.memory_management import MemoryFormat  # noqa: E402
from lmcache.v1.protocol import (  # noqa: E402
    ClientCommand,
    ClientMetaMessage,
    ServerMetaMessage,
    ServerReturnCode,
)
from servers import Servers, free_port  # noqa: E402
from values import address_of, make_buffer  # noqa: E402

_ANSWER = ServerMetaMessage.packlength()
_FORMAT = MemoryFormat(1)
# Distinct keys of one value size. A prime: a key that is used again gets another value than before.
_KEPT = 1021


def _message(command, key: int, size: int = 0) -> bytes:
    shape = torch.Size((size, 0, 0, 0))
    name = CacheEngineKey("race", 1, 0, key, torch.bfloat16)
    return ClientMetaMessage(command, name, size, _FORMAT, torch.uint8, shape).serialize()


class Peer:
    quick_acknowledge = True

    def start(self) -> list[int]:
        self.servers = Servers()
        port = free_port()
        server = self.servers.start(
            [sys.executable, "-m", "lmcache.v1.server", "127.0.0.1", str(port)], "lmcache_server")
        self.servers.wait_port(port, server, "lmcache_server")
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        version = metadata.version("lmcache")
        self.about = {
            "server": f"lmcache_server {version}",
            "client": "its message classes" + (", TCP_QUICKACK" if self.quick_acknowledge else ""),
            "transport": "TCP on loopback"}
        self.numbers: dict[str, int] = {}
        self.head = memoryview(bytearray(_ANSWER))
        self.buffer, self.size = make_buffer(1), 0
        return self.servers.pids()

    def stop(self) -> None:
        self.servers.stop()

    def clear(self) -> None:
        self.numbers.clear()

    def _number(self, key: str, size: int) -> int:
        """LMCache's keys are numbers; the same ones every round, so that the store does not grow."""
        if key not in self.numbers:
            self.numbers[key] = size << 16 | len(self.numbers) % _KEPT
        return self.numbers[key]

    def store(self, keys, values) -> None:
        call = self.put_call(keys, values)
        for i in range(len(keys)):
            call(i)

    def _receive_into(self, view) -> None:
        receive, got, length = self.socket.recv_into, 0, len(view)
        while got < length:
            if self.quick_acknowledge:
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            fresh = receive(view[got:])
            if fresh == 0:
                raise EOFError("lmcache_server hung up")
            got += fresh

    def _receive_ok(self) -> bool:
        self._receive_into(self.head)
        return ServerMetaMessage.deserialize(bytes(self.head)).code == ServerReturnCode.SUCCESS

    def _buffers(self, count, size):
        if len(self.buffer) != count * size:
            self.buffer = make_buffer(count * size)
        self.size = size
        return [memoryview(self.buffer)[i * size : (i + 1) * size] for i in range(count)]

    def got(self, i) -> int:
        return address_of(self.buffer) + i * self.size

    def get_call(self, keys, values):
        requests = [_message(ClientCommand.GET, self._number(key, values.size)) for key in keys]
        [buffer] = self._buffers(1, values.size)

        def call(i):
            self.socket.sendall(requests[i])
            if not self._receive_ok():
                raise RuntimeError("GET: not found")
            self._receive_into(buffer)

        return call

    def _put_parts(self, key, value) -> list:
        number = self._number(key, len(value))
        return [_message(ClientCommand.PUT, number, len(value)), value,
                _message(ClientCommand.EXIST, number)]

    def _send_parts(self, parts) -> None:
        sent = self.socket.sendmsg(parts)
        for part in parts:
            if sent >= len(part):
                sent -= len(part)
            else:
                self.socket.sendall(memoryview(part)[sent:])
                sent = 0

    def put_call(self, keys, values):
        parts = [self._put_parts(key, values.view(i % values.count)) for i, key in enumerate(keys)]

        def call(i):
            self._send_parts(parts[i])
            if not self._receive_ok():
                raise RuntimeError("EXIST after PUT: not found")

        return call

    def batch_get_call(self, keys, values):
        request = b"".join(_message(ClientCommand.GET, self._number(key, values.size)) for key in keys)
        buffers = self._buffers(len(keys), values.size)

        def call(_):
            self.socket.sendall(request)
            for buffer in buffers:
                if not self._receive_ok():
                    raise RuntimeError("GET: not found")
                self._receive_into(buffer)

        return call

    def batch_put_call(self, batches, values):
        parts = [[part for i, key in enumerate(batch) for part in self._put_parts(key, values.view(i))]
                 for batch in batches]
        answers = len(batches[0])

        def call(i):
            self._send_parts(parts[i])
            for _ in range(answers):
                if not self._receive_ok():
                    raise RuntimeError("EXIST after PUT: not found")

        return call

    def exists_call(self, keys):
        request = b"".join(_message(ClientCommand.EXIST, self._number(key, 1)) for key in keys)
        answers = range(len(keys))

        def call(_):
            self.socket.sendall(request)
            return sum(self._receive_ok() for _ in answers)

        return call
