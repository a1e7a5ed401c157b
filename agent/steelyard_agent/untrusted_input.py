"""What the agent reads and others write, in one place: what the fuzzer tries, wherever it lies.

Nothing of the agent imports this.
"""

from steelyard_agent import cgroup_text, log_text, proc_text, scope_values, settings
from steelyard_agent.http_exchange import Answer
from steelyard_agent.outputs import http_response
from steelyard_agent.outputs.metrics import Status
from steelyard_agent.readers.cgroup import CgroupReader
from steelyard_agent.readers.host import HostReader
from steelyard_agent.registration import register_flags, register_request
from steelyard_agent.registration.controller_client import ControllerClient
from steelyard_agent.registration.register_flags import Url
from steelyard_agent.scopes.reading import Absent

__all__ = [
    "Absent",
    "Answer",
    "CgroupReader",
    "ControllerClient",
    "HostReader",
    "Status",
    "Url",
    "cgroup_text",
    "http_response",
    "log_text",
    "proc_text",
    "register_flags",
    "register_request",
    "scope_values",
    "settings",
]
