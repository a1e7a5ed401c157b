--- What the sources of weight tables share when they go through all upstreams.

local clock = require "steelyard.io.clock"

-- Of fresh_s: two tables in a row are missing, and a controller can still answer before the rung is lost.
local ASK_AFTER = 2 / 3

local _M = {}


--- Do work(upstream, i) for each; what fails for one is logged, and changes nothing for the others.
function _M.for_each(names, breathe, work)
    for i, upstream in ipairs(names) do
        local ok, err = pcall(work, upstream, i)
        if not ok then
            ngx.log(ngx.ERR, "steelyard: upstream ", upstream, ": not fetched: ", err)
        end
        breathe()
    end
end


--- The names, beginning with the one at `first`.
function _M.names_from(names, first)
    local order = {}
    for i = 1, #names do
        order[i] = names[(first + i - 2) % #names + 1]
    end
    return order
end


--- Whether so long nothing new has come of an upstream that something may be wrong where it comes from.
function _M.is_late(options, store, upstream)
    local arrived_at = store:arrived_at(upstream)
    return not arrived_at or store:from_disk(upstream)
           or clock.monotonic() - arrived_at > ASK_AFTER * options.limits.fresh_s
end


return _M
