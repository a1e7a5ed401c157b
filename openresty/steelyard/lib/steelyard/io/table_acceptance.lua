--- Accept a weight table, wherever it comes from, and publish it to all workers if it is good and new.
--
-- Signature, then format, then the upstream's name, then the order (term,
-- generation); where tables are signed, the age of the first of all. What is
-- refused is counted, shown and logged once; the last table stays in use. A source
-- has the same value for many fetches: it is checked and decoded once.
--
-- Where Memcached holds a table in chunks (core/table_chunks), they are read here, unless the table in use has the
-- same rows.
--
-- A head (core/table_head) does for a table that differs from the one in use in order, time and weights alone.
-- Every rule above holds for it; where it does not fit the table in use, the table has to be read. So it has now and
-- then (`is_old`): the digest leaves out the baselines that the controller computes, which count where it is gone.

local chunk_reader = require "steelyard.io.chunk_reader"
local clock = require "steelyard.io.clock"
local signature = require "steelyard.io.signature"
local table_chunks = require "steelyard.core.table_chunks"
local table_head = require "steelyard.core.table_head"
local weight_table = require "steelyard.core.weight_table"

local _M = {}


-- Rows in use are so many times hold_s old at the most. Baselines count from hold_s after the last table on, and of
-- ten minutes ago they do; read so rarely, tables are a fiftieth of what heads are.
local HOLDS = 10

-- Upstream -> when its table was last read whole, by the monotonic clock; of this worker.
local read_whole_at = {}

-- Source and upstream -> the last value, and what it was opened to; of this worker.
local opened = {}


local function decode_table(store, upstream, text, breathe)
    local decoded, refused = weight_table.decode(text, { breathe = breathe, previous = store:table(upstream, breathe) })
    breathe()
    return decoded, refused
end


local function anothers(fetched)
    return { reason = "upstream", detail = "it is the table of " .. fetched.upstream }
end


--- Open and decode a value: { table, text }, or nil and the refusal.
-- @param decode text -> what it says; nil and the refusal; and where it is not that text, the text it was in
local function open(options, upstream, value, decode, breathe)
    local text, refused = signature.open_with_any(options.keys.tables, value, breathe)
    if not text then
        return nil, refused
    end
    local fetched, whole
    fetched, refused, whole = decode(text)
    if fetched and fetched.upstream ~= upstream then
        return nil, anothers(fetched)
    end
    return fetched and { table = fetched, text = whole or text }, refused
end


local function open_once(options, upstream, value, from, decode, breathe)
    local last = opened[from .. "/" .. upstream]
    if not last or last.value ~= value then
        local good, refused = open(options, upstream, value, decode, breathe)
        last = { value = value, good = good, refused = refused }
        -- What was missing may be there the next time.
        opened[from .. "/" .. upstream] = not (refused and refused.reason == "absent") and last or nil
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
    local detail = string.format("term %.0f generation %.0f is before what is served (term %.0f generation %.0f)",
                                 fetched.term, fetched.generation, served.term, served.generation)
    if store:from_disk(upstream) and source.saved then
        detail = detail .. "; that is the table in " .. source.saved
                 .. ": if the controller began anew, remove the file and restart nginx"
    end
    return { reason = "older", detail = detail }
end


--- The text of the table of a manifest, and the manifest; nil and the refusal.
local function text_of_manifest(options, store, upstream, text, source, breathe)
    local manifest, refused = table_chunks.decode(text, breathe)
    if not manifest then
        return nil, refused
    elseif manifest.upstream ~= upstream then
        return nil, anothers(manifest)
    end
    local served = store:table(upstream, breathe)
    if served and weight_table.compare(manifest, served) < 0 then
        return nil, older(store, upstream, manifest, served, source)
    end
    local same = not source.anew and served and served.digest == manifest.digest
                 and table_head.put_into(store.decoded[upstream].text, manifest, breathe)
    if same then
        return same, manifest
    end
    local texts
    texts, refused = chunk_reader.read(options, upstream, manifest.chunks, source.read, breathe)
    if not texts then
        return nil, refused
    end
    local whole
    whole, refused = table_chunks.join(manifest, texts, breathe)
    return whole, whole and manifest or refused
end


--- Publish a table, or the list of upstreams, that is later than the one in use; false when it is not, nil and the
-- refusal when it is one.
--
-- The same (term, generation) is the same table, whatever else changed in the text.
-- Only a new one is a sign of life: the controller publishes at every tick, and
-- Memcached would show the last table of a controller that has died for as long as
-- it keeps it. But the table from disk is confirmed by its equal.
-- @param good   { table, text }
-- @param source as of accept
function _M.publish_later(options, store, upstream, good, source)
    local fetched, served = good.table, store:order(upstream)
    -- Whoever can write to Memcached cannot write to this disk.
    local replayed = options.key and not served and not source.from_disk and weight_table.replayed(fetched, ngx.now())
    if replayed then
        return nil, replayed
    end
    local order = served and weight_table.compare(fetched, served) or 1
    if order < 0 and source.confirms then
        return false -- the controller is a tick behind Memcached, which thus holds no recording
    end
    if order < 0 then
        return nil, older(store, upstream, fetched, served, source)
    end
    -- At version 0 another worker is about to publish it, and may be a while: this one does so, too, and can serve.
    if order == 0 and store:version(upstream) > 0 and (source.from_disk or not store:from_disk(upstream)) then
        return false
    end
    local ok, err = store:publish(upstream, good.text, fetched, source.from_disk and store.SAVED or source.name,
                                  clock.monotonic())
    if not ok then
        return nil, { reason = "too_large", detail = "the shared dict says: " .. err .. "; make it larger" }
    end
    return true
end


--- As publish_later, for a table; also notes what is to become of it.
local function publish(options, store, upstream, good, source)
    local is_first, known = not store:order(upstream), store.decoded[upstream]
    local changed = not known or not weight_table.same(known.table, good.table)
    local is_new, refused = _M.publish_later(options, store, upstream, good, source)
    if not is_new then
        return is_new, refused
    end
    store:keep(upstream, good.text, good.table)
    -- Where tables are signed the one on disk also has to tell, after a restart, which are old.
    if not source.from_disk and (changed or options.key) then
        store:mark(upstream, "unsaved", true)
    end
    if options.key and is_first and not source.from_disk then
        store:mark(upstream, "doubtful", true)
    end
    return true
end


--- Whether the rows in use are so old that the table has to be read, whatever its head says.
function _M.is_old(options, upstream)
    local now, after_s = clock.monotonic(), math.max(1, HOLDS * options.limits.hold_s)
    -- Load balancers that start together do not read together.
    read_whole_at[upstream] = read_whole_at[upstream] or now - math.random() * after_s
    return now - read_whole_at[upstream] > after_s
end


--- Accept the value of an upstream. True when it was a new table, and is now
-- published; false when it was not; nil and { reason, detail } when it is refused.
-- @param source name; `saved`: the file of the table on disk, or nil; `from_disk`: it is that file's;
--   `confirms`: it is asked whether what is served is the last, and may be a little behind; `read`, where it
--   may have chunks: keys -> values by key, or nil and why; `anew`: none of its rows are taken from the table in use
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
        return not why and fetched or nil, why, whole
    end, breathe)
    if not good then
        return nil, refused
    end
    if source.anew then
        read_whole_at[upstream] = clock.monotonic()
    end
    return publish(options, store, upstream, good, source)
end


--- Accept the value of a head. True when it does for the table, and its weights are published if they are new;
-- false when the table has to be read; nil and { reason, detail } when it is refused, and so, too.
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
    local text = table_head.put_into(store.decoded[upstream].text, head, breathe)
    if not text then
        return false
    end
    local fetched
    fetched, refused = decode_table(store, upstream, text, breathe)
    if not fetched then
        return nil, refused
    end
    return publish(options, store, upstream, { table = fetched, text = text }, source)
end


return _M
