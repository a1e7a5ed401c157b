"""One request on its way. Pure; written to by whoever has it, because there are millions of them."""

from typing import Protocol


class Sender(Protocol):
    """The load balancer that a request came through."""

    def answered(self, now_s: float, request: "Request") -> None:
        """Note the request's answer."""


class Request:
    """Who sent it, when, through which load balancer, to which server; the stage it is in; how it ended."""

    __slots__ = ("balancer", "client", "ok", "sent_s", "server", "stage")

    def __init__(self, sent_s: float, client: int, balancer: Sender) -> None:
        self.sent_s, self.client, self.balancer = sent_s, client, balancer
        self.server, self.stage, self.ok = -1, 0, True
