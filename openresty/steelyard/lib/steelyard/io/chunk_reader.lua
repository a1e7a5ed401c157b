--- Read the chunks of a weight table that one Memcached item cannot hold (core/table_chunks).
--
-- A table needs all of its chunks. When one is missing, the others are kept, and the next fetch asks for the missing
-- one alone. Chunks are named for their content, so a kept chunk is never out of date.

local signature = require "steelyard.io.signature"
local wire = require "steelyard.core.wire"

local _M = {}

-- Upstream -> key -> value, in this worker: the chunks of a table with missing ones.
local incomplete = {}


--- The texts of a table's chunks in their order; nil and the refusal, `absent` if chunks are missing.
-- @param read    keys -> values by key, or nil and why
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.read(options, upstream, names, read, breathe)
    local kept, keys, wanted, texts = incomplete[upstream] or {}, {}, {}, {}
    for i = 1, #names do
        keys[i] = wire.key("chunk", upstream, names[i])
        if not kept[keys[i]] then
            wanted[#wanted + 1] = keys[i]
        end
    end
    local fetched, err = {}, nil
    if #wanted > 0 then -- none if a later table needs kept chunks alone
        fetched, err = read(wanted)
    end
    local values, missing = {}, 0
    for i = 1, #keys do
        local value = kept[keys[i]] or fetched and fetched[keys[i]]
        values[keys[i]] = value
        if not value then
            missing = missing + 1
        end
    end
    if missing > 0 then
        incomplete[upstream] = values
        return nil, {
            reason = "absent",
            detail = string.format("%d of its %d chunks are not there%s", missing, #keys,
                                   fetched and "" or ": " .. err),
        }
    end
    incomplete[upstream] = nil
    for i = 1, #keys do
        local refused
        texts[i], refused = signature.open_with_any(options.keys.tables, values[keys[i]], breathe)
        if not texts[i] then
            return nil, { reason = refused.reason, detail = "chunk " .. i .. ": " .. refused.detail }
        end
    end
    return texts
end


--- Forget the chunks of an upstream that is no longer served.
function _M.forget(upstream)
    incomplete[upstream] = nil
end


return _M
