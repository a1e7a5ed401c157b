"""The scale study: shares, latency, bytes and CPU from 100 servers to 10,000."""
