--- The upstreams that this worker serves because the controller's list has them, and not nginx.conf
-- (option `any_upstream`): each begins when the list names it, and is gone at once when it no longer does.
--
-- The worker's tables of upstreams are replaced and never edited: whoever walks one goes on with what it had,
-- and finds that an upstream is gone when it looks it up. A request that was sent to a server of it is answered
-- by that server.

local clock = require "steelyard.io.clock"
local list_fetch = require "steelyard.io.list_fetch"
local saved_tables = require "steelyard.io.saved_tables"
local table_acceptance = require "steelyard.io.table_acceptance"
local timers = require "steelyard.io.timers"
local upstream_list = require "steelyard.core.upstream_list"

-- So many, of ten servers each, were measured; they have a third of the cells.
local MOST = 1000

-- What is kept of an upstream in the shared dict, beside its table and its health. The number of its last
-- traffic report stays: the controller takes none with a lower one.
local KEPT = {
    "subrequests/", "subrequests_counted/", "retries/", "retries_refused/", "full/", "queued/", "unlogged/",
    "costs_malformed/", "eject/", "ejecting/", "checked/", "reported_at/", "saved_at/", "due/eject/", "due/check/",
    "sessions_closed/",
}

-- By then every worker has seen the list, and handed in its counts.
local FORGET_AFTER_S = 2

-- In the shared dict: the names that are served out of the list.
local SERVED = "listed_upstreams"

local _M = {}


--- Free what is kept of an upstream, in this worker and in the shared dict.
local function forget(worker, name, breathe)
    worker.store:forget(name)
    worker.health:forget(name)
    table_acceptance.forget(name)
    saved_tables.forget(worker.options, name)
    worker.reporter:forget(name, breathe)
    for i = 1, #KEPT do
        worker.dict:delete(KEPT[i] .. name)
    end
    worker.dict:delete("ejecting/" .. name .. "/order")
end


--- Free what is kept of upstreams that have not come back; in a timer.
local function forget_all(premature, worker, names)
    if premature then
        return
    end
    local breathe = clock.breather()
    for i = 1, #names do
        if not worker.upstreams[names[i]] then
            forget(worker, names[i], breathe)
        end
    end
end


--- The names that are served out of the list, and how many there is no room for. One that is served stays: who comes
-- too late is left out, whatever its name. All workers go by what the dict says was served, and say so there; to
-- choose again from what another one has just chosen gives the same.
local function chosen(options, listed, dict)
    local served, names, beyond = {}, {}, 0
    for name in string.gmatch(dict:get(SERVED) or "", "[^\n]+") do
        served[name] = true
    end
    for pass = 1, 2 do
        for _, name in ipairs(listed.names) do
            local is_known = served[name] or false
            if not options.declared[name] and is_known == (pass == 1) then -- nginx.conf is stronger
                if #names < MOST then
                    names[#names + 1] = name
                else
                    beyond = beyond + 1
                end
            end
        end
    end
    dict:set(SERVED, table.concat(names, "\n"))
    return names, beyond
end


local function log(worker, added, removed, beyond)
    local version = worker.store:version(list_fetch.NAME)
    if worker.store:outcome_changed("!listed", version) and added + removed > 0 then
        ngx.log(ngx.NOTICE, "steelyard: the list of upstreams has ", added, " more and ", removed, " less than before")
    end
    if worker.store:outcome_changed("!beyond", beyond > 0 and "beyond" or "ok") and beyond > 0 then
        ngx.log(ngx.ERR, "steelyard: the list has ", beyond, " upstreams more than the ", MOST, " that are served: ",
                "those that came last are left out")
    end
end


--- Serve what the list has, if it is another one than before.
-- @param begin function(worker, name, settings) -> an upstream
function _M.follow(worker, begin, breathe)
    local options, store = worker.options, worker.store
    if not options.any_upstream then
        return
    end
    local version = store:version(list_fetch.NAME)
    local text = version ~= worker.listed_version and store:table_text(list_fetch.NAME)
    local listed = text and upstream_list.decode(text)
    if not listed then
        return
    end
    local names, beyond = chosen(options, listed, worker.dict)
    local before, upstreams, settings, added = worker.upstreams, {}, {}, 0
    for name, of_name in pairs(options.declared) do
        upstreams[name], settings[name] = before[name], of_name
    end
    for _, name in ipairs(names) do
        if not before[name] then
            added = added + 1
        end
        upstreams[name] = before[name] or begin(worker, name, options.any_upstream)
        settings[name] = options.any_upstream
        breathe()
    end
    for name in pairs(options.declared) do
        names[#names + 1] = name
    end
    table.sort(names)
    worker.upstreams, options.upstreams, options.names = upstreams, settings, names
    worker.listed_version, worker.listed_beyond = version, beyond
    local removed = {}
    for name in pairs(before) do
        if not upstreams[name] then
            removed[#removed + 1] = name
        end
    end
    if #removed > 0 then
        timers.at(worker.dict, FORGET_AFTER_S, forget_all, worker, removed)
    end
    log(worker, added, #removed, beyond)
end


return _M
