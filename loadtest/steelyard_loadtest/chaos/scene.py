"""The scene of faults: a stage that is well, the load on it, and who looks (I/O)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard_loadtest.chaos.load.running import Load
from steelyard_loadtest.chaos.observer import Observer
from steelyard_loadtest.chaos.records import Gathered
from steelyard_loadtest.chaos.trial import Scene
from steelyard_loadtest.stage.settings import Settings
from steelyard_loadtest.stage.stage import Stage

WELL_S = 60.0
"""A stage is well some 10 s after its start; a loaded machine takes its time."""


@contextmanager
def scene(folder: Path, settings: Settings, rate_per_s: float, gathered: Gathered) -> Iterator[Scene]:
    """Set a scene up and take it down; what it saw is then in `gathered`. Raises SetupError, ProgramError."""
    folder.mkdir(parents=True, exist_ok=True)
    with Stage(folder, settings) as stage:
        stage.wait_well(WELL_S)
        load = Load(stage.url, rate_per_s, folder)
        observer = Observer(stage, settings.upstream)
        try:
            with observer:
                yield Scene(stage=stage, load=load, observer=observer, clock=time.monotonic, sleep=time.sleep)
        finally:
            # Before the stage goes: what then fails is nobody's fault.
            load.stop()
            gathered.keep(load.requests, observer.looks)
