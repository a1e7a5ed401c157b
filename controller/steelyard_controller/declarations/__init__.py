"""The declarations of upstreams and their servers, from a file or over REST. Pure."""
