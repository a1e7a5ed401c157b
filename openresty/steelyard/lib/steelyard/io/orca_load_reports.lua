--- ORCA load reports in servers' answers: kept as text until the next traffic report reads them.
--
-- A request only notes the header's text, the newest of each server in this worker. At least twice in a report's
-- interval the workers put the texts into the shared dict. The reporting worker takes them out:
--
--   load/<address>   the text; expires after TTL_S
--   loads            there while any server sends such a header: without it, nothing is looked up

local orca = require "steelyard.core.orca"

local TTL_S = 3

-- Servers between two calls of breathe().
local ROWS_PER_BREATH = 20

local _M = {}
local mt = { __index = _M }


--- Make the notes of one worker.
function _M.new(dict)
    return setmetatable({ dict = dict, noted = {} }, mt)
end


--- Note the report of a server.
function _M:note(address, text)
    self.noted[address] = text
end


--- Put the noted texts into the shared dict. May yield.
function _M:flush(breathe)
    local noted, rows = self.noted, 0
    if next(noted) == nil then
        return
    end
    self.noted = {}
    self.dict:set("loads", 1, TTL_S)
    for address, text in pairs(noted) do
        self.dict.bulk:set("load/" .. address, text, TTL_S)
        rows = rows + 1
        breathe(rows, ROWS_PER_BREATH)
    end
end


--- Make a function of an address: its load since the last run, or nil. A server may be in the reports of several
-- upstreams of one run, so its load is read once.
-- @param malformed called for each text that cannot be read
function _M.taker(dict, malformed)
    if not dict:get("loads") then
        return function() return nil end
    end
    local known = {}
    return function(address)
        if known[address] == nil then
            local key = "load/" .. address
            local text = dict:get(key)
            local load, bad
            if text then
                dict:delete(key)
                load, bad = orca.load(text, ngx.decode_base64)
            end
            if bad then
                malformed()
            end
            known[address] = load or false
        end
        return known[address] or nil
    end
end


return _M
