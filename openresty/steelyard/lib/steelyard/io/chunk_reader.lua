--- Read the chunks of a weight table that one Memcached item does not hold (core/table_chunks).
--
-- All of them or none: what was found beside one that is missing is kept, so that the next fetch asks for that
-- one alone. They are named for their content, so what is kept cannot be out of date.

local signature = require "steelyard.io.signature"
local wire = require "steelyard.core.wire"

local _M = {}

-- Upstream -> key -> value: the chunks of a table of which others are missing; of this worker.
local incomplete = {}


--- The texts of a table's chunks in their order; nil and the refusal, `absent` where not all are there.
-- @param read    keys -> values by key, or nil and why
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.read(options, upstream, names, read, breathe)
    local known, keys, asked, texts = incomplete[upstream] or {}, {}, {}, {}
    for i = 1, #names do
        keys[i] = wire.key("chunk", upstream, names[i])
        if not known[keys[i]] then
            asked[#asked + 1] = keys[i]
        end
    end
    local arrived, err = {}, nil
    if #asked > 0 then -- a later table may have none but those that are known
        arrived, err = read(asked)
    end
    local values, missing = {}, 0
    for i = 1, #keys do
        values[keys[i]] = known[keys[i]] or arrived and arrived[keys[i]]
        missing = values[keys[i]] and missing or missing + 1
    end
    incomplete[upstream] = missing > 0 and values or nil
    if missing > 0 then
        return nil, {
            reason = "absent",
            detail = string.format("%d of its %d chunks are not there%s", missing, #keys,
                                   arrived and "" or ": " .. err),
        }
    end
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
