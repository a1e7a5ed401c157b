--- Fetch the weight tables: from Memcached, and where that brings nothing new
-- from the controllers.
--
-- Runs in one worker's timer. Nothing here touches a request: a fetch that
-- fails, and a value that is refused, leave the last table where it is.

local clock = require "steelyard.io.clock"
local controller = require "steelyard.io.controller"
local judge = require "steelyard.io.judge"
local memcached = require "steelyard.io.memcached"
local saved = require "steelyard.io.saved"
local wire = require "steelyard.core.wire"

-- No upstream can have these names.
local FETCH, CONTROLLER = "!fetch", "!controller"

-- Of fresh_s: two tables in a row are missing, and a controller can still answer before the rung is lost.
local ASK_AFTER = 2 / 3

local _M = {}

local function no_pause() end


--- Have a value judged; note and log what that came to. Each kind of source has
-- an outcome of its own: two that differ would be news at every fetch.
local function take(options, store, upstream, value, source, breathe)
    source.saved = saved.path(options, upstream)
    local new, refused = judge.take(options, store, upstream, value, source, breathe)
    if refused then
        store:count_refused(upstream, refused.reason, refused.detail)
    end
    if store:outcome_changed(upstream .. source.outcome, refused and refused.reason or "ok") then
        if refused then
            ngx.log(ngx.WARN, "steelyard: upstream ", upstream, ": the weight table of ", source.name, " is refused (",
                    refused.reason, "): ", refused.detail, "; the last table holds")
        else
            ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": weight table taken from ", source.name)
        end
    end
    return new
end


--- Read all tables from Memcached; tells whether it answered.
local function from_memcached(options, store, breathe)
    local keys = {}
    for i, upstream in ipairs(options.names) do
        keys[i] = wire.weights_key(upstream)
    end
    local found, server = memcached.get_all(options.memcached, keys)
    if not found then
        local err = server
        store:count_fetch_error(err)
        if store:outcome_changed(FETCH, "unreachable") then
            local rest = #options.controller > 0 and "the controller is asked" or "the last tables hold"
            ngx.log(ngx.WARN, "steelyard: no weight tables fetched (", err, "); ", rest)
        end
        return false
    end
    if store:outcome_changed(FETCH, "ok") then
        ngx.log(ngx.NOTICE, "steelyard: Memcached answers")
    end
    for i, upstream in ipairs(options.names) do
        local value = found[keys[i]]
        if value then
            take(options, store, upstream, value, { name = "memcached " .. server, outcome = "" }, breathe)
        elseif store:outcome_changed(upstream, "absent") then
            ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": no weight table in Memcached")
        end
    end
    return true
end


--- Whether the controllers are to be asked though Memcached answers: nothing new comes from it,
-- or what came first may be a recording that somebody put back.
local function is_stale(options, store, upstream)
    local seen = store:seen(upstream)
    return not seen or store:from_disk(upstream) or store:is_doubtful(upstream)
           or clock.monotonic() - seen > ASK_AFTER * options.limits.fresh_s
end


--- Ask the controllers, in order, until one has a new table of the upstream. One
-- that has nothing new may be a standby or cut off, so the next is asked as well.
local function from_controllers(options, store, upstream, failures, breathe)
    -- A table from disk is to be confirmed, so it is asked for.
    local served = not store:from_disk(upstream) and store:order(upstream) or nil
    for _, server in ipairs(options.controller) do
        local value, err = controller.table(server, upstream, served, options.controller_token)
        if not value then
            failures[server.name] = tostring(err)
        else
            local source = {
                name = "controller " .. server.name, outcome = "/controller", confirms = store:is_doubtful(upstream),
            }
            store:set_doubtful(upstream, false)
            if value ~= "" and take(options, store, upstream, value, source, breathe) then
                return
            end
        end
    end
end


local function told(failures, servers)
    local words = {}
    for _, server in ipairs(servers) do
        if failures[server.name] then
            words[#words + 1] = server.name .. ": " .. failures[server.name]
        end
    end
    return table.concat(words, "; ")
end


local function from_second_source(options, store, answered, breathe)
    local failures, asked = {}, false
    for _, upstream in ipairs(options.names) do
        if not answered or is_stale(options, store, upstream) then
            asked = true
            from_controllers(options, store, upstream, failures, breathe)
        end
    end
    if not asked then
        return
    end
    local err = told(failures, options.controller)
    if err ~= "" then
        store:count_controller_error(err)
    end
    if store:outcome_changed(CONTROLLER, err == "" and "ok" or "failed") then
        if err == "" then
            ngx.log(ngx.NOTICE, "steelyard: every controller answers")
        else
            ngx.log(ngx.WARN, "steelyard: controllers do not answer (", err, ")")
        end
    end
end


--- Fetch once, for all upstreams; save on disk what changed.
-- @param breathe called every 0.2 ms or so of work; may yield
function _M.run(options, store, breathe)
    breathe = breathe or no_pause
    local answered = from_memcached(options, store, breathe)
    if #options.controller > 0 then
        from_second_source(options, store, answered, breathe)
    end
    for _, upstream in ipairs(options.names) do
        saved.keep(options, store, upstream, ngx.now(), breathe)
    end
end


return _M
