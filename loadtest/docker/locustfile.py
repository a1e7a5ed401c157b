"""The load of the profile `loadtest`: users who ask for CPU work, and sometimes for a body.

Times of 0.1 to 0.5 s between two requests of a user: 100 users are some 300 requests/s.
"""

from locust import FastHttpUser, between, task


class Visitor(FastHttpUser):  # type: ignore[misc]  # locust has no types
    """One user of the page."""

    wait_time = between(0.1, 0.5)

    @task(20)  # type: ignore[untyped-decorator]
    def work(self) -> None:
        """Ask for a request of CPU work."""
        self.client.get("/")

    @task(1)  # type: ignore[untyped-decorator]
    def body(self) -> None:
        """Ask for a larger body."""
        self.client.get("/bytes?n=20000", name="/bytes")
