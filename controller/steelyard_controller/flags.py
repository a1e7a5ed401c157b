"""The controller's flags. Pure data: `settings` parses their text."""

from steelyard_protocol.program_settings import Flags, Setting

from steelyard_controller.declarations.upstream import LOAD_BALANCERS

ABOUT = (
    "Turn samples into weight tables. Each flag is also STEELYARD_<FLAG> in the environment and, with "
    "underscores, a key of the YAML file that --config names. A flag overrides the environment, which "
    "overrides the file. Secrets are in STEELYARD_KEY, STEELYARD_ADMIN_TOKEN, STEELYARD_AGENT_TOKEN, "
    "STEELYARD_READ_TOKEN, STEELYARD_STATE_PASSWORD and STEELYARD_SENTINEL_PASSWORD, or in files, because "
    "every user can read a command line."
)

SETTINGS = (
    Setting(
        name="config",
        metavar="FILE",
        help="YAML file of these settings and of upstreams",
        unset="no file",
        in_file=False,
    ),
    Setting(
        name="api-host",
        metavar="HOST",
        help="Listen address of the REST API and the page; * is every address, IPv4 and IPv6",
        default="127.0.0.1",
    ),
    Setting(name="api-port", metavar="PORT", help="TCP port of the REST API and the page", default="8081"),
    Setting(name="memcached", metavar="HOST:PORT,...", help="Memcached servers", default="127.0.0.1:11211"),
    Setting(
        name="state-url",
        metavar="URL",
        help="Redis for declarations, laws' memories and the lease: redis://, rediss://, unix://, "
        "redis+sentinel:// or redis+cluster://; memory:// loses all of it at a restart",
        default="redis://127.0.0.1:6379/0",
        is_private=True,
    ),
    Setting(
        name="installation",
        metavar="NAME",
        help="Name of this installation, if others share its Redis or Memcached; each has its own upstreams",
        unset="the only one",
    ),
    Setting(
        name="id",
        metavar="NAME",
        help="Name of this controller among those of its installation",
        unset="host name and port",
    ),
    Setting(
        name="advertise-url",
        metavar="URL",
        help="URL at which the other controllers reach this one's API",
        unset="http://API-HOST:API-PORT",
    ),
    Setting(
        name="lease-s",
        metavar="SECONDS",
        help="Time that a leader keeps its lease without renewing it, 0.5 to 60",
        default="3",
    ),
    Setting(
        name="wait-replicas",
        metavar="N",
        help="Redis replicas that must have a term or a declaration before it counts, behind Sentinels or in "
        "a cluster; all of them if fewer are connected",
        default="1",
    ),
    Setting(
        name="history-s", metavar="SECONDS", help="Length of the kept history, 10 to 86400", default="900"
    ),
    Setting(
        name="agent-check-host",
        metavar="HOST",
        help="Listen address for HAProxy's agent-check; * is every address",
        default="127.0.0.1",
    ),
    Setting(
        name="agent-check-port", metavar="PORT", help="TCP port for HAProxy's agent-check", unset="not served"
    ),
    Setting(
        name="xds-host",
        metavar="HOST",
        help="Listen address for Envoys (xDS); * is every address",
        default="127.0.0.1",
    ),
    Setting(
        name="xds-port",
        metavar="PORT",
        help="TCP port for Envoys (xDS); needs steelyard-controller[xds]",
        unset="not served",
    ),
    Setting(
        name="xds-cert-file",
        metavar="FILE",
        help="Certificate (PEM) of the xDS server",
        unset="no TLS, on loopback only",
    ),
    Setting(
        name="xds-cert-key-file",
        metavar="FILE",
        help="Private key (PEM) of that certificate",
        unset="no TLS, on loopback only",
    ),
    Setting(
        name="xds-client-ca-file",
        metavar="FILE",
        help="Certificate authority (PEM) that signs the certificates of Envoys",
        unset="no TLS, on loopback only",
    ),
    Setting(
        name="admin-token-file",
        metavar="FILE",
        help="File of the tokens that may do everything, one a line",
        unset="a token that the controller generates",
        takes_empty=True,
    ),
    Setting(
        name="agent-token-file",
        metavar="FILE",
        help="File of the tokens that may register servers, one a line",
        unset="no such token",
        takes_empty=True,
    ),
    Setting(
        name="read-token-file",
        metavar="FILE",
        help="File of the tokens that may read, one a line",
        unset="reading needs no token",
        takes_empty=True,
    ),
    Setting(
        name="tokens-file",
        metavar="FILE",
        help="File of named tokens with their scopes, read again when it changes",
        unset="no named tokens",
        takes_empty=True,
    ),
    Setting(
        name="max-body-bytes",
        metavar="BYTES",
        help="Size of the largest request body that the API accepts, 1024 to 67108864",
        default="1048576",
    ),
    Setting(
        name="metrics-servers",
        metavar="N",
        help="Number of servers up to which /metrics has per-server series; 0 disables these series",
        default="2000",
    ),
    Setting(name="tick-s", metavar="SECONDS", help="Time between two decisions, 0.1 to 60", default="1"),
    Setting(
        name="log-level",
        metavar="debug|info|warning|error",
        help="Lowest level that is logged",
        default="info",
    ),
    Setting(
        name="log-format", metavar="text|json", help="Format of the log, one entry a line", default="text"
    ),
    Setting(
        name="key-file",
        metavar="FILE",
        help="File of the shared key; values in Memcached must be signed with it",
        unset="values are not signed",
        takes_empty=True,
    ),
    Setting(
        name="derived-keys",
        metavar="off|accept|require",
        help="Use of each sender's own key and token (`steelyard keys`): none, beside the shared key, or in "
        "its place",
        default="off",
    ),
    Setting(
        name="state-password-file",
        metavar="FILE",
        help="File of Redis's password, if the URL has none",
        unset="no password",
        takes_empty=True,
    ),
    Setting(
        name="sentinel-password-file",
        metavar="FILE",
        help="File of the Sentinels' own password",
        unset="no password",
        takes_empty=True,
    ),
    Setting(
        name="load-balancers",
        metavar="NAME,...",
        help="Load balancers whose reports are expected for upstreams that declare none; an empty text "
        "expects none",
        default=",".join(LOAD_BALANCERS),
        takes_empty=True,
    ),
    Setting(
        name="kubernetes",
        metavar="all|NAMESPACE,...",
        help="Namespaces whose annotated Services declare upstreams; needs steelyard-controller[kubernetes]",
        unset="Kubernetes is not asked",
        takes_empty=True,
    ),
)

SECRETS = ("key", "admin-token", "agent-token", "read-token", "state-password", "sentinel-password")

TABLES = ("upstreams", "kubernetes_claims")
"""Keys of the file that no flag has; their variables hold JSON."""

STATUSES = {
    0: "stopped by a signal",
    1: "a port is taken, the state is a newer version's, or an unexpected error came: see its log",
    2: "wrong flag, environment variable or file",
    7: "the help cannot be written: the disk is full, or standard output is closed",
    130: "ended by ctrl-C before it had begun",
}
"""The exit statuses; docs/reference/exit-status.md has the same."""

FLAGS = Flags(
    program="steelyard-controller",
    prefix="STEELYARD",
    about=ABOUT,
    settings=SETTINGS,
    secrets=SECRETS,
    examples=(
        "steelyard-controller --config controller.yaml",
        "steelyard-controller --state-url memory://   # to try it: a restart forgets everything",
        "steelyard-controller --memcached 10.0.0.5:11211 --api-host '*' --read-token-file read_token",
    ),
    statuses=STATUSES,
)
