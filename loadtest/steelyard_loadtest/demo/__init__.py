"""The demo: the same load on a running cluster twice, by Steelyard's weights and in nginx's own turns."""
