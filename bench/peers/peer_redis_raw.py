# SPDX-License-Identifier: Apache-2.0
"""Redis over a Unix socket with the least that a Python client can do: requests made beforehand, values
sent from and received straight into the caller's buffers (sendmsg, recv_into), no parsing beyond the
lengths. Nobody uses Redis like this; it shows what the server and the socket cost without redis-py.
"""

import socket

from peer_redis import Peer as RedisPeer
from values import address_of, make_buffer

_READ = 65536


def _bulk(text: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


class Peer(RedisPeer):
    def start(self) -> list[int]:
        pids = super().start()
        self.about["client"] = "own, bare socket"
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.path)
        return pids

    def _take_exact(self, size):
        """A receive buffer for one whole answer to GET: head, value, CR LF."""
        self.head = len(b"$%d\r\n" % size)
        self.answer = make_buffer(self.head + size + 2)
        return memoryview(self.answer)

    def got(self, i) -> int:
        return address_of(self.answer) + (i * self.stride + self.head)

    def get_call(self, keys, values):
        view = self._take_exact(values.size)
        self.stride = 0
        requests = [b"*2\r\n$3\r\nGET\r\n" + _bulk(key) for key in keys]
        return self._exchange(requests, view)

    def _exchange(self, requests, view):
        """call(i) sends requests[i] and receives exactly len(view) bytes."""
        send, receive = self.socket.sendall, self.socket.recv_into
        length = len(view)

        def call(i):
            send(requests[i])
            got = receive(view)
            while got < length:
                got += receive(view[got:])

        return call

    def batch_get_call(self, keys, values):
        count = len(keys)
        self.head = len(b"*%d\r\n" % count) + len(b"$%d\r\n" % values.size)
        self.stride = len(b"$%d\r\n" % values.size) + values.size + 2
        self.answer = make_buffer(len(b"*%d\r\n" % count) + count * self.stride)
        request = b"*%d\r\n$4\r\nMGET\r\n" % (count + 1) + b"".join(map(_bulk, keys))
        call = self._exchange([request], memoryview(self.answer))
        return lambda _: call(0)

    def put_call(self, keys, values):
        data = [values.view(i) for i in range(values.count)]
        heads = [b"*3\r\n$3\r\nSET\r\n" + _bulk(key) + b"$%d\r\n" % values.size for key in keys]
        count = values.count
        return self._send_parts(lambda i: [heads[i], data[i % count], b"\r\n"])

    def batch_put_call(self, batches, values):
        data = [values.view(i) for i in range(values.count)]
        requests = []
        for batch in batches:
            parts = [b"*%d\r\n$4\r\nMSET\r\n" % (2 * len(batch) + 1)]
            for key, value in zip(batch, data):
                parts += [_bulk(key) + b"$%d\r\n" % values.size, value, b"\r\n"]
            requests.append(parts)
        return self._send_parts(requests.__getitem__)

    def _send_parts(self, parts_of):
        """call(i) sends parts_of(i) and waits for +OK."""
        send_some, send_all, receive = self.socket.sendmsg, self.socket.sendall, self.socket.recv

        def call(i):
            parts = parts_of(i)
            sent = send_some(parts)
            for part in parts:
                if sent >= len(part):
                    sent -= len(part)
                else:
                    send_all(memoryview(part)[sent:])
                    sent = 0
            answer = receive(_READ)
            if answer != b"+OK\r\n":
                raise RuntimeError(f"redis answered {answer!r}")

        return call

    def exists_call(self, keys):
        request = b"*%d\r\n$6\r\nEXISTS\r\n" % (len(keys) + 1) + b"".join(map(_bulk, keys))
        send, receive = self.socket.sendall, self.socket.recv

        def call(_):
            send(request)
            return int(receive(_READ)[1:-2])

        return call
