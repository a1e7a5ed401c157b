--- Fetch the weight tables, judge them, and share what is good.
--
-- Runs in one worker's timer. Nothing here touches a request: a fetch that
-- fails, and a value that is refused, leave the last table where it is.

local memcached = require "steelyard.io.memcached"
local weight_table = require "steelyard.core.weight_table"
local wire = require "steelyard.core.wire"

-- No upstream can have this name.
local FETCH = "!fetch"

local _M = {}


local function refuse(store, upstream, refused)
    store:count_refused(upstream, refused.reason, refused.detail)
    if store:outcome_changed(upstream, refused.reason) then
        ngx.log(ngx.WARN, "steelyard: upstream ", upstream, ": the weight table in Memcached is refused (",
                refused.reason, "): ", refused.detail, "; the last table holds")
    end
end


local function judge(store, upstream, text, now)
    local known = store:table_text(upstream)
    if text ~= known then
        local fetched, refused = weight_table.decode(text)
        if fetched and fetched.upstream ~= upstream then
            refused = { reason = "upstream", detail = "it is the table of " .. fetched.upstream }
        end
        if refused then
            return refuse(store, upstream, refused)
        end
        local order = known and weight_table.compare(fetched, weight_table.decode(known)) or 1
        if order < 0 then
            return refuse(store, upstream, {
                reason = "older",
                detail = string.format("term %d generation %d is before what is served", fetched.term,
                                       fetched.generation),
            })
        end
        -- The same (term, generation) is the same table, whatever else changed in the text. Only
        -- a new one is a sign of life: the controller publishes at every tick, and Memcached
        -- would show the last table of a controller that has died for as long as it keeps it.
        if order > 0 then
            local ok, err = store:publish(upstream, text, now)
            if not ok then
                return refuse(store, upstream, { reason = "too_large", detail = "the shared dict says: " .. err })
            end
        end
    end
    if store:outcome_changed(upstream, "ok") then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": weight table taken")
    end
end


--- Fetch once, for all upstreams.
function _M.run(options, store)
    local keys = {}
    for i, upstream in ipairs(options.names) do
        keys[i] = wire.weights_key(upstream)
    end
    local found, err = memcached.get_all(options.memcached, keys)
    if not found then
        store:count_fetch_error(err)
        if store:outcome_changed(FETCH, "unreachable") then
            ngx.log(ngx.WARN, "steelyard: no weight tables fetched (", err, "); the last tables hold")
        end
        return
    end
    if store:outcome_changed(FETCH, "ok") then
        ngx.log(ngx.NOTICE, "steelyard: Memcached answers")
    end
    for i, upstream in ipairs(options.names) do
        local text = found[keys[i]]
        if text then
            judge(store, upstream, text, ngx.now())
        elseif store:outcome_changed(upstream, "absent") then
            ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": no weight table in Memcached")
        end
    end
end


return _M
