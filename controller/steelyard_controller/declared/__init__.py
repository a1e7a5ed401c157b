"""What is declared of upstreams and their servers, by a file or over REST. Pure."""
