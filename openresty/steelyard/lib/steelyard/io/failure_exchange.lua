--- Report servers that fail here to the other load balancers, and read their reports.
--
--   steelyard:1:failures:<lb>   a load balancer's report (core/failure_report), signed if there is a key
--
-- One worker does it, once a second, while a server fails here: others' reports alone eject no server. The weight
-- tables name the other load balancers: those whose traffic reports the controller reads. Their rows lie for TTL_S as
-- others_failures/<upstream> in the shared dict, for the next run of io/ejection. Reports live as long in Memcached,
-- by its clock, so the report of a load balancer that has died ejects no server.

local failure_report = require "steelyard.core.failure_report"
local json = require "steelyard.core.json"
local memcached_client = require "steelyard.io.memcached_client"
local signature = require "steelyard.io.signature"
local wire = require "steelyard.core.wire"

local TTL_S = 3

local _M = { INTERVAL_S = 1 }
local mt = { __index = _M }


--- Make the exchange of a worker.
-- @param parts dict, store (io/table_store), servers: of Memcached, lb: this load balancer's name, key: signs
--   reports, or nil, and upstreams: function() that returns the upstreams of now, by name
function _M.new(parts)
    return setmetatable({
        dict = parts.dict, store = parts.store, servers = parts.servers, lb = parts.lb, key = parts.key,
        upstreams = parts.upstreams,
    }, mt)
end


--- Return three tables: the memories of the upstreams with failing servers, the orders of all upstreams' tables, and
-- the set of the other load balancers' names.
local function survey(self)
    local memories, orders, balancers = {}, {}, {}
    for name, live in pairs(self.upstreams()) do
        local known = live.known
        if known and live.settings.eject then
            orders[name] = { known.term, known.generation }
            for lb in pairs(known.reporters or {}) do
                if lb ~= self.lb then
                    balancers[lb] = true
                end
            end
            local rows = json.decode(self.dict:get("eject/" .. name) or "")
            if rows then
                memories[name] = { order = orders[name], rows = rows }
            end
        end
    end
    return memories, orders, balancers
end


--- Sort the rows of the others' reports by upstream and address, and count the refused reports.
local function take_reports(self, texts, orders, balancers, breathe)
    local rows = {}
    for lb in pairs(balancers) do
        local value = texts[wire.key("failures", lb)]
        local text = value and signature.open(self.key, value, breathe)
        local is_report = text and failure_report.decode(text, lb, orders, function(name, address, row)
            rows[name] = rows[name] or {}
            rows[name][address] = rows[name][address] or {}
            table.insert(rows[name][address], row)
        end)
        if value and not is_report then
            self.dict:incr("failures_refused", 1, 0)
        end
        if value and self.store:outcome_changed("!failures/" .. lb, is_report and "ok" or "refused")
           and not is_report then
            ngx.log(ngx.WARN, "steelyard: the failure report of ", lb, " is refused: it is not signed with this load ",
                    "balancer's key, or is no report")
        end
        breathe()
    end
    return rows
end


--- Send this load balancer's report, and take over the others'.
-- @param breathe called now and then; may yield
function _M:run(breathe)
    local servers = self.servers
    local memories, orders, balancers = survey(self)
    local text = failure_report.encode(self.lb, memories)
    if not text or next(balancers) == nil then
        return
    end
    local value, keys = signature.sign(self.key, text, breathe), {}
    memcached_client.set_all(servers, { { wire.key("failures", self.lb), value } }, TTL_S, breathe)
    for other in pairs(balancers) do
        keys[#keys + 1] = wire.key("failures", other)
    end
    local texts = memcached_client.get_all(servers, keys, breathe) or {}
    for name, rows in pairs(take_reports(self, texts, orders, balancers, breathe)) do
        self.dict:set("others_failures/" .. name, assert(json.encode(rows)), TTL_S)
    end
end


return _M
