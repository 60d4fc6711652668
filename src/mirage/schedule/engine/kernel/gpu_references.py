"""World, state and plan buffer, passed by reference.

A kernel that takes a tuple of arrays by value takes the pointer, lengths and strides of each: 371 numbers for the
three, at every call that is not inlined. By reference it takes three pointers, reads only the arrays that it uses, and
compiles in half the time. The engine does not know which scheduler it calls: that call takes one pointer to all three.
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

from mirage.schedule.engine.kernel.gpu_arrays import (
    PLAN_BUFFER_TYPE,
    STATE_TYPE,
    WORLD_TYPE,
    GpuState,
    GpuWorld,
    PlanBuffer,
)

Arrays = TypeVar("Arrays")


class _ReferenceType(types.Type):
    """A pointer to a named tuple, which reads as the tuple."""

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays
        super().__init__(name=f"Reference({arrays.instance_class.__name__})")


register_model(_ReferenceType)(models.OpaqueModel)


@infer_getattr
class _Attributes(AttributeTemplate):
    key = _ReferenceType

    def generic_resolve(self, reference: Any, name: str) -> Any:  # type: ignore[override]
        fields = reference.arrays.fields
        return reference.arrays[fields.index(name)] if name in fields else None


def _invariant(builder: Any, address: Any) -> Any:
    """Load a value that is never written: no array is moved while kernels run."""
    found = builder.load(address)
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found


@lower_getattr_generic(_ReferenceType)  # type: ignore[no-untyped-call, untyped-decorator]
def _attribute(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    tuple_at = builder.bitcast(value, context.get_value_type(reference.arrays).as_pointer())
    address = cgutils.gep_inbounds(builder, tuple_at, 0, reference.arrays.fields.index(name))  # type: ignore[no-untyped-call]
    return _invariant(builder, address)


_PARTS = tuple(_ReferenceType(arrays) for arrays in (WORLD_TYPE, STATE_TYPE, PLAN_BUFFER_TYPE))
_ALL = types.Tuple(_PARTS)  # type: ignore[no-untyped-call]


@intrinsic
def _compiled_by_reference(typing: Any, arrays: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = cgutils.alloca_once(builder, context.get_value_type(arrays))  # type: ignore[no-untyped-call]
        builder.store(arguments[0], address)
        return builder.bitcast(address, cgutils.voidptr_t)

    return _ReferenceType(arrays)(arrays), code


@intrinsic
def _compiled_situation(typing: Any, world: Any, state: Any, buffer: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = cgutils.alloca_once(builder, context.get_value_type(_ALL))  # type: ignore[no-untyped-call]
        builder.store(context.make_tuple(builder, _ALL, arguments), address)
        return builder.bitcast(address, cgutils.voidptr_t)

    return types.voidptr(*_PARTS), code


@intrinsic
def _compiled_dereference(typing: Any, situation: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _invariant(builder, builder.bitcast(arguments[0], context.get_value_type(_ALL).as_pointer()))

    return _ALL(situation), code


def _plain_by_reference(arrays: Any) -> Any:
    return arrays


def _plain_situation(world: GpuWorld, state: GpuState, buffer: PlanBuffer) -> Any:
    return world, state, buffer


_COMPILED: bool = not cast(Any, numba.config).DISABLE_JIT

by_reference: Callable[[Arrays], Arrays] = cast(Any, _compiled_by_reference if _COMPILED else _plain_by_reference)
"""World, state or plan buffer as kernels take them; valid until the caller returns."""

situation_of: Callable[[GpuWorld, GpuState, PlanBuffer], Any] = cast(
    Any, _compiled_situation if _COMPILED else _plain_situation
)
"""All three, each already by reference, as schedulers take them; valid until the caller returns."""

dereference: Callable[[Any], tuple[GpuWorld, GpuState, PlanBuffer]] = cast(
    Any, _compiled_dereference if _COMPILED else _plain_by_reference
)
"""World, state and plan buffer of a situation, by reference."""
