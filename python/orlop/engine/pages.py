# SPDX-License-Identifier: Apache-2.0
"""Pages of an engine's cache in this process's memory, moved whole: the host copy of the adapters.

A page is one range of bytes per layer, opaque; a value is these ranges one behind the other in the
order of the layers. The one place that copies, so that orlop.gpu can take it over.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from orlop._native import PutPlan, ReadPlan

_Bytes = npt.NDArray[np.uint8]


class PageRanges:
    """layers: one array of uint8 per layer, [pages, bytes of a page], rows contiguous.

    Layers that lie at one distance are taken as one array, so that a page is copied in one call.
    Thread-safe: it has no state; who copies out of or into a page is the caller's matter.
    """

    def __init__(self, layers: Sequence[_Bytes]) -> None:
        if not layers:
            raise ValueError("layers: there are none")
        for layer in layers:
            if layer.dtype != np.uint8 or layer.ndim != 2 or layer.strides[1] != 1:
                raise ValueError("layers: each must be an array [pages, bytes] of uint8")
            if layer.shape != layers[0].shape or layer.strides != layers[0].strides:
                raise ValueError("layers: shapes or strides differ")
        self.pages, self.page_len = layers[0].shape
        self.value_len = self.page_len * len(layers)
        self._layers = tuple(layers)
        self._stacked = _stacked(layers)

    def copy_in(self, plan: PutPlan, index: int, page: int) -> None:
        """Key `index` of the plan gets the bytes of a page."""
        self._check(page)
        value = plan.array(index, np.uint8, (len(self._layers), self.page_len))
        if self._stacked is not None:
            value[:] = self._stacked[:, page]
        else:
            for row, layer in zip(value, self._layers, strict=True):
                row[:] = layer[page]

    def copy_out(self, plan: ReadPlan, index: int, page: int) -> bool:
        """A page gets the bytes of the plan's value `index`. False: they do not match their
        checksum, and the page is as before."""
        self._check(page)
        value = plan.array(index, np.uint8, (len(self._layers), self.page_len))
        if value is None:
            return False
        if self._stacked is not None:
            self._stacked[:, page] = value
        else:
            for row, layer in zip(value, self._layers, strict=True):
                layer[page] = row
        return True

    def _check(self, page: int) -> None:
        if not 0 <= page < self.pages:  # a negative number would be another page to numpy
            raise ValueError(f"page {page} of {self.pages}")


def _stacked(layers: Sequence[_Bytes]) -> _Bytes | None:
    starts = [layer.ctypes.data for layer in layers]
    distance = starts[1] - starts[0] if len(starts) > 1 else layers[0].nbytes
    if any(b - a != distance for a, b in zip(starts, starts[1:], strict=False)):
        return None
    # numpy keeps only layers[0] alive: PageRanges keeps them all.
    return np.lib.stride_tricks.as_strided(
        layers[0], (len(layers), *layers[0].shape), (distance, *layers[0].strides))
