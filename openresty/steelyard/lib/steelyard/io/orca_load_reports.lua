--- ORCA load reports, which servers send in their answers: kept as they came, until the next traffic report reads them.
--
-- A request only notes the header's text, if there is one: the newest of each
-- server, in this worker. Twice or more in a report's interval the workers lay it
-- into the shared dict, where the one worker that reports takes it out:
--
--   load/<address>   the text; gone after TTL_S, for what nobody takes is old
--   loads            there while any server sends such a header, so that for
--                    clusters where none does nothing is looked up

local orca = require "steelyard.core.orca"

local TTL_S = 3

-- Servers between two breaths.
local ROWS = 20

local _M = {}
local mt = { __index = _M }


--- Make the notes of one worker.
function _M.new(dict)
    return setmetatable({ dict = dict, noted = {} }, mt)
end


--- Note what a server said.
function _M:note(address, text)
    self.noted[address] = text
end


--- Lay what was noted where the reporting worker finds it. May yield.
function _M:flush(breathe)
    local noted, rows = self.noted, 0
    if next(noted) == nil then
        return
    end
    self.noted = {}
    self.dict:set("loads", 1, TTL_S)
    for address, text in pairs(noted) do
        self.dict:set("load/" .. address, text, TTL_S)
        rows = rows + 1
        breathe(rows, ROWS)
    end
end


--- A function of an address: its load since the last run, or nil. A server in several
-- upstreams is in several reports of one run.
-- @param malformed called for each value that could not be read
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
