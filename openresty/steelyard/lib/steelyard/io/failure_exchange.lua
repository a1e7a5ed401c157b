--- Tell other load balancers of servers that fail here, and learn what they tell.
--
--   steelyard:1:failures:<lb>   a load balancer's report (core/failure_report), signed where there is a key
--
-- One worker does it, once a second, while a server fails here: nobody goes by others' word alone. Who the others are
-- the weight tables say: those whose traffic reports the controller reads. What they tell lies for TTL_S as
-- told/<upstream> in the shared dict, and goes into the next look for whom to eject (io/ejection). Reports live as long
-- in Memcached, by its clock: what a load balancer said that has died ejects nobody.

local failure_report = require "steelyard.core.failure_report"
local json = require "steelyard.core.json"
local memcached_client = require "steelyard.io.memcached_client"
local signature = require "steelyard.io.signature"
local wire = require "steelyard.core.wire"

local TTL_S = 3

local _M = { INTERVAL_S = 1 }


--- What this nginx knows of its upstreams: the memories of those where something is not well, the orders of their
-- tables, and the names of all other load balancers.
local function survey(worker)
    local memories, orders, balancers = {}, {}, {}
    for name, live in pairs(worker.upstreams) do
        local known = live.known
        if known and live.settings.eject then
            orders[name] = { known.term, known.generation }
            for lb in pairs(known.reporters or {}) do
                balancers[lb] = lb ~= worker.options.lb or nil
            end
            local rows = json.decode(worker.dict:get("eject/" .. name) or "")
            memories[name] = rows and { order = orders[name], rows = rows }
        end
    end
    return memories, orders, balancers
end


--- Sort what the others' reports tell by upstream and address, and count those that are refused.
local function take_reports(worker, texts, orders, balancers, breathe)
    local told = {}
    for lb in pairs(balancers) do
        local value = texts[wire.key("failures", lb)]
        local text = value and signature.open(worker.options.keys.failures, value, breathe)
        local is_report = text and failure_report.decode(text, lb, orders, function(name, address, row)
            told[name] = told[name] or {}
            told[name][address] = told[name][address] or {}
            table.insert(told[name][address], row)
        end)
        if value and not is_report then
            worker.dict:incr("failures_refused", 1, 0)
        end
        if value and worker.store:outcome_changed("!failures/" .. lb, is_report and "ok" or "refused")
           and not is_report then
            ngx.log(ngx.WARN, "steelyard: what is told of failures in the name of ", lb, " is refused: it is not ",
                    "signed with this load balancer's key, or is no report")
        end
        breathe()
    end
    return told
end


--- Tell, and learn.
-- @param breathe called now and then; may yield
function _M.run(worker, breathe)
    local dict, servers, lb = worker.dict, worker.exchange.servers, worker.options.lb
    local memories, orders, balancers = survey(worker)
    local text = failure_report.encode(lb, memories)
    if not text or next(balancers) == nil then
        return
    end
    local value, keys = signature.sign(worker.options.keys.failures, text, breathe), {}
    memcached_client.set_all(servers, { { wire.key("failures", lb), value } }, TTL_S, breathe)
    for other in pairs(balancers) do
        keys[#keys + 1] = wire.key("failures", other)
    end
    local texts = memcached_client.get_all(servers, keys, breathe) or {}
    for name, told in pairs(take_reports(worker, texts, orders, balancers, breathe)) do
        dict:set("told/" .. name, assert(json.encode(told)), TTL_S)
    end
end


return _M
