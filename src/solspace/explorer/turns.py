"""The turns of a page: whatever changes what it shows waits for one, holds the document's lock, and is sent together.

Bokeh's models may be touched under that lock alone. Panel calls the watchers of its widgets with it or without it, as it
comes (Enter in a text field comes without), and worker processes answer in threads of their own. So nobody changes a
page on the spot: all hand their change to `soon`, and changes are made in the order in which they were handed in.

Bokeh holds the changes of one turn back and sends them at its end. Panel's own `hold` is not used: it forgets what is
changed between the moment when a browser reads the page and the one when it says that it has drawn it, and with it the
callbacks that were added meanwhile. An answer known from an earlier visit comes just then.

From Bokeh 3.10 on pages are made, and turns taken, in threads beside the server's own; the lock holds there too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bokeh.document import Document
from tornado.ioloop import IOLoop

Action = Callable[[], None]


class Turns:
    """The turns of the page that `doc` shows, given by the server's `loop`; they may be asked for from any thread."""

    def __init__(self, doc: Document, loop: IOLoop) -> None:
        self._doc: Document | None = doc
        self._loop = loop
        self._seen = False

    @property
    def watched(self) -> bool:
        """Whether a browser shows the page; until the first has come it counts as shown."""
        session = getattr(getattr(self._doc, "session_context", None), "session", None)
        connected = session is not None and session.connection_count > 0
        self._seen = self._seen or connected
        return connected or not self._seen

    def soon(self, action: Action) -> None:
        """Run `action` at the page's next turn."""
        # by way of the loop: on the spot, a turn under way would hold the request for another back like any change
        self._loop.add_callback(self._enter, action)

    def after(self, milliseconds: float, action: Action) -> None:
        """Run `action` at the first turn after some time."""
        self._loop.add_callback(self._loop.call_later, milliseconds / 1000, self._enter, action)

    def close(self) -> None:
        """Give no more turns: the page has gone."""
        self._doc = None

    def _enter(self, action: Action) -> None:
        if self._doc is not None:
            self._doc.add_next_tick_callback(partial(self._take, self._doc, action))

    def _take(self, doc: Document, action: Action) -> None:
        if self._doc is None:
            return
        doc.hold("combine")
        try:
            action()
        finally:
            doc.unhold()
