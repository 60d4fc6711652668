"""The decorator of kernels: Python functions over arrays, compiled by numba and cached.

``NUMBA_DISABLE_JIT=1`` runs the same functions as plain Python, under any debugger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(*signature: Any, **options: Any) -> Callable[[Function], Function]:
    """Compile a function over arrays: cached, without the interpreter lock, dividing as numpy.

    Args:
        signature: Types to compile for at once; needed where the function is passed as a value.
        options: Further options of ``numba.njit``.
    """
    options = {
        "nogil": True,
        "error_model": "numpy",
        "_nrt": False,  # kernels allocate nothing; counting references to the arrays would cost 30 times their work
        "forceinline": not signature,
        "no_cfunc_wrapper": not signature,  # only functions passed as values are called through one
        **options,
    }

    def compiled(function: Function) -> Function:
        dispatcher: Any = njit(**options)(function)
        if dispatcher is not function:  # it is the function itself where numba is disabled
            from mirage.kernel.cache import cache_on_disk  # here, as it does not affect what a kernel does

            cache_on_disk(dispatcher)
            for types in signature:
                dispatcher.compile(types)
            dispatcher.disable_compile(bool(signature))
        return cast(Function, dispatcher)

    return compiled
