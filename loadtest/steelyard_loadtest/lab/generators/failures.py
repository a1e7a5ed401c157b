"""The kinds in which failed requests are counted. Pure."""

TIMEOUT = "timeout"
REFUSED = "refused"
RESET = "reset"
UNANSWERED = "unanswered"
"""Under way when the load had ended, and still so after the time that such requests are given."""

FAILED_FROM = 400

MOST = 60
"""So many characters of an error that has no kind of its own: a column of a table, not a log."""


def of_status(status: int) -> str:
    """Return the kind of an HTTP status: itself, or "" for an answer as wanted."""
    return str(status) if status >= FAILED_FROM else ""


def of_error(error: BaseException) -> str:
    """Return the kind of what went wrong instead of an answer."""
    if isinstance(error, TimeoutError):
        return TIMEOUT
    if isinstance(error, ConnectionRefusedError):
        return REFUSED
    # What geventhttpclient raises when a server closes without an answer has no base but its own.
    if isinstance(error, ConnectionError) or type(error).__name__ == "HTTPConnectionClosed":
        return RESET
    return other(f"{type(error).__name__} {error}")


def other(text: str) -> str:
    """Return a kind for an error that has none: its text, in one line."""
    return "other: " + " ".join(text.split())[:MOST].strip()
