--- set_by_lua: choose the server before nginx chooses a pool of connections.
--
-- nginx's `keepalive` looks through its whole pool for a connection to the
-- chosen server. With thousands of servers that costs more than all the rest,
-- so their connections are split over several upstream blocks (shards), and the
-- block must be known when the request is proxied. Where ngx_lua has pools of
-- its own there is one block, and this only names it.

local tried = require "steelyard.phase.tried"
local worker = require "steelyard.phase.worker"

local ngx = ngx


--- The upstream block for this request; balance() in that block then uses the
-- server that was chosen here. A retry goes to any server, in the same block.
return function(name)
    local live = worker.upstreams[name]
    local shards = live and live.shards
    if not shards then
        return name
    end
    local peer = live:first(live.hash_variable and ngx.var[live.hash_variable])
    if not peer then
        return shards[1] -- where balance() says why
    end
    local entry = tried()
    entry.reserved, entry.reserved_at = peer, live.changes
    return shards[peer.cell % #shards + 1]
end
