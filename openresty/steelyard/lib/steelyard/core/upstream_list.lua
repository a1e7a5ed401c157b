--- The list of upstreams, as the controller publishes it: JSON to names in order, or why it is refused. Pure.
--
-- The producer is protocol/steelyard_protocol/upstream_list.py; both ends are tested on
-- docs/contract/upstreams.json.

local wire = require "steelyard.core.wire"

-- The bound of the controller, too.
local MAX_NAMES = 10000

local _M = {}


local function names_of(document, text)
    local names = wire.array(document, "names", text)
    if #names > MAX_NAMES then
        wire.refuse("range", '"names" has ' .. #names .. " names, at most " .. MAX_NAMES .. " are read")
    end
    for i = 1, #names do
        wire.name({ names = names[i] }, "names")
        if i > 1 and names[i] <= names[i - 1] then
            wire.refuse("range", '"names" are not in order, or one is there twice')
        end
    end
    return names
end


local function decoder(text)
    local document = wire.load_object(text)
    return {
        term = wire.integer(document, "term", 0, wire.MAX_INTEGER),
        generation = wire.integer(document, "generation", 0, wire.MAX_INTEGER),
        issued_at_ms = wire.integer(document, "issued_at_ms", 0, wire.MAX_INTEGER),
        names = names_of(document, text),
    }
end


--- Read a list from the network: term, generation, issued_at_ms and names; or nil and { reason, detail }.
-- Total: never raises.
function _M.decode(text)
    return wire.total(decoder, text)
end


return _M
