-- wrk's own figures, exact and in one line, for the program that started it.
-- A script that only has `done` costs a request nothing.
function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        "figures requests=%d duration_us=%d p50_us=%d p99_us=%d p999_us=%d max_us=%d non_2xx=%d socket_errors=%d\n",
        summary.requests, summary.duration,
        latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.max,
        errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
