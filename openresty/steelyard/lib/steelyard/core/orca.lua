--- ORCA load reports: a server's load in its response header `endpoint-load-metrics`.
--
--   TEXT cpu_utilization=0.3, mem_utilization=0.8, named_metrics.kv_cache_usage_perc=0.4
--   JSON {"cpu_utilization": 0.3, "named_metrics": {"kv_cache_usage_perc": 0.4}}
--   BIN CQAAAAAAANA/
--
-- gRPC and Envoy read these forms (xds.data.orca.v3.OrcaLoadReport). vLLM, Triton and our agent send them. The value
-- of endpoint-load-metrics-bin is read as BIN. Text in, a load or nothing out. Pure.

local json = require "steelyard.core.json"
local number = require "steelyard.core.number"
local orca_binary = require "steelyard.core.orca_binary"
local wire = require "steelyard.core.wire"

-- The bounds of the traffic report (protocol/steelyard_protocol/traffic_report.py).
local MAX_UTILIZATION, MAX_METRIC, MAX_NAMED = 64, 1e15, 8

-- As large as nginx's own buffer for a response's header.
local MAX_BYTES = 4096

local MAPS = { named_metrics = "", utilization = "utilization." }

-- The bound of a field of text; those that count have tighter ones.
local MAX_FIELD = 1e300

-- MAX_IN_FLIGHT is above every real number of requests.
local _M = { MAX_IN_FLIGHT = 1e9 }


local function pairs_of_text(text)
    local fields = {}
    for entry in string.gmatch(text, "[^,]+") do
        local name, value = string.match(entry, "^%s*([%w._-]+)%s*[=:]%s*([%d.eE+-]+)%s*$")
        if not name or fields[name] then
            return nil
        end
        fields[name] = number.decimal(value, -MAX_FIELD, MAX_FIELD) or value
    end
    return fields
end


--- Return the members of a JSON load report, those of its maps as TEXT writes them. Protobuf's own JSON has
-- lowerCamelCase names, other writers the names of the .proto file.
local function pairs_of_json(text)
    local document = string.find(text, "^%s*{") and json.decode(text)
    if not document then
        return nil
    end
    local fields = {}
    for key, value in pairs(document) do
        local name = string.gsub(key, "%u", function(letter) return "_" .. string.lower(letter) end)
        if type(value) == "table" then
            for inner, each in pairs(value) do
                fields[name .. "." .. tostring(inner)] = each
            end
        elseif value ~= json.null then
            fields[name] = value
        end
    end
    return fields
end


local READERS = { TEXT = pairs_of_text, JSON = pairs_of_json, BIN = orca_binary.pairs_of }


--- Return the requests in flight in a load report (named_metrics.in_flight); nil without them. This runs for each
-- answer: a report without the figure costs one search.
function _M.in_flight(text, decode_base64)
    local base64 = string.match(text, "^[Bb][Ii][Nn]%s+(.*)$")
    local message = base64 and decode_base64(base64) or text
    if not string.find(message, "in_flight", 1, true) then
        return nil
    elseif base64 then
        local fields = orca_binary.pairs_of(base64, decode_base64)
        return fields and number.decimal(fields["named_metrics.in_flight"], 0, _M.MAX_IN_FLIGHT)
    end
    return number.decimal(string.match(text, "named_metrics%.in_flight%s*[=:]%s*([^%s,]+)")
                          or string.match(text, '"in_flight"%s*:%s*([^%s,}]+)'), 0, _M.MAX_IN_FLIGHT)
end


local function within(value, low, high)
    return type(value) == "number" and value >= low and value <= high -- not so with NaN
end


--- Return the first MAX_NAMED of the named metrics, by name; nil if there is none.
local function named(fields)
    local names, values = {}, {}
    for key, value in pairs(fields) do
        local map, name = string.match(key, "^([%l_]+)%.(.+)$")
        local prefix = MAPS[map]
        name = prefix and prefix .. name
        if name and wire.is_name(name) and within(value, -MAX_METRIC, MAX_METRIC) then
            names[#names + 1], values[name] = name, value
        end
    end
    table.sort(names)
    local kept
    for i = 1, math.min(#names, MAX_NAMED) do
        kept = kept or {}
        kept[names[i]] = values[names[i]]
    end
    return kept
end


--- Read the value of a header.
-- @param decode_base64 ngx.decode_base64
-- @return { utilization, mem_utilization, named_metrics: name -> number } with the reported ones alone; nil if there
--        is none; and whether the value is malformed
function _M.load(text, decode_base64)
    local kind, rest = string.match(text, "^(%a+)%s+(.*)$")
    local read = kind and #text <= MAX_BYTES and READERS[string.upper(kind)]
    local fields = read and read(rest, decode_base64)
    if not fields then
        return nil, true
    end
    for _, name in ipairs({ "application_utilization", "cpu_utilization", "mem_utilization" }) do
        if fields[name] ~= nil and not within(fields[name], 0, MAX_UTILIZATION) then
            return nil, true
        end
    end
    -- gRPC's order: the application's own figure first; 0 is how a protobuf leaves it out.
    local application = fields.application_utilization
    local load = {
        utilization = application and application > 0 and application or fields.cpu_utilization,
        mem_utilization = fields.mem_utilization,
        named_metrics = named(fields),
    }
    return next(load) and load or nil, false
end


return _M
