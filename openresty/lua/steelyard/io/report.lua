--- Send the traffic reports.
--
-- Runs in one worker's timer, once an interval. Where the last report ended
-- stands in the shared dict (`reported/<upstream>`), because the next one may
-- be another worker's. A report that could not be sent is lost, like a sample:
-- what a peer did half a minute ago is no news, and would be taken for it.

local json = require "steelyard.core.json"
local memcached = require "steelyard.io.memcached"
local traffic = require "steelyard.core.traffic"
local wire = require "steelyard.core.wire"

-- Ten ticks: the controller judges freshness itself, the key need only outlast that.
local TTL_S = 10

local NOTHING = { completed = 0, failed = 0, latency_ms = 0 }

local _M = {}


--- This start of nginx, as eight hex digits; a reload keeps the dict, and it.
function _M.boot(dict)
    dict:add("boot", string.format("%08x", math.random(0, 2 ^ 32 - 1)))
    return dict:get("boot")
end


--- Forget the addresses that left every table, so that one that comes back
-- begins at 0 and not with what it did long ago.
local function forget_departed(worker, before, after)
    for address in pairs(before) do
        local served = after[address] ~= nil
        for _, name in ipairs(worker.options.names) do
            local known = worker.upstreams[name].table
            for _, peer in ipairs(known and known.peers or {}) do
                served = served or peer.address == address
            end
        end
        if not served then
            worker.totals:forget(address)
        end
    end
end


local function report_of(name, live, worker, in_flight, now)
    local dict, options = worker.dict, worker.options
    local key = "reported/" .. name
    local last = json.decode(dict:get(key) or "") or { at = now - options.report_interval_s, totals = {} }
    local peers, totals = {}, {}
    for _, peer in ipairs(live.table and live.table.peers or {}) do
        local total = worker.totals:of(peer.address)
        totals[peer.address] = total
        -- Peers of the bootstrap list are counted, but have no name to be reported by.
        if live.rung ~= "bootstrap" then
            peers[peer.id] = traffic.figures(total, last.totals[peer.address] or NOTHING,
                                             in_flight[peer.address] or 0)
        end
    end
    forget_departed(worker, last.totals, totals)
    dict:set(key, json.encode({ at = now, totals = totals }))
    return {
        upstream = name, lb = options.lb, boot = _M.boot(dict), seq = dict:incr("seq/" .. name, 1, 0),
        interval_s = math.max(0.001, math.min(3600, math.floor((now - last.at) * 1000 + 0.5) / 1000)),
        peers = peers,
    }
end


--- Report once, on all upstreams.
function _M.run(worker, now)
    local options, items = worker.options, {}
    local _, in_flight = worker.totals:workers()
    for _, name in ipairs(options.names) do
        local report = report_of(name, worker.upstreams[name], worker, in_flight, now)
        items[#items + 1] = { wire.traffic_key(name, options.lb), assert(traffic.encode(report)) }
    end
    local ok, err = memcached.set_all(options.memcached, items, TTL_S)
    if not ok then
        worker.dict:incr("report_errors", 1, 0)
    end
    if worker.store:outcome_changed("!report", ok and "ok" or "failed") and not ok then
        ngx.log(ngx.WARN, "steelyard: traffic report not sent: ", err)
    end
end


return _M
