"""How does compiled JAX code call a run?  By a C function that hands pointers on, where a C compiler is.

`jax.pure_callback` wraps every array and takes some 100 us a call; a handler of `jax.ffi` calls Python with the addresses
of rows, and takes a tenth of that. Where there is no compiler, or the wheel has no headers, the callback is used.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
from functools import cache
from typing import Any

import jax
import numpy as np

from tinyphysics.device.host.cc import FLAGS, build, load_library
from tinyphysics.errors import BackendError
from tinyphysics.learn.layer import Layer

LOG = logging.getLogger("tinyphysics")
TARGET = "tinyphysics_rows"
ROOM = 2048  # bytes of a message
SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
#include "xla/ffi/api/c_api.h"

typedef int32_t Called(int64_t key, int64_t members, int64_t count, void **rows, int64_t *sizes, void *out,
                       char *message, int64_t room);
static Called *called;
enum { MOST = 4, ROOM = 2048 };

void tinyphysics_set(Called *f) { called = f; }

XLA_FFI_Error *tinyphysics_rows(XLA_FFI_CallFrame *f) {
  for (XLA_FFI_Extension_Base *e = f->extension_start; e != NULL; e = e->next)
    if (e->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata *m = ((XLA_FFI_Metadata_Extension *)e)->metadata;
      m->api_version.major_version = XLA_FFI_API_MAJOR;
      m->api_version.minor_version = XLA_FFI_API_MINOR;
      return NULL;
    }
  void *rows[MOST];
  int64_t sizes[MOST], members = 1, count = f->args.size, key = *(int64_t *)((XLA_FFI_Scalar *)f->attrs.attrs[0])->value;
  for (int64_t k = 0; k < count; k++) {
    XLA_FFI_Buffer *b = f->args.args[k];
    rows[k] = b->data;
    sizes[k] = b->dims[b->rank - 1];
    if (k == 0)
      for (int64_t i = 0; i + 1 < b->rank; i++) members *= b->dims[i];
  }
  char message[ROOM] = "";
  if (!called(key, members, count, rows, sizes, ((XLA_FFI_Buffer *)f->rets.rets[0])->data, message, ROOM))
    return NULL;
  XLA_FFI_Error_Create_Args a = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, message, XLA_FFI_Error_Code_INTERNAL};
  return f->api->XLA_FFI_Error_Create(&a);
}
"""
CALLED = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
)
Known = tuple[str, Layer, tuple[str, ...]]
NUMBERS = itertools.count()
KEYS: dict[Known, int] = {}
KNOWN: dict[int, Known] = {}  # compiled code keeps numbers


def key_of(known: Known) -> int:
    if known not in KEYS:
        KEYS[known] = number = next(NUMBERS)
        KNOWN[number] = known
    return KEYS[known]


def numbers_at(address: int, members: int, size: int) -> Any:
    """An array (members, numbers) of another owner's memory."""
    if not members * size:
        return np.zeros((members, size))
    return np.ctypeslib.as_array((ctypes.c_double * (members * size)).from_address(address)).reshape(
        members, size
    )


def called(
    key: int, members: int, count: int, rows: Any, sizes: Any, out: int, message: int, room: int
) -> int:
    """One of the five functions of a layer; 1 and a message where it raises."""
    try:
        what, layer, names = KNOWN[key]
        found = layer.batched(what, [numbers_at(rows[k], members, sizes[k]) for k in range(count)], names)
        if found.size:
            ctypes.memmove(out, found.ctypes.data, found.nbytes)
        return 0
    except BaseException as error:  # nothing may leave a callback of C
        text = f"{type(error).__name__}: {error}".encode()[: room - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return 1


KEPT: list[Any] = [CALLED(called)]  # what C has pointers to


@cache
def handler() -> bool:
    """Is the C function there?  It is compiled and registered once."""
    try:
        folder = jax.ffi.include_dir()
        library = load_library(build(SOURCE, [*FLAGS, f"-I{folder}"]))
        library.tinyphysics_set(KEPT[0])
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(library.tinyphysics_rows), platform="cpu")
    except (BackendError, AttributeError) as why:
        LOG.info("JAX calls runs by jax.pure_callback: %s", why)
        return False
    KEPT.append(library)
    return True


def call(
    what: str, layer: Layer, names: tuple[str, ...], shape: tuple[int, ...], rows: tuple[Any, ...]
) -> Any:
    """The call, for compiled code of this processor; `handler` must be there."""
    result = jax.ShapeDtypeStruct(shape, np.dtype(float))
    return jax.ffi.ffi_call(TARGET, result)(*rows, key=np.int64(key_of((what, layer, names))))
