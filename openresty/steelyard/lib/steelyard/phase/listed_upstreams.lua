--- The upstreams of the controller's list, with the option `any_upstream`: this worker serves one as soon as the list
-- names it, and no longer once the list does not.
--
-- The worker's tables of upstreams are replaced and never edited, so a walk over one goes on with the old table. A
-- look-up shows that an upstream is gone. A request that was sent to one of its servers is answered by that server.

local clock = require "steelyard.io.clock"
local list_fetch = require "steelyard.io.list_fetch"
local saved_tables = require "steelyard.io.saved_tables"
local table_acceptance = require "steelyard.io.table_acceptance"
local upstream_list = require "steelyard.core.upstream_list"

-- Measured with this many upstreams of ten servers each; they use a third of the cells.
local MAX_UPSTREAMS = 1000

-- The keys of an upstream in the shared dict, besides those of its table and its health. The number of its last traffic
-- report stays: the controller refuses a report with a lower one.
local KEPT = {
    "subrequests/", "subrequests_counted/", "retries/", "retries_refused/", "full/", "queued/", "unlogged/",
    "costs_malformed/", "eject/", "ejecting/", "checked/", "reported_at/", "saved_at/", "due/eject/", "due/check/",
    "sessions_closed/", "picker_errors/", "picker_error/",
}

-- By then every worker has seen the list, and flushed its counts.
local FORGET_AFTER_S = 2

-- The key of the served names of the list.
local SERVED = "listed_upstreams"

local _M = { SERVED = SERVED }


--- Forget an upstream, in this worker and in the shared dict.
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


local removed_at = {} -- name -> when the list no longer had it, by the monotonic clock

--- Forget the upstreams that were removed a while ago and have not come back.
local function forget_removed(worker, breathe)
    local now, due = clock.now(), {}
    for name, at in pairs(removed_at) do
        if now - at >= FORGET_AFTER_S then
            due[#due + 1] = name
        end
    end
    for i = 1, #due do
        removed_at[due[i]] = nil
        if not worker.upstreams[due[i]] then
            forget(worker, due[i], breathe)
        end
    end
end


--- Choose the names of the list to serve. Return them, and how many found no room. A served name keeps its place; the
-- last ones to come are left out. All workers start from the served names in the dict, and write their choice there. A
-- second worker makes the same choice from the result of the first.
local function chosen(options, listed, dict)
    local served, known, new = {}, {}, {}
    for name in string.gmatch(dict:get(SERVED) or "", "[^\n]+") do
        served[name] = true
    end
    for _, name in ipairs(listed.names) do
        if not options.declared[name] then -- a declaration in nginx.conf overrides the list
            local names = served[name] and known or new
            names[#names + 1] = name
        end
    end
    local names = {}
    for _, candidates in ipairs({ known, new }) do
        for i = 1, math.min(#candidates, MAX_UPSTREAMS - #names) do
            names[#names + 1] = candidates[i]
        end
    end
    dict:set(SERVED, table.concat(names, "\n"))
    return names, #known + #new - #names
end


local function log(worker, added, removed, beyond)
    local version = worker.store:version(list_fetch.name(worker.options))
    if worker.store:outcome_changed("!listed", version) and added + removed > 0 then
        ngx.log(ngx.NOTICE, "steelyard: the list of upstreams has ", added, " more and ", removed, " less than before")
    end
    if worker.store:outcome_changed("!beyond", beyond > 0 and "beyond" or "ok") and beyond > 0 then
        ngx.log(ngx.ERR, "steelyard: the list has ", beyond, " upstreams more than the ", MAX_UPSTREAMS, " that are ",
                "served: those that came last are left out")
    end
end


--- Serve the upstreams of the list, if it has changed. Call it at each tick.
-- @param begin function(worker, name, settings) -> an upstream
function _M.follow(worker, begin, breathe)
    local options, store = worker.options, worker.store
    if not options.any_upstream then
        return
    end
    if next(removed_at) then
        forget_removed(worker, breathe)
    end
    local list = list_fetch.name(options)
    local version = store:version(list)
    if version == worker.listed_version then
        return
    end
    local text = store:table_text(list)
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
    local removed = 0
    for name in pairs(before) do
        if not upstreams[name] then
            removed, removed_at[name] = removed + 1, clock.now()
        end
    end
    log(worker, added, removed, beyond)
end


return _M
