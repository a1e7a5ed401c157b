"""The messages in Memcached: samples and traffic reports in, weight tables out."""
