# SPDX-License-Identifier: MIT OR Apache-2.0
"""The threads in which all ranges and parts of files are read and written."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

#: How many ranges of all files are read or written at the same time.
RANGES = 8


class ProcessLock:
    """A lock that is free in a forked process, also if a thread of the parent holds it."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.Lock] = {}

    def __enter__(self) -> None:
        # One step, so that all threads of the process get the same lock.
        self._locks.setdefault(os.getpid(), threading.Lock()).acquire()

    def __exit__(self, *exception: object) -> None:
        self._locks[os.getpid()].release()


class cached(Generic[T]):
    """A property that is computed once, or by several threads at once.

    `functools.cached_property` of Python 3.11 has a lock, for which a forked process waits forever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__

    def __get__(self, instance: Any, _owner: type) -> T:
        # It is found there from now on.
        value: T = vars(instance).setdefault(self._name, self._compute(instance))
        return value


_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()
_in_pool = threading.local()


def at_once(call: Callable[..., T], *args: Iterable[Any]) -> Iterator[T]:
    """Call `call` as `map` does, in several threads at the same time."""
    global _pool
    # A thread of the pool must not wait for others: they may all wait.
    if getattr(_in_pool, "is_set", False):
        return map(call, *args)

    def mark() -> None:
        _in_pool.is_set = True

    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(RANGES, "luksfs", initializer=mark)
        pool = _pool
    return pool.map(call, *args)


def _forget_pool() -> None:
    """A forked process has none of the threads of its parent, and the lock may be held."""
    global _pool, _pool_lock, _in_pool
    _pool, _pool_lock, _in_pool = None, threading.Lock(), threading.local()


os.register_at_fork(after_in_child=_forget_pool)
