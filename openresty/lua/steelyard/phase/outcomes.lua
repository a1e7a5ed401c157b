--- What nginx says of the tries of the running request.

local tries = require "steelyard.core.tries"

--- The outcome of each try of a ledger entry, in order.
return function(entry)
    local var = ngx.var
    return tries.outcomes(entry, var.upstream_addr, var.upstream_status, var.upstream_response_time,
                          var.upstream_connect_time)
end
