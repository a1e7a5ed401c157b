--- The traffic report: one load balancer's figures of each peer in one interval.
--
-- The consumer is protocol/steelyard_protocol/traffic_report.py; both ends are tested on docs/contract/traffic.json.
-- Pure.

local json = require "steelyard.core.json"
local own_failures = require "steelyard.core.own_failures"
local wire = require "steelyard.core.wire"

local _M = {}


--- Return the cost counted in the interval; nil if requests have no costs.
local function cost_since(total, previous)
    local cost = total.cost
    if cost and previous.cost <= cost then
        cost = cost - previous.cost
    end
    return cost
end


--- Return one peer's figures: totals at the end of the interval less those at its start. If totals went backwards (the
-- address was forgotten meanwhile), they count from 0 again.
-- @param total own_failed: the upstream's own failures (core/own_failures); nil if it has no rules of its own
-- @param measured in_flight at the end; median_ms of the latencies in the interval, nil if it is not known; load, the
--        server's own report (core/orca), nil if there is none
function _M.figures(total, previous, measured)
    local completed = total.completed - previous.completed
    local failed = total.failed - previous.failed
    local latency_ms, untimed = total.latency_ms - previous.latency_ms, total.untimed - previous.untimed
    if completed < 0 or failed < 0 or latency_ms < 0 or untimed < 0 then
        completed, failed, latency_ms, untimed = total.completed, total.failed, total.latency_ms, total.untimed
    end
    if total.own_failed then
        local own = total.own_failed - previous.own_failed
        untimed = math.max(0, untimed - own)
        completed, failed = own_failures.of_upstream(completed, failed, own)
    end
    local timed = completed - untimed
    return {
        completed = completed, failed = failed, in_flight = measured.in_flight,
        -- Rounded to microseconds: nginx's clock has only milliseconds.
        latency_ms = timed > 0 and math.floor(latency_ms / timed * 1000 + 0.5) / 1000 or wire.null,
        latency_p50_ms = measured.median_ms, load = measured.load, cost = cost_since(total, previous),
    }
end


-- Peers per piece, and numbers: 0.02 ms each.
local PEERS_PER_PIECE, NUMBERS_PER_PIECE = 20, 100

-- The least number that is written with an exponent.
local LEAST_LONG = 1e14

-- Memcached's largest item holds a header and the key too, about 200 bytes, and the signature needs 65.
local MAX_BYTES = wire.MAX_BYTES - 1024

--- Leave out a member of all figures, or of their member `of`; return whether any had it.
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


--- Leave out idle servers, which the controller then knows nothing about; return whether there were any.
local function without_idle(report)
    local ids, figures = {}, {}
    for i, each in ipairs(report.figures) do
        if each.completed > 0 or each.failed > 0 or each.in_flight > 0 then
            ids[#ids + 1], figures[#figures + 1] = report.ids[i], each
        end
    end
    local fewer = #ids < #report.ids
    report.ids, report.figures, report.written_ids = ids, figures, nil
    return fewer
end


-- Steps to shorten a report that would be too large to be read, in this order.
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


--- Encode the content of a long list or object, without its brackets, in pieces.
-- @param add function (piece, i, size): put entry i of `count` into the piece, which has `size`; return its new size
local function contents(count, add, breathe)
    local pieces, piece, size = {}, {}, 0
    for i = 1, count do
        size = add(piece, i, size)
        if size > 0 and (size == PEERS_PER_PIECE or i == count) then
            pieces[#pieces + 1] = string.sub(assert(json.encode(piece)), 2, -2)
            piece, size = {}, 0
            breathe()
        end
    end
    return table.concat(pieces, ",")
end


--- Encode a list of texts. Each takes 0.1 us, three times as long as a number.
-- @param breathe called between pieces of work; may yield
function _M.texts(values, breathe)
    local function add(piece, i, size)
        piece[size + 1] = values[i]
        return size + 1
    end
    return "[" .. contents(#values, add, breathe) .. "]"
end


--- Encode a list of numbers and nulls. LuaJIT writes a number as lua-cjson does, "%.14g", in a third of the time or
-- less.
-- Numbers that JSON does not have, or that would get an exponent, are left to core/json.
local function numbers(count, value_at, breathe)
    local pieces, piece = {}, {}
    for first = 1, count, NUMBERS_PER_PIECE do
        local size, is_plain = math.min(NUMBERS_PER_PIECE, count - first + 1), true
        for i = 1, size do
            local value = value_at(first + i - 1)
            if value == nil or value == wire.null then
                value = "null"
            elseif type(value) ~= "number" or value ~= value or math.abs(value) >= LEAST_LONG then
                is_plain = false
            end
            piece[i] = value
        end
        if is_plain then
            pieces[#pieces + 1] = table.concat(piece, ",", 1, size)
        else
            local values = {}
            for i = 1, size do
                values[i] = piece[i] == "null" and wire.null or piece[i]
            end
            pieces[#pieces + 1] = string.sub(assert(json.encode(values)), 2, -2)
        end
        breathe()
    end
    return "[" .. table.concat(pieces, ",") .. "]"
end


--- Encode an object of the ids with a value.
local function object(ids, value_at, breathe)
    local function add(piece, i, size)
        local value = value_at(i)
        piece[ids[i]] = value
        return value and size + 1 or size
    end
    return "{" .. contents(#ids, add, breathe) .. "}"
end


--- Whether a figure is known of any server.
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
    local members = { ',"ids":' .. (report.written_ids or _M.texts(ids, breathe)) }
    for _, name in ipairs(COLUMNS) do
        if not OPTIONAL[name] or is_known(figures, name) then
            local column = numbers(#ids, function(i) return figures[i][name] end, breathe)
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


--- Encode a report as the Memcached value. A report that would be too large to be read leaves out dispensable figures.
-- @param report  upstream, lb, boot, seq, interval_s, zone or nil; ids of the servers, and the figures of each; rung
--        (core/ladder); order: { term, generation } of the table in use, or nil; sent_at_ms: this machine's clock
--        since 1970, by which the controller recognises a replayed report; written_ids: the ids as texts() returns
--        them, or nil
-- @param breathe called between pieces of work; may yield
function _M.encode(report, breathe)
    local text = encode(report, breathe)
    for i = 1, #DISPENSABLE do
        if #text <= MAX_BYTES then
            break
        end
        if DISPENSABLE[i](report) then
            text = encode(report, breathe)
        end
    end
    return text
end


--- The line about a report's run, by which the controller notices two programs of one name.
function _M.run_line(report)
    return string.format("%s %s %s %d\n", report.upstream, report.lb, report.boot, report.seq)
end


return _M
