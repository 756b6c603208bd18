"""Pieces of work shared out among Python threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def start_thread(work: Callable[[], object]) -> threading.Thread | None:
    """A thread that does this, or None where the system has no more threads."""
    thread = threading.Thread(target=work)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def share_out(
    work: Callable[[int], Result],
    n_pieces: int,
    n_threads: int,
    *,
    call_off: Callable[[], object] = lambda: None,
) -> list[Result]:
    """`[work(0), work(1), ...]`, by this thread and others beside it, as far as there are any.

    What one of them raises is raised here once all have ended: no piece is begun any more, and
    `call_off` may end those that are under way.
    """
    pieces, found, failures = deque(range(n_pieces)), dict[int, Result](), deque[BaseException]()

    def fail(error: BaseException) -> None:
        failures.append(error)
        pieces.clear()
        call_off()

    def take_pieces() -> None:
        try:
            while True:
                try:
                    piece = pieces.popleft()
                except IndexError:
                    return
                found[piece] = work(piece)
        except BaseException as error:
            fail(error)

    others: list[threading.Thread] = []
    while len(others) < min(n_threads, n_pieces) - 1:
        thread = start_thread(take_pieces)
        if thread is None:
            break
        others.append(thread)
    take_pieces()
    for other in others:
        while other.is_alive():
            try:
                other.join()
            except BaseException as error:  # Ctrl-C
                fail(error)
    if failures:
        raise failures[0]
    return [found[piece] for piece in range(n_pieces)]
