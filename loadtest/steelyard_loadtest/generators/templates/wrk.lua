-- Only `done`: a script without `request` and `response` costs a request nothing.
local parts = { {{ parts | join(", ") }} }

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format("figures requests=%d duration_us=%d status=%d timeout=%d connect=%d broken=%d\n",
        summary.requests, summary.duration, errors.status, errors.timeout, errors.connect,
        errors.read + errors.write))
    if latency.max > 0 then
        io.write(string.format("latency mean_us=%.1f min_us=%d max_us=%d\n",
            latency.mean, latency.min, latency.max))
        for _, part in ipairs(parts) do
            io.write(string.format("quantile %.5f %d\n", part, latency:percentile(part * 100)))
        end
    end
end
