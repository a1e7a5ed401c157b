--- The head of a weight table: the part of it that changes at each tick.
--
--   {"v":1,"upstream":..,"term":..,"generation":..,"issued_at_ms":..,"digest":..,"weights":[..]}
--
-- and "zone_factors" if the table has zones (core/zones).
--
-- `digest` stands for everything else. So a table in use with the same digest is brought up to date by putting the
-- head's figures into its text. The result is the controller's own table again, and is decoded and judged like a
-- fetched one. The producer is protocol/steelyard_protocol/weight_table.py; both ends are tested on
-- docs/contract/head.json. Pure.

local json = require "steelyard.core.json"
local wire = require "steelyard.core.wire"
local zones = require "steelyard.core.zones"

local byte, find, sub = string.byte, string.find, string.sub

local WEIGHT, PEERS = '"weight":', '"peers":['

-- Rows between two calls of breathe(): 0.1 ms.
local ROWS_PER_BREATH = 100

local _M = {}


local function decoder(text, breathe)
    local document = wire.load_object(text, function()
        return json.decode_in_slices(text, "weights", breathe)
    end)
    local weights = wire.array(document, "weights", text)
    for i = 1, #weights do
        wire.integer(weights, i, 1, wire.MAX_INTEGER) -- the table's decoder has the tighter bound
        breathe(i, ROWS_PER_BREATH)
    end
    return {
        upstream = wire.name(document, "upstream"),
        term = wire.integer(document, "term", 0, wire.MAX_INTEGER),
        generation = wire.integer(document, "generation", 0, wire.MAX_INTEGER),
        issued_at_ms = wire.integer(document, "issued_at_ms", 0, wire.MAX_INTEGER),
        digest = wire.name(document, "digest"),
        weights = weights,
        zone_factors = document.zone_factors ~= nil and zones.factors_of(document, text) or nil,
        chunks = document.chunks, -- of a manifest (core/table_chunks)
    }
end


--- Read a head from the network; nil and { reason, detail } if it is refused. Total: never raises.
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.decode(text, breathe)
    return wire.total(decoder, text, breathe)
end


--- Return a table's members with a head's factors of zones; nil if they have none.
local function with_factors(text, factors)
    local encoded = json.encode(factors)
    local replaced, n = string.gsub(text, '("zone_factors":)%[[%d,%[%]]*%]', function(name)
        return encoded and name .. encoded
    end)
    return encoded and n == 1 and replaced or nil
end


--- Return the part of a table's text before its rows, with the head's figures; nil if it is not written as expected.
local function members_with(text, head)
    for _, name in ipairs({ "term", "generation", "issued_at_ms" }) do
        local n
        -- In a string, these quotes would have backslashes.
        text, n = string.gsub(text, '"' .. name .. '":%d+', string.format('"%s":%.0f', name, head[name]))
        if n ~= 1 then
            return nil
        end
    end
    if head.zone_factors then
        return with_factors(text, head.zone_factors)
    end
    return text
end


--- Whether rows have just these weights.
local function have_weights(rows, weights)
    if #rows ~= #weights then
        return false
    end
    for i = 1, #rows do
        if rows[i].weight ~= weights[i] then
            return false
        end
    end
    return true
end


--- Return the whole number at a place of a text, and where its digits end; nil if there is none.
local function number_at(text, from)
    local value, at = 0, from
    local digit = byte(text, at)
    while digit and digit >= 48 and digit <= 57 do -- 0 to 9
        value, at = 10 * value + digit - 48, at + 1
        digit = byte(text, at)
    end
    return at > from and value or nil, at
end


--- Return the text of a table with the figures of a later head. Nil if the two do not belong together, or the text is
-- not written as the controller writes it.
-- @param breathe called every 0.1 ms or so of work; may yield
-- @param written the decoded rows of the text, in its order; nil if they are not known
function _M.put_into(text, head, breathe, written)
    local rows = find(text, PEERS, 1, true)
    local members = rows and members_with(sub(text, 1, rows - 1), head)
    if not members then
        return nil
    elseif written and have_weights(written, head.weights) then
        return members .. sub(text, rows) -- the usual case
    end
    -- Parts are joined in batches: a hundred thousand at once would take 10 ms.
    local pieces, parts, n, i, from = { members }, {}, 0, 0, rows
    local _, last = find(text, WEIGHT, from, true)
    while last do
        i = i + 1
        local weight, behind = number_at(text, last + 1)
        local after = byte(text, behind)
        if not weight or not head.weights[i] or after ~= 44 and after ~= 125 then -- , or }: else it is no whole number
            return nil
        end
        if weight ~= head.weights[i] then
            parts[n + 1], parts[n + 2] = sub(text, from, last), string.format("%.0f", head.weights[i])
            n, from = n + 2, behind
        end
        if i % ROWS_PER_BREATH == 0 then
            pieces[#pieces + 1] = table.concat(parts, "", 1, n)
            n = 0
            breathe()
        end
        _, last = find(text, WEIGHT, behind, true)
    end
    if i ~= #head.weights then
        return nil
    end
    parts[n + 1] = sub(text, from)
    pieces[#pieces + 1] = table.concat(parts, "", 1, n + 1)
    local whole = table.concat(pieces)
    breathe()
    return whole
end


return _M
