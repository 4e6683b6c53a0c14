"""Read the pickled batches of CIFAR-10 without running them.

A pickle is a program for a machine with a stack: most of its instructions push numbers and text and gather them into
lists and dictionaries; some name a function and have it called, by which arrays are made, and by which a hostile file
does anything. Here the machine is our own. It gathers, and where a call is asked for it writes down the function's name
and its arguments: nothing is looked up and nothing is called. `numpy.frombuffer` then makes the array, from bytes that
are as many as its shape says. Every instruction costs the same, so that a limit on their number is one on time and memory.
"""

from __future__ import annotations

import math
import pickletools
from dataclasses import dataclass
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array

MOST = 1 << 18
"""Instructions; a batch of CIFAR-10 has some thirty thousand."""
_MODULES = {
    "numpy",
    "_codecs",
    *(f"numpy.{core}.{part}" for core in ("core", "_core") for part in ("multiarray", "numeric")),
}
_FUNCTIONS = {"_reconstruct", "ndarray", "dtype", "_frombuffer", "encode"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_PUTS, _GETS = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}, {"GET", "BINGET", "LONG_BINGET"}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_VALUES = {"int", "int_or_bool", "float", "str", "bytes", "bytearray", "bytes_or_str"}
"""What instructions push that carry their value with them, as `pickletools` calls it."""


@dataclass
class Call:
    """A function that the pickle names, the arguments it wants to give it, and the state of what would come back."""

    name: str
    arguments: Any = None
    state: Any = None


def read_batch(content: bytes) -> tuple[Array, Array]:
    """Return the images (k, pixels) and labels (k,) of a batch; ValueError when it holds or asks for anything else.

    >>> import pickle
    >>> read_batch(pickle.dumps({"labels": [7], "data": np.arange(3, dtype=np.uint8).reshape(1, 3)}))
    (array([[0, 1, 2]], dtype=uint8), array([7], dtype=uint8))
    """
    batch = gathered(content)
    if not isinstance(batch, dict):
        raise ValueError("it holds no dictionary of data and labels")
    data, labels = (batch.get(name, batch.get(name.encode())) for name in ("data", "labels"))
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label <= 255 for label in labels):
        raise ValueError("its entry 'labels' is no list of numbers")
    try:
        return _array(data), np.array(labels, np.uint8)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"its entry 'data' is no whole array of unsigned bytes ({error})") from None


def gathered(content: bytes) -> Any:
    """Return what a pickle gathers, with a `Call` wherever it wants a function called."""
    machine = _Machine()
    try:
        for count, (code, argument, _) in enumerate(pickletools.genops(content)):
            if count > MOST:
                raise Refused("it has more instructions than a batch of images needs")
            if code.name == "STOP":
                return machine.stack.pop()
            machine.step(code, argument)
    except Refused:
        raise
    except Exception as error:  # pickletools and a stack in disorder raise whatever a damaged stream leads them to
        raise ValueError(f"it is truncated or corrupted ({error or type(error).__name__})") from None
    raise ValueError("it is truncated")


class Refused(ValueError):
    """The pickle asks for something that is not data."""


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def step(self, code: pickletools.OpcodeInfo, argument: Any) -> None:
        """Follow one instruction."""
        name, stack = code.name, self.stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if name == "EMPTY_LIST" else {})
        elif name == "MARK":
            self.marks.append(len(stack))
        elif name in ("LIST", "TUPLE", "DICT"):
            items = self.above()
            stack.append(items if name == "LIST" else tuple(items) if name == "TUPLE" else entries({}, items))
        elif name in _TUPLES:
            stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
        elif name in ("APPEND", "APPENDS"):
            items = self.above() if name == "APPENDS" else [stack.pop()]
            stack[-1].extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self.above() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            entries(stack[-1], items)
        elif name in _PUTS:
            self.memo[len(self.memo) if argument is None else argument] = stack[-1]
        elif name in _GETS:
            stack.append(self.memo[argument])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            module, function = argument.split(" ", 1) if name == "GLOBAL" else (stack.pop(-2), stack.pop())
            stack.append(named(module, function))
        elif name == "REDUCE":
            arguments, call = stack.pop(), stack.pop()
            stack.append(arguments[0].encode("latin1") if call.name == "encode" else Call(call.name, arguments))
        elif name == "BUILD":
            state = stack.pop()
            stack[-1].state = state
        elif code.arg is not None and code.stack_after and code.stack_after[0].name in _VALUES:
            stack.append(argument)
        elif name not in ("PROTO", "FRAME"):
            raise Refused(f"it has the instruction {name}, which a batch of images does not need")

    def above(self) -> list[Any]:
        """Return what lies above the last mark, and take it away."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items


def entries(table: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    """Return `table` with keys and values, one after the other, put in; the hash of any key but text may never end."""
    for key, value in zip(items[::2], items[1::2]):
        if not isinstance(key, str | bytes):
            raise Refused("it has a table whose keys are not text")
        table[key] = value
    return table


def named(module: object, function: object) -> Call:
    """Return the `Call` of a function by which NumPy writes an array; refuse any other."""
    if module not in _MODULES or function not in _FUNCTIONS:
        raise Refused(f"it asks for {module}.{function}, which is no array; nothing in it was run")
    return Call(function)


def _array(call: Any) -> Array:
    if call.name == "_frombuffer":
        raw, kind, shape, order = call.arguments
    else:
        _, shape, kind, order, raw = call.state
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    if kind.name != "dtype" or kind.arguments[0] not in ("u1", b"u1") or order not in (False, "C", b"C"):
        raise ValueError("its type or order is another")
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(raw):
        raise ValueError(f"its shape is {shape}, its bytes are {len(raw):,}")
    return np.frombuffer(raw, np.uint8).reshape(shape)
