# SPDX-License-Identifier: Apache-2.0
"""A client of Sentinel's token protocol, written from its layout alone.

  frame     length:u16 message
  question  xid:i32 type:i8 body        answer  xid:i32 type:i8 status:i8 body

Numbers are big-endian."""
import collections
import socket
import struct

PING, FLOW, PARAM_FLOW, ACQUIRE, RELEASE = range(5)
BAD_REQUEST, TOO_MANY, FAIL, OK, BLOCKED, SHOULD_WAIT, NO_RULE, NO_REF_RULE = -4, -2, -1, 0, 1, 2, 3, 4
RELEASE_OK, ALREADY_RELEASED = 6, 7

Answer = collections.namedtuple("Answer", "xid type status body")


def frame(message):
    return struct.pack(">H", len(message)) + message


def ping(xid, namespace):
    name = namespace.encode()
    return frame(struct.pack(">ib", xid, PING) + (struct.pack(">i", len(name)) + name if name else b""))


def flow(xid, flow_id, count=1, priority=False):
    return struct.pack(">HibqiB", 18, xid, FLOW, flow_id, count, priority)


def value(given):
    """An int of 32 bits, or a text."""
    if isinstance(given, int):
        return struct.pack(">bi", 0, given)
    text = given.encode()
    return struct.pack(">bi", 7, len(text)) + text


def param_flow(xid, flow_id, values, count=1):
    head = struct.pack(">ibqii", xid, PARAM_FLOW, flow_id, count, len(values))
    return frame(head + b"".join(map(value, values)))


def acquire(xid, flow_id, count=1):
    return frame(struct.pack(">ibqi", xid, ACQUIRE, flow_id, count))


def release(xid, token):
    return frame(struct.pack(">ibq", xid, RELEASE, token))


class Client:
    """One connection that waits for its answers."""

    def __init__(self, port, namespace=None, seconds=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._in = b""
        if namespace is not None:
            self.socket.sendall(ping(0, namespace))

    def send(self, data):
        self.socket.sendall(data)

    def answer(self):
        """The next answer; ConnectionError when there comes none any more."""
        while len(self._in) < 2 or len(self._in) < 2 + struct.unpack(">H", self._in[:2])[0]:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._in += data
        end = 2 + struct.unpack(">H", self._in[:2])[0]
        message, self._in = self._in[2:end], self._in[end:]
        return Answer(*struct.unpack(">ibb", message[:6]), message[6:])

    def ask(self, data):
        self.send(data)
        return self.answer()

    def flow(self, flow_id, count=1, xid=1, priority=False):
        """(status, remaining, wait)"""
        answer = self.ask(flow(xid, flow_id, count, priority))
        assert answer.xid == xid and answer.type == FLOW and len(answer.body) == 8, answer
        return (answer.status, *struct.unpack(">ii", answer.body))

    def ping(self, namespace, xid=0):
        """How many clients the namespace has."""
        answer = self.ask(ping(xid, namespace))
        assert answer.xid == xid and answer.type == PING and answer.status == OK, answer
        return struct.unpack(">i", answer.body)[0]

    def ended(self):
        """Whether the server closes, now or soon."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self):
        self.socket.close()
