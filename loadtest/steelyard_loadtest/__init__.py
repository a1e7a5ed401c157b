"""Demo servers, a local cluster, load and plots."""
