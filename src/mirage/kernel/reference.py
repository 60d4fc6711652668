"""Arguments by reference: tuples of arrays passed to kernels as pointers.

A kernel that takes a tuple of arrays by value takes the pointer, length and strides of each, at every call that is not
inlined. World, state and scratch of the queue's simulator are two kilobytes, a sixth of EASY's total time; those of GPU
clusters are 371 numbers. There are two remedies:

- ``joint_reference`` passes three values as one pointer. An engine does not know which discipline or scheduler it
  calls, so that call is never inlined.
- ``by_reference`` makes a pointer to one tuple, which reads as the tuple. A kernel that takes it reads only the arrays
  that it uses, and compiles in half the time.

A reference is valid until the function that made it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model

Arrays = TypeVar("Arrays")

_COMPILED: bool = not cast(Any, numba.config).DISABLE_JIT


def _stored(context: Any, builder: Any, arrays: Any, value: Any) -> Any:
    """Code that stores a value on the stack; returns its address."""
    address = cgutils.alloca_once(builder, context.get_value_type(arrays))  # type: ignore[no-untyped-call]
    builder.store(value, address)
    return builder.bitcast(address, cgutils.voidptr_t)


def _invariant(builder: Any, address: Any) -> Any:
    """Code that loads a value that is never written: no array is moved while kernels run."""
    found = builder.load(address)
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found


# -- three values as one pointer -------------------------------------------------------------------------------------


def joint_reference(*parts: Any) -> tuple[Any, Any]:
    """Returns the function that makes a reference to three values, and its inverse.

    Args:
        parts: The numba types of the three values.
    """
    if not _COMPILED:
        return _plain_joint, _unchanged
    everything = types.Tuple(parts)  # type: ignore[no-untyped-call]

    @intrinsic
    def reference(typing: Any, world: Any, state: Any, scratch: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _stored(context, builder, everything, context.make_tuple(builder, everything, arguments))

        return types.voidptr(world, state, scratch), code

    @intrinsic
    def dereference(typing: Any, pointer: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _invariant(builder, builder.bitcast(arguments[0], context.get_value_type(everything).as_pointer()))

        return everything(pointer), code

    return reference, dereference


def _plain_joint(world: Any, state: Any, scratch: Any) -> Any:
    return world, state, scratch


def _unchanged(value: Any) -> Any:
    return value


# -- one tuple of arrays -----------------------------------------------------------------------------------------------


class ReferenceType(types.Type):
    """The numba type of a pointer to a named tuple, which reads as the tuple.

    Args:
        arrays: The numba type of the named tuple.
    """

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays
        super().__init__(name=f"Reference({arrays.instance_class.__name__})")


register_model(ReferenceType)(models.OpaqueModel)


@infer_getattr
class _Attributes(AttributeTemplate):
    key = ReferenceType

    def generic_resolve(self, reference: Any, name: str) -> Any:  # type: ignore[override]
        fields = reference.arrays.fields
        return reference.arrays[fields.index(name)] if name in fields else None


@lower_getattr_generic(ReferenceType)  # type: ignore[no-untyped-call, untyped-decorator]
def _attribute(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    tuple_at = builder.bitcast(value, context.get_value_type(reference.arrays).as_pointer())
    address = cgutils.gep_inbounds(builder, tuple_at, 0, reference.arrays.fields.index(name))  # type: ignore[no-untyped-call]
    return _invariant(builder, address)


@intrinsic
def _compiled_by_reference(typing: Any, arrays: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _stored(context, builder, arrays, arguments[0])

    return ReferenceType(arrays)(arrays), code


by_reference: Callable[[Arrays], Arrays] = cast(Any, _compiled_by_reference if _COMPILED else _unchanged)
"""A named tuple of arrays as kernels take it."""
