"""The agent's flags. Pure data: `setting_values` and `scope_values` parse their text."""

from steelyard_protocol.program_settings import Flags, Setting

ABOUT = (
    "Sample how busy this server is and send the sample to Memcached. Each flag is also "
    "STEELYARD_AGENT_<FLAG> in the environment (--memcached is STEELYARD_MEMCACHED) and, with underscores, a "
    "key of the TOML file that --config names. A flag overrides the environment, which overrides the file. "
    "The shared key itself is in STEELYARD_AGENT_KEY and the controller's token in STEELYARD_AGENT_TOKEN, "
    "because every user can read a command line."
)

SETTINGS = (
    Setting(
        name="config", metavar="FILE", help="TOML file of these settings", unset="no file", in_file=False
    ),
    Setting(name="upstream", metavar="NAME", help="Upstream of this server", default="web"),
    Setting(name="peer", metavar="NAME", help="This server's name in the upstream", unset="the host name"),
    Setting(
        name="memcached",
        metavar="HOST:PORT,...|none",
        help="Memcached servers for samples: each sample goes to one of them, or to the next while that one "
        "is unreachable; none sends no samples",
        default="127.0.0.1:11211",
    ),
    Setting(name="interval", metavar="SECONDS", help="Time between two samples, 0.1 to 60", default="1"),
    Setting(
        name="scope",
        metavar="auto|host|cgroup|process|pods",
        help="Scope of a sample: the host, this container, one process with its children, or each "
        "labelled pod of a Kubernetes node; auto is cgroup in a container and host elsewhere",
        default="auto",
    ),
    Setting(name="pid", metavar="N", help="Process of the process scope"),
    Setting(
        name="pid-file",
        metavar="FILE",
        help="File with the process ID for the process scope, read at each sample",
    ),
    # Not --port: for a Service called steelyard-agent, Kubernetes sets STEELYARD_AGENT_PORT to a URL.
    Setting(
        name="listen-port", metavar="PORT", help="TCP port on which the process of the process scope listens"
    ),
    Setting(name="unit", metavar="NAME", help="Systemd unit of the process scope"),
    Setting(
        name="node",
        metavar="NAME",
        help="Node of the pods scope; its pods with the label steelyard/upstream are sampled",
    ),
    Setting(
        name="service-account",
        metavar="FOLDER",
        help="Folder of the pods scope with token and ca.crt for the Kubernetes API server",
        default="/var/run/secrets/kubernetes.io/serviceaccount",
    ),
    Setting(
        name="metrics",
        metavar="[HOST]:PORT",
        help="Address of /metrics and /healthz in the pods scope; the host without one is 127.0.0.1",
        unset="not served",
    ),
    Setting(name="cpu-limit", metavar="CORES", help="CPU capacity, in cores", unset="the available cores"),
    Setting(
        name="mem-limit",
        metavar="BYTES",
        help="Memory capacity, in bytes",
        unset="the control group's limit, or the host's memory",
    ),
    Setting(
        name="net-capacity",
        metavar="BYTES/S",
        help="Network capacity, in bytes per second",
        unset="the NIC's speed, if it has one",
    ),
    Setting(
        name="io-capacity",
        metavar="OPS/S",
        help="I/O capacity, in operations per second; in the process scope, read and write calls per second",
        unset="the share of time with a busy disk or waiting tasks; none in the process scope",
    ),
    Setting(
        name="key-file", metavar="FILE", help="File of the key that signs samples", unset="unsigned samples"
    ),
    Setting(
        name="orca",
        metavar="FILE|[HOST]:PORT,...",
        help="ORCA endpoint-load-metrics output: a file, or HTTP at /orca with /metrics beside it; the host "
        "without one is 127.0.0.1",
        unset="not shown",
    ),
    Setting(
        name="orca-grpc",
        metavar="[HOST]:PORT",
        help="Address of the ORCA out-of-band stream for gRPC clients and Envoy "
        "(xds.service.orca.v3.OpenRcaService); needs steelyard-agent[grpc]; the host without one is "
        "127.0.0.1",
        unset="not served",
    ),
    Setting(
        name="orca-app",
        metavar="FILE",
        help="File of the application's own ORCA load report, such as "
        "TEXT rps_fractional=118.5,eps=0.2,application_utilization=0.7, to add to ours",
        unset="none",
    ),
    Setting(
        name="register",
        metavar="URL,...",
        help="Controllers (http://HOST:PORT) to register this server at, every 30 s; asked in turn until one "
        "answers",
        unset="not registered",
    ),
    Setting(
        name="address",
        metavar="HOST:PORT|auto:PORT",
        help="Address at which nginx reaches this server, needed with --register; auto is the IP address "
        "from which this machine reaches the controller",
    ),
    Setting(
        name="baseline",
        metavar="WEIGHT",
        help="Registered weight at rest",
        unset="from the capacity in its samples",
    ),
    Setting(
        name="token-file",
        metavar="FILE",
        help="File of the controller's token for agents; the first line counts",
        unset="no token",
    ),
    Setting(name="deregister", help="Deregister this server at SIGTERM", unset="off"),
    Setting(name="verbose", help="Log every sample", unset="off"),
    Setting(
        name="once",
        help="Print one sample as JSON (in the pods scope one a pod) and exit; send nothing",
        in_file=False,
    ),
    Setting(
        name="explain",
        help="Print the sources of each figure of one sample and exit; send nothing",
        in_file=False,
    ),
)

TARGETS = ("pid", "pid-file", "listen-port", "unit")
"""The flags for a process; the process scope takes exactly one."""

REGISTERING = ("address", "baseline", "deregister")
"""The flags with a need for --register. Not --token-file: its variable may be set for the controller."""

STATUSES = {
    0: "stopped by a signal, or the sample was printed",
    1: "--once or --explain found nothing to sample, or was interrupted",
    2: "wrong flag, environment variable or file",
    7: "the output cannot be written: the disk is full, or standard output is closed",
    130: "ended by ctrl-C before it had begun",
}
"""The exit statuses; docs/reference/exit-status.md has the same."""

FLAGS = Flags(
    program="steelyard-agent",
    prefix="STEELYARD_AGENT",
    about=ABOUT,
    settings=SETTINGS,
    secrets=("key", "token"),
    examples=(
        "steelyard-agent --upstream web --peer server-1 --memcached 10.0.0.5:11211",
        "steelyard-agent --explain   # where each figure comes from; sends nothing",
        "steelyard-agent --once      # one sample as JSON; sends nothing",
    ),
    statuses=STATUSES,
)
