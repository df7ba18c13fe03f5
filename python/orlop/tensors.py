# SPDX-License-Identifier: Apache-2.0
"""Where the memory of a tensor is and how it is strided, whoever made it."""

import ctypes
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StridedMemory:
    """address: of element 0. strides: in bytes. Keeps nothing alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int


def strided_memory(tensor: Any) -> StridedMemory:
    """Asks for `__cuda_array_interface__`, `__array_interface__`, then DLPack. TypeError: none."""
    for name in ("__cuda_array_interface__", "__array_interface__"):
        # torch raises AttributeError or TypeError for what it cannot express (bf16, the CPU).
        try:
            interface = getattr(tensor, name, None)
        except (AttributeError, RuntimeError, TypeError):
            continue
        if interface is not None:
            return _from_interface(interface)
    if hasattr(tensor, "__dlpack__"):
        return _from_dlpack(tensor)
    raise TypeError(
        f"tensor: {type(tensor).__name__} has neither __cuda_array_interface__ nor "
        "__array_interface__ nor __dlpack__; give address and strides by a KvPart")


def _from_interface(interface: dict[str, Any]) -> StridedMemory:
    shape = tuple(interface["shape"])
    itemsize = int(interface["typestr"][2:])
    strides = interface.get("strides")
    if strides is None:
        strides = _contiguous(shape, itemsize)
    address = int(interface["data"][0]) + int(interface.get("offset", 0))
    return StridedMemory(address, shape, tuple(strides), itemsize)


def _contiguous(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides: list[int] = []
    for size in reversed(shape):
        strides.insert(0, itemsize)
        itemsize *= size
    return tuple(strides)


class _DLTensor(ctypes.Structure):
    # dlpack.h: the begin of DLManagedTensor, the same in all versions before 1.0, which is what
    # __dlpack__() gives to a caller that names no version.
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def _from_dlpack(tensor: Any) -> StridedMemory:
    # The capsule is never consumed: its own destructor gives the memory back when it goes.
    capsule = tensor.__dlpack__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    told = ctypes.cast(pointer_of(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    shape = tuple(told.shape[i] for i in range(told.ndim))
    itemsize = told.bits * told.lanes // 8
    if told.strides:
        strides = tuple(told.strides[i] * itemsize for i in range(told.ndim))
    else:
        strides = _contiguous(shape, itemsize)
    return StridedMemory((told.data or 0) + told.byte_offset, shape, strides, itemsize)
