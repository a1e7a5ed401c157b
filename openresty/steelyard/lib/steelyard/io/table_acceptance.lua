--- Accept a weight table from any source, and publish it to all workers if it is good and new.
--
-- It is checked for its signature, then its format, the upstream's name and its order (term, generation). If tables are
-- signed, the very first one is checked for its age, too. A refused value is counted, shown and logged once, and the
-- last table stays in use. A source has the same value for many fetches: it is checked and decoded once.
--
-- If Memcached holds a table in chunks (core/table_chunks), they are read here, unless the table in use has the same
-- rows.
--
-- A head (core/table_head) is enough if a table differs from the one in use in order, time and weights alone. All the
-- rules above hold for it. If it does not fit the table in use, the table has to be read. The table also has to be read
-- now and then (`is_old`). The digest leaves out the baselines that the controller computes, and nginx drifts to them
-- when the controller is gone.

local chunk_reader = require "steelyard.io.chunk_reader"
local clock = require "steelyard.io.clock"
local shared_counters = require "steelyard.io.shared_counters"
local signature = require "steelyard.io.signature"
local table_chunks = require "steelyard.core.table_chunks"
local table_head = require "steelyard.core.table_head"
local weight_table = require "steelyard.core.weight_table"

local _M = {}


-- The greatest age of rows in use, in multiples of hold_s. Baselines count from hold_s after the last table on, and ten
-- minutes old ones are good enough. So rarely read, tables are a fiftieth of the bytes of heads.
local HOLDS = 10

-- Peers between two calls of breathe().
local ROWS_PER_BREATH = 100

-- Upstream -> when this worker last read its whole table, by the monotonic clock.
local read_whole_at = {}

-- Source and upstream -> the last value that this worker opened, and the result.
local opened = {}


local function decode_table(store, upstream, text, breathe)
    local decoded, refused = weight_table.decode(text, { breathe = breathe, previous = store:table(upstream, breathe) })
    breathe()
    return decoded, refused
end


local function wrong_upstream(fetched)
    return { reason = "upstream", detail = "it is the table of " .. fetched.upstream }
end


--- Open and decode a value: { table, text }, or nil and the refusal.
-- @param decode function(text): the table or head, or nil; the refusal or nil; the whole text, if that is another one
local function open(options, upstream, value, decode, breathe)
    local text, refused = signature.open_with_any(options.keys.tables, value, breathe)
    if not text then
        return nil, refused
    end
    local fetched, whole
    fetched, refused, whole = decode(text)
    if fetched and fetched.upstream ~= upstream then
        return nil, wrong_upstream(fetched)
    end
    return fetched and { table = fetched, text = whole or text }, refused
end


local function open_once(options, upstream, value, from, decode, breathe)
    local last = opened[from .. "/" .. upstream]
    if not last or last.value ~= value then
        local good, refused = open(options, upstream, value, decode, breathe)
        last = { value = value, good = good, refused = refused }
        if refused and refused.reason == "absent" then
            opened[from .. "/" .. upstream] = nil -- the missing chunks may be there the next time
        else
            opened[from .. "/" .. upstream] = last
        end
    end
    return last.good, last.refused
end


--- Forget the last values of an upstream that is no longer served.
function _M.forget(upstream)
    read_whole_at[upstream] = nil
    chunk_reader.forget(upstream)
    for key in pairs(opened) do
        if string.sub(key, -#upstream - 1) == "/" .. upstream then
            opened[key] = nil
        end
    end
end


--- The refusal of a table that is older than the one in use, with the remedy.
local function older(store, upstream, fetched, served, source)
    local detail = string.format("term %.0f generation %.0f is before the table in use (term %.0f generation %.0f)",
                                 fetched.term, fetched.generation, served.term, served.generation)
    if store:from_disk(upstream) and source.saved then
        detail = detail .. "; that is the table in " .. source.saved
                 .. ": if the controller began anew, remove the file and restart nginx"
    end
    return { reason = "older", detail = detail }
end


--- The refusal of a table for which the shared dict has no room.
local function no_room(store, bytes)
    return { reason = "no_room", detail = string.format("it takes %.0fk of the shared dict, and %.0fk are free: %s",
                                                        bytes / 1024 + 1, store.dict:free_space() / 1024,
                                                        store.dict:remedy()) }
end


--- Return the text of a manifest's table, and the manifest; nil and the refusal.
local function text_of_manifest(options, store, upstream, text, source, breathe)
    local manifest, refused = table_chunks.decode(text, breathe)
    if not manifest then
        return nil, refused
    elseif manifest.upstream ~= upstream then
        return nil, wrong_upstream(manifest)
    end
    local served = store:table(upstream, breathe)
    if served and weight_table.compare(manifest, served) < 0 then
        return nil, older(store, upstream, manifest, served, source)
    end
    if not source.anew and served and served.digest == manifest.digest then
        local text_in_use = table_head.put_into(store.decoded[upstream].text, manifest, breathe, served.written)
        if text_in_use then
            return text_in_use, manifest
        end
    end
    local texts
    texts, refused = chunk_reader.read(options, upstream, manifest.chunks, source.read, breathe)
    if not texts then
        return nil, refused
    end
    local whole
    whole, refused = table_chunks.join(manifest, texts, breathe)
    if not whole then
        return nil, refused
    end
    return whole, manifest
end


--- Publish a table, or the list of upstreams, that is later than the one in use. Return false if it is not later; nil
-- and the refusal if it is refused.
--
-- The same (term, generation) is the same table, whatever else changed in the text. Only a new one is a sign of life:
-- the controller publishes at every tick, and Memcached keeps the last table of a dead controller. But a table from
-- disk is confirmed by an equal one.
-- @param good    { table, text }
-- @param source  as in accept()
-- @param prepare called before it is published, or nil; returns true, or nil and the refusal
function _M.publish_later(options, store, upstream, good, source, prepare)
    local fetched, served = good.table, store:term_and_generation(upstream)
    -- An attacker who can write to Memcached cannot write to this disk.
    local replayed = options.key and not served and not source.from_disk and weight_table.replayed(fetched, ngx.now())
    if replayed then
        return nil, replayed
    end
    local order = served and weight_table.compare(fetched, served) or 1
    if order < 0 and source.confirms then
        return false -- the controller is a tick behind Memcached, so Memcached holds no recording
    end
    if order < 0 then
        return nil, older(store, upstream, fetched, served, source)
    end
    -- At version 0 another worker is still publishing it. This one publishes it, too, so that it can serve now.
    if order == 0 and store:version(upstream) > 0 and (source.from_disk or not store:from_disk(upstream)) then
        return false
    end
    if prepare then
        local prepared, refused = prepare()
        if not prepared then
            return nil, refused
        end
    end
    local from = source.from_disk and store.SAVED or source.name
    if not store:publish(upstream, good.text, fetched, from, clock.monotonic()) then
        return nil, no_room(store, #good.text)
    end
    return true
end


--- The addresses of one table, or of none, that another one does not have.
local function addresses_without(others, of, breathe)
    local had, alone = {}, {}
    for i, peer in ipairs(others and others.peers or {}) do
        had[peer.address] = true
        breathe(i, ROWS_PER_BREATH)
    end
    for i, peer in ipairs(of and of.peers or {}) do
        if not had[peer.address] then
            had[peer.address], alone[#alone + 1] = true, peer.address
        end
        breathe(i, ROWS_PER_BREATH)
    end
    return alone
end


--- As publish_later(), for a table; also mark it as unsaved or doubtful.
local function publish(options, store, upstream, good, source, breathe)
    local is_first, known = not store:term_and_generation(upstream), store.decoded[upstream]
    local last = known and known.table
    local changed, made = not last or not weight_table.same(last, good.table), nil
    local is_new, refused = _M.publish_later(options, store, upstream, good, source, changed and function()
        local ok, bytes
        ok, made, bytes = shared_counters.claim(store.dict, addresses_without(last, good.table, breathe), breathe)
        return ok, not ok and no_room(store, #good.text + bytes) or nil
    end)
    if not is_new then
        if made then
            shared_counters.give_back(store.dict, made)
        end
        return is_new, refused
    end
    store:keep(upstream, good.text, good.table)
    if changed then
        shared_counters.forget_unused(store.dict, addresses_without(good.table, last, breathe), breathe)
    end
    -- After a restart, the order of a signed table on disk shows which tables are old: save each generation.
    if not source.from_disk and (changed or options.key) then
        store:mark(upstream, "unsaved", true)
    end
    if options.key and is_first and not source.from_disk then
        store:mark(upstream, "doubtful", true)
    end
    return true
end


--- Whether the rows in use are so old that the table has to be read, in spite of its head.
function _M.is_old(options, upstream)
    local now, after_s = clock.monotonic(), math.max(1, HOLDS * options.limits.hold_s)
    -- Load balancers that start together do not read together.
    read_whole_at[upstream] = read_whole_at[upstream] or now - math.random() * after_s
    return now - read_whole_at[upstream] > after_s
end


--- Accept the value of an upstream, and publish a new table.
-- @return true if it was new; false if not; nil and { reason, detail } if it is refused
-- @param source has these fields:
--   name       in words
--   saved      the file of the table on disk, or nil
--   from_disk  true: the value is from that file
--   confirms   true: the source confirms the table in use, and may be a little behind it
--   read       function(keys) that returns values by key, or nil and why; nil: a table in chunks is refused
--   anew       true: no row is taken from the table in use
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.accept(options, store, upstream, value, source, breathe)
    local good, refused = open_once(options, upstream, value, source.name, function(text)
        if not source.read or not table_chunks.is_manifest(text) then
            return decode_table(store, upstream, text, breathe)
        end
        local whole, manifest = text_of_manifest(options, store, upstream, text, source, breathe)
        if not whole then
            return nil, manifest
        end
        local fetched, why = decode_table(store, upstream, whole, breathe)
        why = why or table_chunks.misfit(fetched, manifest)
        if why then
            return nil, why, whole
        end
        return fetched, nil, whole
    end, breathe)
    if not good then
        return nil, refused
    end
    if source.anew then
        read_whole_at[upstream] = clock.monotonic()
    end
    return publish(options, store, upstream, good, source, breathe)
end


--- Accept the value of a head, and publish its weights if they are new.
-- @return true if it is enough; false if the table has to be read; nil and { reason, detail } if the head is refused
function _M.accept_head(options, store, upstream, value, source, breathe)
    local good, refused = open_once(options, upstream, value, source.name .. " head", function(text)
        return table_head.decode(text, breathe)
    end, breathe)
    if not good then
        return nil, refused
    end
    local head, served = good.table, store:table(upstream, breathe)
    if not served or served.digest ~= head.digest then
        return false
    end
    local order = weight_table.compare(head, served)
    if order < 0 then
        return nil, older(store, upstream, head, served, source)
    elseif order == 0 then
        return true
    end
    local text = table_head.put_into(store.decoded[upstream].text, head, breathe, served.written)
    if not text then
        return false
    end
    local fetched
    fetched, refused = decode_table(store, upstream, text, breathe)
    if not fetched then
        return nil, refused
    end
    return publish(options, store, upstream, { table = fetched, text = text }, source, breathe)
end


return _M
