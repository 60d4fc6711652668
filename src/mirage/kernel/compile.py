"""The decorator of kernels: Python functions over arrays, compiled by numba and cached.

``NUMBA_DISABLE_JIT=1`` runs the same functions as plain Python, under any debugger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import types

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
            for arguments in signature:
                dispatcher.compile(arguments)
            dispatcher.disable_compile(bool(signature))
            if not signature:
                _call_without_wrapper(dispatcher, options)
        return cast(Function, dispatcher)

    return compiled


def _call_without_wrapper(dispatcher: Any, options: dict[str, Any]) -> None:
    """Compile a kernel apart for kernels that call it: without its entry for Python.

    That entry takes a third of the time of compiling a kernel of many arrays. Also, a kernel is compiled once for all
    integers, constants of its callers among them: the compiler uses these when it makes the kernel a part of a caller.
    """
    from mirage.kernel.cache import cache_on_disk

    unliteral: Any = types.unliteral
    called: Any = cast(Any, njit)(**options, no_cpython_wrapper=True)(dispatcher.py_func)
    cache_on_disk(called, "called")

    def get_call_template(args: Any, kws: Any) -> Any:
        if options["forceinline"]:
            args, kws = tuple(map(unliteral, args)), {name: unliteral(type) for name, type in kws.items()}
        return called.get_call_template(args, kws)

    dispatcher.get_call_template, dispatcher.get_overload = get_call_template, called.get_overload
