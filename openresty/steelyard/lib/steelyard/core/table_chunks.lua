--- A weight table larger than a Memcached item: a manifest, and the rows in chunks.
--
--   steelyard:1:weights:<upstream>       {"v":1,"upstream":..,..,"digest":..,"chunks":[..],"weights":[..]}
--   steelyard:1:chunk:<upstream>:<name>  {"v":1,"upstream":..,"digest":..,"part":1,"peers":[..]}
--
-- The manifest has the table's members and no "peers"; it is a head (core/table_head) as well. A row in a chunk has
-- the weight 1. Both together make the controller's own table, byte for byte. It is then decoded and judged like one
-- read whole. The producer is protocol/steelyard_protocol/table_chunks.py; both ends are tested on
-- docs/contract/chunks.json. Pure.

local json = require "steelyard.core.json"
local table_head = require "steelyard.core.table_head"
local wire = require "steelyard.core.wire"

local CHUNKS, PEERS = '"chunks":[', '"peers":['

-- Ten hold MAX_TABLE_BYTES; a forged manifest must not make a reader fetch thousands.
local MAX_CHUNKS = 32

local _M = {}


--- Tell whether the text in a table's key is a manifest. In a string, these quotes would have backslashes.
function _M.is_manifest(text)
    -- In this order, only a few hundred bytes of a whole table are looked at.
    return not string.find(text, PEERS, 1, true) and string.find(text, CHUNKS, 1, true) ~= nil
end


local function decoder(text, breathe)
    local manifest, refused = table_head.decode(text, breathe)
    if not manifest then
        wire.refuse(refused.reason, refused.detail)
    end
    local names = wire.array(manifest, "chunks", text)
    if #names == 0 or #names > MAX_CHUNKS then
        wire.refuse("range", #names .. " chunks, 1.." .. MAX_CHUNKS .. " are read")
    end
    for i = 1, #names do
        wire.name(names, i)
    end
    local at = string.find(text, CHUNKS, 1, true)
    if not at then
        wire.refuse("type", '"chunks" are not written as a controller writes them')
    end
    manifest.members = string.sub(text, 1, at - 1)
    return manifest
end


--- Read a manifest from the network: return upstream, term, generation, issued_at_ms, digest, weights, and the names of
-- the chunks; nil and { reason, detail } if it is refused. Total: never raises.
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.decode(text, breathe)
    return wire.total(decoder, text, breathe)
end


--- Return the rows of a chunk as they are written, without brackets.
local function rows_text(text, manifest, part)
    local list
    local document = wire.load_object(text, function()
        local shell
        shell, list = json.decode_around(text, "peers")
        if shell then
            return shell
        end
        return json.decode(text)
    end)
    local upstream, digest = wire.name(document, "upstream"), wire.name(document, "digest")
    local is = wire.integer(document, "part", 1, wire.MAX_INTEGER)
    if upstream ~= manifest.upstream or digest ~= manifest.digest or is ~= part then
        wire.refuse("name", string.format("chunk %d is part %d of a table of %s (%s)", part, is, upstream, digest))
    elseif not list then
        wire.refuse("type", 'the "peers" of chunk ' .. part .. " are not written as a controller writes them")
    end
    return list
end


local function joiner(manifest, texts, breathe)
    local rows, size = {}, 0
    for part, text in ipairs(texts) do
        rows[part] = rows_text(text, manifest, part)
        size = size + #rows[part]
        if size > wire.MAX_TABLE_BYTES then
            wire.refuse("too_large", "chunks of more than " .. wire.MAX_TABLE_BYTES .. " bytes")
        end
        breathe()
    end
    local whole = manifest.members .. PEERS .. table.concat(rows, ",") .. "]}"
    breathe()
    local text = table_head.put_into(whole, manifest, breathe)
    if not text then
        wire.refuse("range", #manifest.weights .. " weights, and another number of servers in the chunks")
    end
    return text
end


--- Return the text of a manifest's table, given the texts of its chunks in their order. Nil and { reason, detail } if a
-- chunk belongs to another table, or is not written as the controller writes it. Total: never raises.
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.join(manifest, texts, breathe)
    return wire.total(joiner, manifest, texts, breathe)
end


--- Return why a table decoded from joined chunks does not fit the manifest: { reason, detail }, or nil.
--
-- The rows are joined as they are written. So a chunk from another writer may put members of its own into the table,
-- and a weight written in another way keeps its figure.
function _M.misfit(taken, manifest)
    if taken.term ~= manifest.term or taken.generation ~= manifest.generation or taken.digest ~= manifest.digest
       or #taken.peers ~= #manifest.weights then
        return { reason = "type", detail = "the rows in chunks are not written as a controller writes them" }
    end
end


return _M
