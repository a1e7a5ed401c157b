--- Judge a value from anywhere, and publish to all workers what is good and new.
--
-- Signature, then format, then the upstream's name, then the order (term,
-- generation); where tables are signed, the age of the first of all. What is
-- refused is counted, shown and logged once; the last table holds. A source shows
-- the same value again and again: it is opened once.

local clock = require "steelyard.io.clock"
local replay = require "steelyard.core.replay"
local signature = require "steelyard.io.signature"
local weight_table = require "steelyard.core.weight_table"

local _M = {}

-- Source and upstream -> the last value, and what it was opened to; of this worker.
local opened = {}


local function open(options, store, upstream, value, breathe)
    local text, refused = signature.open(options.key, value, breathe)
    if not text then
        return nil, refused
    end
    local fetched
    fetched, refused = weight_table.decode(text, { breathe = breathe, previous = store:table(upstream, breathe) })
    if fetched and fetched.upstream ~= upstream then
        return nil, { reason = "upstream", detail = "it is the table of " .. fetched.upstream }
    end
    return fetched and { table = fetched, text = text }, refused
end


local function open_once(options, store, upstream, value, source, breathe)
    local last = opened[source.name .. "/" .. upstream]
    if not last or last.value ~= value then
        local good, refused = open(options, store, upstream, value, breathe)
        last = { value = value, good = good, refused = refused }
        opened[source.name .. "/" .. upstream] = last
    end
    return last.good, last.refused
end


--- Why a table that is before what is served is refused, and what helps.
local function older(store, upstream, fetched, served, source)
    local detail = string.format("term %.0f generation %.0f is before what is served (term %.0f generation %.0f)",
                                 fetched.term, fetched.generation, served.term, served.generation)
    if store:from_disk(upstream) and source.saved then
        detail = detail .. "; that is the table in " .. source.saved
                 .. ": if the controller began anew, remove the file and restart nginx"
    end
    return { reason = "older", detail = detail }
end


--- The same (term, generation) is the same table, whatever else changed in the
-- text. Only a new one is a sign of life: the controller publishes at every tick,
-- and Memcached would show the last table of a controller that has died for as
-- long as it keeps it. But the table from disk is confirmed by its equal.
local function publish(options, store, upstream, good, source)
    local fetched, served = good.table, store:order(upstream)
    -- Whoever can write to Memcached cannot write to this disk.
    local replayed = options.key and not served and not source.from_disk and replay.of_first(fetched, ngx.now())
    if replayed then
        return false, replayed
    end
    local order = served and weight_table.compare(fetched, served) or 1
    if order < 0 and source.confirms then
        return false -- the controller is a tick behind Memcached, which thus holds no recording
    end
    if order < 0 then
        return false, older(store, upstream, fetched, served, source)
    end
    if order == 0 and (source.from_disk or not store:from_disk(upstream)) then
        return false
    end
    local known = store.decoded[upstream]
    local changed = not known or not weight_table.same(known.table, fetched)
    local ok, err = store:publish(upstream, good.text, fetched, source.from_disk and store.SAVED or source.name,
                                  clock.monotonic())
    if not ok then
        return false, { reason = "too_large", detail = "the shared dict says: " .. err .. "; make it larger" }
    end
    store:keep(upstream, good.text, fetched)
    -- Where tables are signed the one on disk also has to tell, after a restart, which are old.
    if not source.from_disk and (changed or options.key) then
        store:set_unsaved(upstream, true)
    end
    if options.key and not served and not source.from_disk then
        store:set_doubtful(upstream, true)
    end
    return true
end


--- Judge the value of an upstream. True when it was a new table, and is now
-- published; false when it was not; nil and { reason, detail } when it is refused.
-- @param source name; `saved`: the file of the table on disk, or nil; `from_disk`: it is that file's;
--   `confirms`: it is asked whether what is served is the last, and may be a little behind
-- @param breathe called every 0.2 ms or so of work; may yield
function _M.take(options, store, upstream, value, source, breathe)
    local good, refused = open_once(options, store, upstream, value, source, breathe)
    local new = false
    if good then
        new, refused = publish(options, store, upstream, good, source)
    end
    if refused then
        return nil, refused
    end
    return new
end


return _M
