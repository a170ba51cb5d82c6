"""A loopback proxy that forwards TCP connections, and can swallow, cut or refuse them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from types import TracebackType


class Proxy:
    """Forwards connections on ``port`` to a port of 127.0.0.1.

    ``swallow``: bytes are taken and go nowhere, both ways: a link that drops everything without a reset.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.swallow = threading.Event()
        #: new connections are closed as soon as they come
        self.shut = threading.Event()
        #: connections accepted so far
        self.accepted = 0
        #: told how long each piece is that goes towards the port; gives how many bytes of it still go before
        #: the connection is cut, None for all of them
        self.piece: Callable[[int], int | None] | None = None
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._near: set[socket.socket] = set()
        self._cut = threading.Event()
        self._done = threading.Event()
        self._refused = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._wake.send(b"x")
        self._thread.join()
        for sock in [*self._pairs, self._listener, self._wake, self._woken]:
            sock.close()

    @property
    def busy(self) -> bool:
        """Whether a connection is open just now."""
        return bool(self._pairs)

    def cut(self) -> None:
        """Close all connections that are open now; returns when they are closed."""
        self._done.clear()
        self._cut.set()
        self._wake.send(b"x")
        assert self._done.wait(30), "the proxy's thread is stuck"

    def refuse(self) -> None:
        """Close all connections, and take no new ones: a host that went down."""
        self._refused.set()
        self.cut()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._over.is_set():
                for key, _ in selector.select():
                    sock = key.fileobj
                    assert isinstance(sock, socket.socket)
                    if sock is self._listener:
                        self._accept(selector)
                    elif sock is self._woken:
                        sock.recv(16)
                    elif sock in self._pairs:
                        self._forward(selector, sock)
                if self._refused.is_set() and self._listener.fileno() >= 0:
                    selector.unregister(self._listener)
                    self._listener.close()
                if self._cut.is_set():
                    self._cut.clear()
                    for sock in list(self._pairs):
                        self._drop(selector, sock)
                    self._done.set()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        near, _ = self._listener.accept()
        self.accepted += 1
        if self.shut.is_set():
            near.close()
            return
        far = socket.create_connection(("127.0.0.1", self._target))
        self._pairs[near], self._pairs[far] = far, near
        self._near.add(near)
        for sock in (near, far):
            selector.register(sock, selectors.EVENT_READ)

    def _forward(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = sock.recv(65536)
        if self.swallow.is_set():
            if not data:
                selector.unregister(sock)
            return
        if not data:
            self._drop(selector, sock)
            return
        most = self.piece(len(data)) if self.piece is not None and sock in self._near else None
        with contextlib.suppress(OSError):
            self._pairs[sock].sendall(data[:most])
        if most is not None:
            self._drop(selector, sock)

    def _drop(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        for one in (sock, self._pairs.get(sock)):
            if one is not None and one in self._pairs:
                with contextlib.suppress(KeyError):
                    selector.unregister(one)
                del self._pairs[one]
                self._near.discard(one)
                one.close()
