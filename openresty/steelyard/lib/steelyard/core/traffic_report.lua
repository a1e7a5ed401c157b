--- The traffic report: what this load balancer saw of each peer in one interval.
--
-- The consumer is protocol/steelyard_protocol/traffic_report.py; both ends are
-- tested on docs/contract/traffic.json. Pure.

local json = require "steelyard.core.json"
local wire = require "steelyard.core.wire"

local _M = {}


--- What was counted of a cost in the interval; nil where nobody tells costs.
local function cost_since(total, before)
    local cost = total.cost
    if cost and before.cost <= cost then
        cost = cost - before.cost
    end
    return cost
end


--- One peer's figures: totals at the end of the interval less those at its start.
-- Totals that went backwards (the shared dict forgot them) count from 0 again.
-- @param measured in_flight at the end; median_ms of the latencies in the interval, nil where it is not
--   known; load, what the server said of itself (core/orca), nil where it said nothing
function _M.figures(total, before, measured)
    local completed = total.completed - before.completed
    local failed = total.failed - before.failed
    local latency_ms, untimed = total.latency_ms - before.latency_ms, total.untimed - before.untimed
    if completed < 0 or failed < 0 or latency_ms < 0 or untimed < 0 then
        completed, failed, latency_ms, untimed = total.completed, total.failed, total.latency_ms, total.untimed
    end
    local timed = completed - untimed
    return {
        completed = completed, failed = failed, in_flight = measured.in_flight,
        -- Microseconds are beyond nginx's clock already.
        latency_ms = timed > 0 and math.floor(latency_ms / timed * 1000 + 0.5) / 1000 or wire.null,
        latency_p50_ms = measured.median_ms, load = measured.load, cost = cost_since(total, before),
    }
end


-- Peers to encode at once: 0.02 ms.
local ROWS = 20

-- What a report may have beside a signature, for which 65 bytes are enough.
local LARGEST = wire.MAX_BYTES - 100

--- Leave out a member of all figures, or of what they have as `of`; whether any had it.
local function without(report, member, of)
    local removed = false
    for _, figures in ipairs(report.figures) do
        local from = figures
        if of then
            from = figures[of]
        end
        if from and from[member] then
            from[member], removed = nil, true
        end
    end
    return removed
end


--- Leave out the servers that had nothing to do: of them the controller then knows nothing. Whether there were any.
local function without_idle(report)
    local ids, figures = {}, {}
    for i, each in ipairs(report.figures) do
        if each.completed > 0 or each.failed > 0 or each.in_flight > 0 then
            ids[#ids + 1], figures[#figures + 1] = report.ids[i], each
        end
    end
    local fewer = #ids < #report.ids
    report.ids, report.figures = ids, figures
    return fewer
end


-- What a report of so many servers that it would not be read leaves out, one after the other.
local DISPENSABLE = {
    function(report) return without(report, "named_metrics", "load") end,
    function(report) return without(report, "latency_p50_ms") end,
    function(report) return without(report, "load") end,
    function(report) return without(report, "cost") end,
    without_idle,
}

-- The figures: each is a list in the order of the ids.
local COLUMNS = { "completed", "failed", "in_flight", "latency_ms", "latency_p50_ms", "cost" }
local OPTIONAL = { latency_p50_ms = true, cost = true }


--- What is within the brackets or braces of a long list or object, encoded in pieces.
-- @param add function (piece, i, size): put the i-th of `count` entries into the piece, which has `size`; its new size
local function contents(count, add, breathe)
    local pieces, piece, size = {}, {}, 0
    for i = 1, count do
        size = add(piece, i, size)
        if size > 0 and (size == ROWS or i == count) then
            pieces[#pieces + 1] = string.sub(assert(json.encode(piece)), 2, -2)
            piece, size = {}, 0
            breathe()
        end
    end
    return table.concat(pieces, ",")
end


local function list(count, value_at, breathe)
    local function add(piece, i, size)
        piece[size + 1] = value_at(i)
        return size + 1
    end
    return "[" .. contents(count, add, breathe) .. "]"
end


--- An object of the ids that have a value.
local function object(ids, value_at, breathe)
    local function add(piece, i, size)
        local value = value_at(i)
        piece[ids[i]] = value
        return value and size + 1 or size
    end
    return "{" .. contents(#ids, add, breathe) .. "}"
end


--- What is known of any server.
local function is_known(figures, name)
    for i = 1, #figures do
        if figures[i][name] then
            return true
        end
    end
    return false
end


local function columns(report, breathe)
    local ids, figures = report.ids, report.figures
    local members = { ',"ids":' .. list(#ids, function(i) return ids[i] end, breathe) }
    for _, name in ipairs(COLUMNS) do
        if not OPTIONAL[name] or is_known(figures, name) then
            local column = list(#ids, function(i) return figures[i][name] or wire.null end, breathe)
            members[#members + 1] = ',"' .. name .. '":' .. column
        end
    end
    if is_known(figures, "load") then
        members[#members + 1] = ',"loads":' .. object(ids, function(i) return figures[i].load end, breathe)
    end
    return table.concat(members)
end


local function encode(report, breathe)
    local head = assert(json.encode({
        v = 1,
        upstream = report.upstream, lb = report.lb, boot = report.boot, seq = report.seq,
        sent_at_ms = report.sent_at_ms, interval_s = report.interval_s, zone = report.zone,
        rung = report.rung, order = report.order,
    }))
    return string.sub(head, 1, -2) .. columns(report, breathe) .. "}"
end


--- Encode a report as the Memcached value. One of so many servers that it would not
-- be read leaves out what a controller can do without.
-- @param report  upstream, lb, boot, seq, interval_s, zone or nil; ids of the servers, and the figures of each;
--   rung (core/ladder); order: { term, generation } of the table that is served, or nil; sent_at_ms:
--   this machine's clock since 1970, by which the controller recognises a replayed report
-- @param breathe called between pieces of work; may yield
function _M.encode(report, breathe)
    local text = encode(report, breathe)
    for i = 1, #DISPENSABLE do
        if #text <= LARGEST then
            break
        end
        if DISPENSABLE[i](report) then
            text = encode(report, breathe)
        end
    end
    return text
end


return _M
