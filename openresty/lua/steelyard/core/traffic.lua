--- The traffic report: what this load balancer saw of each peer in one interval.
--
-- The consumer is controller/steelyard_controller/pipeline/traffic.py; both ends are
-- tested on docs/contract/traffic.json. Pure.

local json = require "steelyard.core.json"
local wire = require "steelyard.core.wire"

local _M = {}


--- One peer's figures: totals at the end of the interval less those at its start.
-- Totals that went backwards (the shared dict forgot them) count from 0 again.
function _M.figures(total, before, in_flight)
    local completed = total.completed - before.completed
    local failed = total.failed - before.failed
    local latency_ms = total.latency_ms - before.latency_ms
    if completed < 0 or failed < 0 or latency_ms < 0 then
        completed, failed, latency_ms = total.completed, total.failed, total.latency_ms
    end
    return {
        completed = completed, failed = failed, in_flight = in_flight,
        -- Microseconds are beyond nginx's clock already.
        latency_ms = completed > 0 and math.floor(latency_ms / completed * 1000 + 0.5) / 1000 or wire.null,
    }
end


-- Peers to encode at once: 0.1 ms.
local ROWS = 100

local function no_pause() end


--- The members of a JSON object of figures, without its braces, in pieces.
local function members(peers, breathe)
    local pieces, piece, rows = {}, {}, 0
    local function encode()
        if rows > 0 then
            pieces[#pieces + 1] = string.sub(assert(json.encode(piece)), 2, -2)
            piece, rows = {}, 0
            breathe()
        end
    end
    for id, figures in pairs(peers) do
        piece[id], rows = figures, rows + 1
        if rows == ROWS then
            encode()
        end
    end
    encode()
    return table.concat(pieces, ",")
end


--- The Memcached value.
-- @param report  upstream, lb, boot, seq, interval_s, peers: id -> figures; rung (core/ladder);
--   order: { term, generation } of the table that is served, or nil; sent_at_ms: this machine's
--   clock since 1970, by which the controller tells a report of long ago that is put back
-- @param breathe called between pieces of work; may yield
function _M.encode(report, breathe)
    local head = assert(json.encode({
        v = wire.VERSION,
        upstream = report.upstream, lb = report.lb, boot = report.boot, seq = report.seq,
        sent_at_ms = report.sent_at_ms, interval_s = report.interval_s,
        rung = report.rung, order = report.order,
    }))
    return string.sub(head, 1, -2) .. ',"peers":{' .. members(report.peers, breathe or no_pause) .. "}}"
end


return _M
