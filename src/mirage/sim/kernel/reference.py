"""World, state and scratch as one reference, for the call of a discipline.

The engine does not know which discipline it calls, so the call cannot be inlined. Passed by value, the arguments are
the pointers, lengths and strides of 32 arrays at every event: two kilobytes, a sixth of EASY's total time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mirage.sim.kernel.arrays import SCRATCH_TYPE, STATE_TYPE, WORLD_TYPE, Scratch, State, World

_ALL = types.Tuple((WORLD_TYPE, STATE_TYPE, SCRATCH_TYPE))  # type: ignore[no-untyped-call]


@intrinsic
def _compiled_reference(typing: Any, world: Any, state: Any, scratch: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = cgutils.alloca_once(builder, context.get_value_type(_ALL))  # type: ignore[no-untyped-call]
        builder.store(context.make_tuple(builder, _ALL, arguments), place)
        return builder.bitcast(place, cgutils.voidptr_t)

    return types.voidptr(world, state, scratch), code


@intrinsic
def _compiled_dereference(typing: Any, reference: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(arguments[0], context.get_value_type(_ALL).as_pointer())
        everything = builder.load(place)
        everything.set_metadata("invariant.load", builder.module.add_metadata([]))  # no array is moved
        return everything

    return _ALL(reference), code


def _plain_reference(world: World, state: State, scratch: Scratch) -> Any:
    return world, state, scratch


def _plain_dereference(situation: Any) -> Any:
    return situation


_COMPILED: bool = not cast(Any, numba.config).DISABLE_JIT

reference: Callable[[World, State, Scratch], Any] = cast(Any, _compiled_reference if _COMPILED else _plain_reference)
"""World, state and scratch as one value that is cheap to pass; valid until the caller returns."""

dereference: Callable[[Any], tuple[World, State, Scratch]] = cast(
    Any, _compiled_dereference if _COMPILED else _plain_dereference
)
"""World, state and scratch from a reference."""
