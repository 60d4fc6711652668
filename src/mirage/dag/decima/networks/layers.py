"""Perceptrons as arrays: all numbers of a network in one vector, and their kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.kernel.compile import kernel

IDENTITY, LEAKY, TANH = 0, 1, 2
"""Activations; the leaky one has a slope of 0.2 below zero."""

SLOPE = np.float32(0.2)

_FLAT, _ONE = np.float32(7), np.float32(1)
_TANH = tuple(map(np.float32, (654729075, 91891800, 2837835, 25740, 55, 310134825, 18918900, 315315, 1485)))

Ints = NDArray[np.int64]
Floats32 = NDArray[np.float32]


class Perceptrons(NamedTuple):
    """Dense layers, one after the other.

    Attributes:
        numbers: Shape (numbers,): of each layer the weights, input by output, then the biases.
        layers: Shape (layers, 3): where the layer's numbers begin, inputs, outputs.
    """

    numbers: Floats32
    layers: Ints


def perceptrons(layers: Sequence[tuple[Floats32, Floats32]]) -> Perceptrons:
    """Packs layers into one vector.

    Args:
        layers: Weights of shape (inputs, outputs) and biases of shape (outputs,), in the order of the network.
    """
    begin, table, numbers = 0, [], []
    for weights, biases in layers:
        table.append((begin, *weights.shape))
        numbers += [np.ascontiguousarray(weights, np.float32).ravel(), np.asarray(biases, np.float32)]
        begin += weights.size + biases.size
    return Perceptrons(np.concatenate(numbers), np.array(table, np.int64))


def widest(net: Perceptrons) -> int:
    """The largest number of inputs or outputs of a layer."""
    return int(net.layers[:, 1:].max())


@kernel(forceinline=False)
def perceptron(net: Perceptrons, first: int, count: int, inner: int, outer: int, hidden: Floats32) -> int:
    """Runs the input in row 0 of ``hidden`` through layers, alternating between its rows.

    Args:
        net: The layers.
        first: Index of the first one.
        count: Number of layers.
        inner: Activation of all but the last.
        outer: Activation of the last.
        hidden: Shape (2, at least the widest layer).

    Returns:
        The row of ``hidden`` with the output.
    """
    numbers, layers = net.numbers, net.layers
    row = 0
    for layer in range(first, first + count):
        begin, inputs, outputs = layers[layer, 0], layers[layer, 1], layers[layer, 2]
        out = hidden[1 - row, :outputs]
        biases = numbers[begin + inputs * outputs : begin + (inputs + 1) * outputs]
        for to in range(len(out)):
            out[to] = biases[to]
        fours = inputs - inputs % 4
        for of in range(0, fours, 4):  # four at a time, and plain ranges: otherwise the loops are not vectorised
            a, b, c, d = hidden[row, of], hidden[row, of + 1], hidden[row, of + 2], hidden[row, of + 3]
            at = begin + of * outputs
            of_a = numbers[at : at + outputs]
            of_b = numbers[at + outputs : at + 2 * outputs]
            of_c = numbers[at + 2 * outputs : at + 3 * outputs]
            of_d = numbers[at + 3 * outputs : at + 4 * outputs]
            for to in range(len(out)):
                out[to] += a * of_a[to] + b * of_b[to] + c * of_c[to] + d * of_d[to]
        for of in range(fours, inputs):
            a, at = hidden[row, of], begin + of * outputs
            of_a = numbers[at : at + outputs]
            for to in range(len(out)):
                out[to] += a * of_a[to]
        activation = outer if layer == first + count - 1 else inner
        if activation == LEAKY:
            for to in range(len(out)):
                out[to] = max(out[to], SLOPE * out[to])
        elif activation == TANH:
            for to in range(len(out)):
                out[to] = _tanh(out[to])
        row = 1 - row
    return row


@kernel()
def _tanh(value: Any) -> Any:
    """The hyperbolic tangent within 4e-6, by Lambert's continued fraction.

    Unlike the library's, it is vectorised.
    """
    x = min(max(value, -_FLAT), _FLAT)
    s = x * x
    above = _TANH[0] + s * (_TANH[1] + s * (_TANH[2] + s * (_TANH[3] + s * _TANH[4])))
    below = _TANH[0] + s * (_TANH[5] + s * (_TANH[6] + s * (_TANH[7] + s * (_TANH[8] + s))))
    return min(max(x * above / below, -_ONE), _ONE)
