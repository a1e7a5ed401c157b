"""The agent's flags. Pure data: what each means is in `setting_values`, what is chosen in `settings`."""

from steelyard_protocol.program_settings import Flags

ABOUT = (
    "Sample how busy this server is and push it to Memcached. Each flag is also STEELYARD_AGENT_<FLAG> in "
    "the environment (--memcached is STEELYARD_MEMCACHED) and, with underscores, a key of the TOML file that "
    "--config names; a flag is stronger than the environment, which is stronger than the file. "
    "The shared key itself is in STEELYARD_AGENT_KEY only, and the token in STEELYARD_AGENT_TOKEN, "
    "because flags show in process lists."
)

SETTINGS = (
    ("upstream", "NAME", "the upstream this server belongs to (default: web)"),
    ("peer", "NAME", "this server's name in the upstream (default: the host name)"),
    ("memcached", "HOST:PORT,...|none", "where samples go: to one of these, and to the next one while that "
     "is away; none: they are only shown (default: 127.0.0.1:11211)"),
    ("interval", "SECONDS", "time between two samples, 0.1..60 (default: 1)"),
    ("scope", "auto|host|cgroup|process|pods", "the machine, this container, one process and its "
     "children, or every labelled pod of a Kubernetes node (default: auto, which is cgroup in a container "
     "and host elsewhere)"),
    ("pid", "N", "process scope: the process"),
    ("pid-file", "FILE", "process scope: the file that holds its number, read at every sample"),
    # Not --port: where a service is called steelyard-agent, Kubernetes sets STEELYARD_AGENT_PORT to a URL.
    ("listen-port", "PORT", "process scope: the process that listens on this TCP port"),
    ("unit", "NAME", "process scope: the processes of this systemd unit"),
    ("node", "NAME", "pods scope: the node; its pods with the label steelyard/upstream are sampled"),
    ("service-account", "FOLDER", "pods scope: has the token and ca.crt for the API server "
     "(default: /var/run/secrets/kubernetes.io/serviceaccount)"),
    ("metrics", "[HOST]:PORT", "pods scope: answer /metrics and /healthz here (default host: 127.0.0.1)"),
    ("cpu-limit", "CORES", "CPU that is 100 %% (default: the cores it may use)"),
    ("mem-limit", "BYTES", "memory that is 100 %% (default: the limit, or the machine's)"),
    ("net-capacity", "BYTES/S", "network speed that is 100 %% (default: the NIC's, if known)"),
    ("io-capacity", "OPS/S", "operations that are 100 %% (process scope: read and write calls)"),
    ("key-file", "FILE", "the file that holds the shared key; samples are then signed"),
    ("orca", "FILE|[HOST]:PORT,...", "show the sample as an ORCA endpoint-load-metrics value: in a file, or "
     "over HTTP at /orca, where Prometheus finds /metrics too (default host: 127.0.0.1)"),
    ("orca-grpc", "[HOST]:PORT", "stream it to gRPC clients and Envoy too: ORCA out-of-band, "
     "xds.service.orca.v3.OpenRcaService (default host: 127.0.0.1; needs steelyard-agent[grpc])"),
    ("orca-app", "FILE", "the application's own ORCA load report, added to what is shown: "
     "TEXT rps_fractional=118.5,eps=0.2,application_utilization=0.7"),
    ("register", "URL,...", "declare this server at one of these controllers (http://HOST:PORT), every 30 s"),
    ("address", "HOST:PORT|auto:PORT", "with --register: where nginx reaches this server; auto is "
     "the IP that this machine uses to reach the controller"),
    ("baseline", "WEIGHT", "with --register: its weight at rest (default: from the capacity it reports)"),
    ("token-file", "FILE", "with --register: the file that holds the controller's token for agents"),
)  # fmt: skip
"""Flags with a value: name, what the value is, help."""

SWITCHES = (
    ("deregister", "with --register: at SIGTERM, take the declaration back"),
    ("verbose", "log every sample"),
)
"""Flags without a value; they are settings too."""

COMMANDS = (
    ("once", "print one sample (of pods: one of each) as JSON, send nothing, exit"),
    ("explain", "print where every figure of one sample comes from, send nothing, exit"),
)
"""Flags that print one sample instead of running; a file cannot ask for that."""

CONFIG = ("config", "FILE", "the TOML file; without one there is none")

TARGETS = ("pid", "pid-file", "listen-port", "unit")
"""The flags that name a process; the process scope takes exactly one."""

REGISTERING = ("address", "baseline", "deregister")
"""The flags that need --register. Not --token-file: its variable may be set for the controller."""

FLAGS = Flags(
    program="steelyard-agent", about=ABOUT, settings=(CONFIG, *SETTINGS), switches=(*SWITCHES, *COMMANDS)
)


def names() -> list[str]:
    """Return the names of all settings."""
    return [setting[0] for setting in (*SETTINGS, *SWITCHES)]
