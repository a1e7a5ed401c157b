# All images, and the only place for their labels.
#
#   make images VERSION=0.1.0                  builds them here, labelled with the last commit
#   make images VERSION=0.1.0 BAKE="--push"    takes any option of `docker buildx bake`
#
# By hand: `docker buildx bake --file docker-bake.hcl`. Without --file it would also read docker-compose.yml, which builds
# from the same Dockerfiles without labels.

variable "VERSION" { default = "0.1.0" }

# The commit's hash, its time in RFC 3339 form, and its time in seconds since 1970.
variable "REVISION" { default = "" }
variable "CREATED" { default = "" }
variable "SOURCE_DATE_EPOCH" { default = "" }

# Prefix of each name: "registry.example.com/team/".
variable "PREFIX" { default = "" }

# "linux/amd64,linux/arm64" needs a builder for both platforms.
variable "PLATFORMS" { default = "linux/amd64" }

group "default" {
  targets = ["agent", "controller", "reporter", "openresty", "server"]
}

target "image" {
  context   = "."
  platforms = split(",", PLATFORMS)
  args      = { SOURCE_DATE_EPOCH = SOURCE_DATE_EPOCH }
  labels = {
    "org.opencontainers.image.licenses" = "Apache-2.0"
    "org.opencontainers.image.vendor"   = "The Steelyard authors"
    "org.opencontainers.image.version"  = VERSION
    "org.opencontainers.image.revision" = REVISION
    "org.opencontainers.image.created"  = CREATED
  }
}

target "agent" {
  inherits   = ["image"]
  dockerfile = "agent/Dockerfile"
  tags       = ["${PREFIX}steelyard-agent:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"       = "steelyard-agent"
    "org.opencontainers.image.description" = "Samples how busy a server is, for Steelyard"
  }
}

target "controller" {
  inherits   = ["image"]
  dockerfile = "controller/Dockerfile"
  tags       = ["${PREFIX}steelyard-controller:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"       = "steelyard-controller"
    "org.opencontainers.image.description" = "Turns samples into weight tables for nginx and OpenResty"
  }
}

target "reporter" {
  inherits   = ["image"]
  dockerfile = "reporter/Dockerfile"
  tags       = ["${PREFIX}steelyard-reporter:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"       = "steelyard-reporter"
    "org.opencontainers.image.description" = "Reports the traffic of a HAProxy to Steelyard, and sets its weights"
  }
}

target "openresty" {
  inherits   = ["image"]
  dockerfile = "openresty/Dockerfile"
  tags       = ["${PREFIX}steelyard-openresty:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"       = "steelyard-openresty"
    "org.opencontainers.image.description" = "OpenResty that spreads requests over Steelyard's weight tables"
  }
}

target "server" {
  inherits   = ["image"]
  dockerfile = "loadtest/Dockerfile"
  target     = "server"
  tags       = ["${PREFIX}steelyard-server:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"       = "steelyard-server"
    "org.opencontainers.image.description" = "A demo server and the agent that measures its container"
  }
}
