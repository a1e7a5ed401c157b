--- Send the traffic reports.
--
-- Runs in one worker's timer, once an interval. Where the last report ended
-- stands in the shared dict (io/window), because the next one may be another
-- worker's. A report that could not be sent is lost, like a sample:
-- what a peer did half a minute ago is no news, and would be taken for it.

local cells = require "steelyard.io.cells"
local memcached = require "steelyard.io.memcached"
local signature = require "steelyard.io.signature"
local traffic = require "steelyard.core.traffic"
local window = require "steelyard.io.window"
local wire = require "steelyard.core.wire"

-- Ten ticks: the controller judges freshness itself, the key need only outlast that.
local TTL_S = 10

local FIELDS = { "completed", "failed", "latency_ms" }

-- Peers between two breaths.
local ROWS = 50

local _M = {}


--- This start of nginx, as eight hex digits; a reload keeps the dict, and it.
function _M.boot(dict)
    dict:add("boot", string.format("%08x", math.random(0, 2 ^ 32 - 1)))
    return dict:get("boot")
end


--- Forget addresses that left every table, so that one that comes back begins
-- at 0 and not with what it did long ago.
local function forget(worker, departed)
    for address in pairs(departed) do
        local served = false
        for _, live in pairs(worker.upstreams) do
            served = served or live.addresses[address]
        end
        if not served then
            worker.totals:forget(address)
            local cell = cells.forget(worker.dict, address)
            if cell then
                worker.board:forget(cell)
            end
        end
    end
end


local function row(packed, i)
    return { completed = packed[3 * i], failed = packed[3 * i + 1], latency_ms = packed[3 * i + 2] }
end


--- Each peer's figures since the last report; nothing while only the bootstrap
-- list is served, whose peers are counted but have no name to be reported by.
local function figures_of(name, live, worker, in_flight, breathe)
    local served = live.table and live.table.peers or {}
    local totals, before, departed = window.turn(worker, "reported/" .. name, served, FIELDS, breathe)
    forget(worker, departed or {})
    local figures, nothing = {}, { completed = 0, failed = 0, latency_ms = 0 }
    for i = 1, live.rung ~= "bootstrap" and #served or 0 do
        local peer = served[i]
        figures[peer.id] = traffic.figures(row(totals, i - 1), before and row(before, i - 1) or nothing,
                                           in_flight[peer.address] or 0)
        if i % ROWS == 0 then
            breathe()
        end
    end
    return figures
end


--- The term and generation of the table that is served; nil while there is none.
local function order_of(live)
    local served = live.table
    if served and served ~= live.bootstrap then
        return { served.term, served.generation }
    end
end


local function report_of(name, worker, in_flight, now, breathe)
    local dict, options, live = worker.dict, worker.options, worker.upstreams[name]
    local last = dict:get("reported_at/" .. name) or now - options.report_interval_s
    dict:set("reported_at/" .. name, now)
    return {
        upstream = name, lb = options.lb, boot = _M.boot(dict), seq = dict:incr("seq/" .. name, 1, 0),
        sent_at_ms = math.floor(now * 1000),
        interval_s = math.max(0.001, math.min(3600, math.floor((now - last) * 1000 + 0.5) / 1000)),
        rung = live.rung, order = order_of(live),
        peers = figures_of(name, live, worker, in_flight, breathe),
    }
end


--- Report once, on all upstreams.
-- @param breathe called every 0.2 ms or so of work; may yield
function _M.run(worker, now, breathe)
    local options, items = worker.options, {}
    local _, in_flight = worker.totals:workers()
    for _, name in ipairs(options.names) do
        local text = traffic.encode(report_of(name, worker, in_flight, now, breathe), breathe)
        local value = signature.sign(options.key, text, breathe)
        items[#items + 1] = { wire.traffic_key(name, options.lb), value }
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
