"""`compare inference`: load balancers before simulated inference engines, over HTTP with streamed answers."""
