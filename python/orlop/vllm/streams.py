# SPDX-License-Identifier: Apache-2.0
"""The order between the engine's own work on its cache and copies out of it and into it.

A copy begins after a mark: what the engine had submitted by then. A backup is left before the engine
writes its blocks. On the CPU the engine's work is done when a hook is called, and whoever needs the
memory waits for the copy; on a GPU both are a matter of streams, and nobody waits.
"""

import contextlib
from typing import Any, Protocol

import torch

import orlop
from orlop.gpu import Backup


class Streams(Protocol):
    """mark, leave: the engine's thread. after: any."""

    def mark(self) -> Any:
        """Of what the engine has submitted so far."""

    def after(self, mark: Any) -> int:
        """A stream for a copy that begins after the mark; 0: none is needed. Never the engine's own stream,
        which may be CUDA's default: its number is 0 too."""

    def leave(self, backup: Backup) -> None:
        """Returns when the engine may submit work that writes the backup's blocks. Never waits for
        the node. What the backup has not read by then it does not store."""


class NoStreams:
    """Of memory of the CPU."""

    def mark(self) -> None:
        return None

    def after(self, mark: Any) -> int:
        return 0

    def leave(self, backup: Backup) -> None:
        backup.cancel()
        with contextlib.suppress(orlop.Error):  # it was cancelled, and nothing reads any more
            backup.stream_wait(0)  # for the value under copy


class CudaStreams:
    """Of one device's memory. What copies wait for is not what they are submitted after, so that later
    steps do not hold them up."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._side = torch.cuda.Stream(device)

    def mark(self) -> Any:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        return event

    def after(self, mark: Any) -> int:
        self._side.wait_event(mark)
        return int(self._side.cuda_stream)

    def leave(self, backup: Backup) -> None:
        try:
            backup.stream_wait(int(torch.cuda.current_stream(self._device).cuda_stream))
        except orlop.WrongState:
            pass  # it ended before it had read all, and stores nothing
        except orlop.Error:  # CUDA's: the order cannot be had on the device, so it is waited for here
            backup.cancel()
            with contextlib.suppress(orlop.Error):
                backup.result()


def streams_of(device: Any) -> Streams:
    return NoStreams() if device.type == "cpu" else CudaStreams(device)
