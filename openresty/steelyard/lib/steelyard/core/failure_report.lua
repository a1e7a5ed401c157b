--- The report of failing servers from one load balancer to the others: its windows of the last turns
-- (core/outlier_detection).
--
--   { "lb": "edge-1", "upstreams": { "web": { "order": [term, generation], "rows": {
--       "10.0.0.1:80": [completed, failed, others_completed, others_failed] } } } }
--
-- A row has the tries of a server, at least one of them failed, and those of all other servers in the same turns.
-- While the server is ejected there, the row has the tries that were the reason.
--
-- The order is that of the table in use. It rises with each tick of the controller. So it identifies an old report
-- without any clock, even one that was written again: at MAX_GENERATIONS_APART, or in another term, a report is too
-- old. Pure.

local json = require "steelyard.core.json"

-- Generations between the tables of a report and of its reader, at most.
local MAX_GENERATIONS_APART = 30

-- Servers in a report, the first by address: so all load balancers report the same ones. At most a third of an
-- upstream can be ejected.
local MAX_ROWS = 200

local MAX_BYTES = 65536

-- Above every real number of tries in a window.
local MAX_TRIES = 1e9

local _M = {}


--- Encode a report.
-- @param memories upstream -> { order = { term, generation }, rows = the memory of core/outlier_detection }
-- @return the text, or nil if there is nothing to report
function _M.encode(lb, memories)
    local upstreams, keys, rows_by_key = {}, {}, {}
    for name, memory in pairs(memories) do
        for _, row in pairs(memory.rows) do
            local window = row.window
            if window and window.failed > 0 then
                local counts = { window.completed, window.failed, window.others_completed, window.others_failed }
                local key = row.address .. "/" .. name
                keys[#keys + 1], rows_by_key[key] = key, { name, row.address, counts }
            end
        end
    end
    table.sort(keys)
    for i = 1, math.min(#keys, MAX_ROWS) do
        local name, address, counts = unpack(rows_by_key[keys[i]])
        upstreams[name] = upstreams[name] or { order = memories[name].order, rows = {} }
        upstreams[name].rows[address] = counts
    end
    return keys[1] and json.encode({ lb = lb, upstreams = upstreams }) or nil
end


local function is_count(value)
    return type(value) == "number" and value >= 0 and value <= MAX_TRIES -- not so with NaN
end


local function is_near(order, own)
    return type(order) == "table" and own ~= nil and order[1] == own[1] and is_count(order[2])
           and math.abs(order[2] - own[2]) <= MAX_GENERATIONS_APART
end


--- Read a report, which may be from any writer: call take(upstream, address, row) for each row of a table whose order
-- is near the own one. A row is one of `others` in core/outlier_detection.
-- @param orders upstream -> { term, generation } of the table in use
-- @return whether it is a report of that load balancer
function _M.decode(text, lb, orders, take)
    local report = #text <= MAX_BYTES and json.decode(text)
    if type(report) ~= "table" or report.lb ~= lb or type(report.upstreams) ~= "table" then
        return false
    end
    for name, upstream in pairs(report.upstreams) do
        if type(upstream) ~= "table" or type(upstream.rows) ~= "table" then
            return false
        end
        for address, row in pairs(is_near(upstream.order, orders[name]) and upstream.rows or {}) do
            for i = 1, 4 do
                if type(row) ~= "table" or not is_count(row[i]) or row[2] == 0 then
                    return false
                end
            end
            take(name, address, {
                completed = row[1], failed = row[2], others_completed = row[3], others_failed = row[4],
            })
        end
    end
    return true
end


return _M
