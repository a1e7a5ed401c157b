--- What nginx says of the tries of the running request.

local tries = require "steelyard.core.tries"

--- The outcome of each try of a ledger entry, in order.
return function(entry)
    local var = ngx.var
    return tries.outcomes(entry, {
        addresses = var.upstream_addr, statuses = var.upstream_status,
        response_times = var.upstream_response_time,
        connect_times = var.upstream_connect_time, header_times = var.upstream_header_time,
    })
end
