--- The counters of all workers in the shared dict.
--
-- Counts only grow, by `incr`, so workers never overwrite each other. What is
-- in flight is a level and not a count: each worker writes its own, under its
-- own slot, with a TTL; a worker that is killed leaves nothing behind for
-- longer. So does one that outlives a reload and no longer runs timers.

local json = require "steelyard.core.json"

-- In the order in which the ledger hands them out.
local FIELDS = { "picks", "completed", "failed", "latency_ms" }

-- Twelve flushes: a worker that was busy for a second or two is not forgotten.
local WORKER_TTL_S = 3

-- Slots are numbered from nginx's start. Only the last ones are looked at:
-- that many workers alive at once means hundreds of reloads a minute.
local MAX_WORKERS = 256

local _M = {}
local mt = { __index = _M }


--- Open the totals in a lua_shared_dict.
function _M.new(dict)
    return setmetatable({ dict = dict }, mt)
end


--- Number this worker.
function _M:enter()
    self.slot = self.dict:incr("workers", 1, 0)
end


--- Add what the ledger counted, and show what this worker has in flight.
-- @param about   a table to show of this worker
-- @param breathe called now and then; may yield
function _M:flush(ledger, about, breathe)
    local dict = self.dict
    about.in_flight = ledger:drain(function(address, ...)
        for i = 1, #FIELDS do
            local count = select(i, ...)
            if count > 0 then
                dict:incr(FIELDS[i] .. "/" .. address, count, 0)
            end
        end
    end, breathe)
    dict:set("worker/" .. self.slot, json.encode(about), WORKER_TTL_S)
end


--- One of an address's counts since nginx started.
function _M:get(address, field)
    local value = self.dict:get(field .. "/" .. address)
    return value or 0
end


--- What an address did since nginx started.
function _M:of(address)
    local total = {}
    for i = 1, #FIELDS do
        total[FIELDS[i]] = self:get(address, FIELDS[i])
    end
    return total
end


--- Forget an address that nobody serves any more.
function _M:forget(address)
    for i = 1, #FIELDS do
        self.dict:delete(FIELDS[i] .. "/" .. address)
    end
end


--- The workers that are alive, as each showed itself, and address -> requests
-- in flight, over all of them.
function _M:workers()
    local workers, in_flight = {}, {}
    local last = self.dict:get("workers") or 0
    for slot = math.max(1, last - MAX_WORKERS + 1), last do
        local text = self.dict:get("worker/" .. slot)
        local worker = text and json.decode(text)
        if worker then
            workers[#workers + 1] = worker
            for address, n in pairs(worker.in_flight) do
                in_flight[address] = (in_flight[address] or 0) + n
            end
        end
    end
    return workers, in_flight
end


return _M
