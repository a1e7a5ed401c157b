"""Steelyard's controller: turns samples into weight tables."""


def __getattr__(name: str) -> str:
    """Return `__version__`; looked up when it is read, because ctrl-C may come during the imports for it."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("steelyard-controller")
