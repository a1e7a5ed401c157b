--- What a load balancer tells others of servers that fail: its windows of the last turns (core/outlier_detection).
--
--   { "lb": "edge-1", "upstreams": { "web": { "order": [term, generation], "rows": {
--       "10.0.0.1:80": [completed, failed, others_completed, others_failed] } } } }
--
-- A row says how a server's tries ended, of which one failed at least, and in the same turns those at all other
-- servers; while the server is ejected there, those that were the reason.
--
-- The order is that of the table in use. It rises with each tick of the controller, so it tells a report of long ago,
-- whoever puts it back, without anybody's clock: MOST_APART generations, or another term, and it is no news. Pure.

local json = require "steelyard.core.json"

local MOST_APART = 30

-- Servers in a report, the first by address: all load balancers then tell of the same ones. Of an upstream a third may
-- be ejected at the most.
local MOST_ROWS = 200

local MAX_BYTES = 65536

-- No window has so many tries.
local MOST = 1e9

local _M = {}


--- Encode a report.
-- @param memories upstream -> { order = { term, generation }, rows = the memory of core/outlier_detection }
-- @return the text, or nil where there is nothing to tell
function _M.encode(lb, memories)
    local upstreams, keys, told_by = {}, {}, {}
    for name, memory in pairs(memories) do
        for _, row in pairs(memory.rows) do
            local window = row.window
            if window and window.failed > 0 then
                local told = { window.completed, window.failed, window.others_completed, window.others_failed }
                local key = row.address .. "/" .. name
                keys[#keys + 1], told_by[key] = key, { name, row.address, told }
            end
        end
    end
    table.sort(keys)
    for i = 1, math.min(#keys, MOST_ROWS) do
        local name, address, told = unpack(told_by[keys[i]])
        upstreams[name] = upstreams[name] or { order = memories[name].order, rows = {} }
        upstreams[name].rows[address] = told
    end
    return keys[1] and json.encode({ lb = lb, upstreams = upstreams }) or nil
end


local function is_count(value)
    return type(value) == "number" and value >= 0 and value <= MOST -- not so with NaN
end


local function is_near(order, own)
    return type(order) == "table" and own ~= nil and order[1] == own[1] and is_count(order[2])
           and math.abs(order[2] - own[2]) <= MOST_APART
end


--- Read a report, which may be anybody's: call take(upstream, address, row) for each row of a table that is near the
-- own one in order. A row is as core/outlier_detection wants it told.
-- @param orders upstream -> { term, generation } of the table in use
-- @return whether it was one, of that load balancer
function _M.decode(text, lb, orders, take)
    local report = #text <= MAX_BYTES and json.decode(text)
    if type(report) ~= "table" or report.lb ~= lb or type(report.upstreams) ~= "table" then
        return false
    end
    for name, of in pairs(report.upstreams) do
        if type(of) ~= "table" or type(of.rows) ~= "table" then
            return false
        end
        for address, row in pairs(is_near(of.order, orders[name]) and of.rows or {}) do
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
