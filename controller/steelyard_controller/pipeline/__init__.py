"""What goes through Memcached: samples and traffic reports in, weight tables out."""
