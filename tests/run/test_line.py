"""Lines beside Dask's connections: what goes over them, who may open one, and what ends it."""

import socket
import struct
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from sparsecluster.run import line as run_line
from sparsecluster.run.line import SMALL, Broken, Door, open_door, open_line

pytest.importorskip("distributed")
HERE = "tcp://127.0.0.1:1"


def opened(answer):
    line = open_line(open_door(HERE, answer))
    assert line is not None
    return line


@pytest.fixture
def echo():
    line = opened(lambda value: value)
    yield line
    line.close()


@pytest.mark.parametrize("size", [0, 10, SMALL // 8, SMALL])
def test_arrays_arrive_as_they_were_sent(echo, size):
    array = np.arange(size, dtype=np.int64)
    values = {"small": array[:3], "array": array, "text": "x" * size, "none": None}
    told = echo.ask(values).result(timeout=10)
    assert np.array_equal(told["array"], array)
    assert np.array_equal(told["small"], array[:3])
    assert told["array"].dtype == np.int64
    assert told["text"] == values["text"]
    assert told["none"] is None


def test_questions_are_answered_in_turn(echo):
    asked = [echo.ask(number) for number in range(100)]
    assert [one.result(timeout=10) for one in asked] == list(range(100))


def test_what_cannot_be_answered_is_raised_and_the_line_goes_on():
    def answer(value):
        if value == "wrong":
            raise ValueError("a wrong question")
        return value

    line = opened(answer)
    with pytest.raises(RuntimeError, match="ValueError: a wrong question"):
        line.ask("wrong").result(timeout=10)
    assert line.ask("right").result(timeout=10) == "right"
    line.close()


def test_line_that_is_closed_while_it_waits_is_an_error():
    line = opened(lambda seconds: time.sleep(seconds))
    asked = line.ask(1)
    time.sleep(0.1)
    line.close()
    with pytest.raises(Broken):
        asked.result(timeout=10)


def test_door_is_for_one_line_alone():
    door = open_door(HERE, lambda value: value)
    line = open_line(door)
    assert line.ask(1).result(timeout=10) == 1  # so it is closed by now
    assert open_line(door) is None
    line.close()


def test_nobody_comes_in_without_the_token():
    answered = []
    door = open_door(HERE, answered.append)
    assert open_line(Door(door.host, door.port, b"0" * len(door.token))) is None
    assert answered == []


@contextmanager
def listening(answer):
    """A port where somebody else answers the first guest."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            guest, _ = server.accept()
            with guest:
                answer(guest)

        threading.Thread(target=serve, daemon=True).start()
        yield Door("127.0.0.1", server.getsockname()[1], b"1" * run_line.TOKEN_BYTES)


@pytest.mark.parametrize("said", [b"", b"x" * 100], ids=["nothing", "something else"])
def test_a_port_that_is_not_the_door_is_no_line(said):
    with listening(lambda guest: guest.sendall(said)) as door:
        assert open_line(door) is None


def test_answer_that_breaks_off_ends_the_line():
    def break_off(guest):
        token = guest.recv(run_line.TOKEN_BYTES, socket.MSG_WAITALL)
        guest.sendall(run_line._welcome(token))
        guest.recv(1)
        guest.sendall(struct.pack("<QQQ", 2, 100, 100) + b"x" * 10)

    with listening(break_off) as door:
        line = open_line(door)
        for _ in range(2):
            with pytest.raises(Broken):
                line.ask(1).result(timeout=10)
        line.close()


def test_answer_that_cannot_be_sent_is_an_error_and_the_line_goes_on():
    line = opened(lambda value: threading.Lock() if value == "a lock" else value)
    with pytest.raises(RuntimeError, match="cannot pickle"):
        line.ask("a lock").result(timeout=10)
    assert line.ask(1).result(timeout=10) == 1
    line.close()


def test_line_that_lacks_memory_is_closed(echo, monkeypatch):
    def full(line):
        raise MemoryError

    assert echo.ask(1).result(timeout=10) == 1
    with monkeypatch.context() as patched:
        patched.setattr(run_line, "_receive_frames", full)
        with pytest.raises((MemoryError, Broken)):
            echo.ask(1).result(timeout=10)
    with pytest.raises(Broken):
        echo.ask(2).result(timeout=10)


def test_door_is_closed_where_nobody_comes(monkeypatch):
    monkeypatch.setattr(run_line, "DOOR_SECONDS", 0.1)
    door = open_door(HERE, lambda value: value)
    time.sleep(0.5)
    assert open_line(door) is None


def test_guest_that_says_nothing_is_sent_away(monkeypatch):
    monkeypatch.setattr(run_line, "DOOR_SECONDS", 0.1)
    door = open_door(HERE, lambda value: value)
    with socket.create_connection((door.host, door.port)) as guest:
        guest.settimeout(10)
        assert guest.recv(1) == b""


@pytest.mark.parametrize(
    "address", ["tls://127.0.0.1:1", "inproc://127.0.0.1/1", "tcp://192.0.2.1:1"]
)
def test_there_is_no_door_where_dask_would_be_safer_or_the_address_is_another(address):
    assert open_door(address, lambda value: value) is None
    assert open_line(None) is None
