--- ORCA load reports in binary: xds.data.orca.v3.OrcaLoadReport, a protobuf message in Base64.
--
--   endpoint-load-metrics: BIN CQAAAAAAANA/     endpoint-load-metrics-bin: CQAAAAAAANA
--
-- gRPC leaves the padding out, which Envoy reads from 1.40 on. Here both are read. A message is a sequence of fields:
-- a varint, number * 8 + wire type, and a value of that type. Type 0 is a varint, 1 eight bytes, 2 a length and its
-- bytes, 5 four bytes (protobuf.dev, Encoding). Only doubles and maps of doubles are kept, the last of each. All else
-- is skipped, as protobuf requires. Text in, a table or nothing out. Pure.

local bit = require "bit"
local ffi = require "ffi"

local byte, sub, band = string.byte, string.sub, bit.band

-- github.com/cncf/xds, xds/data/orca/v3/orca_load_report.proto
local DOUBLES = {
    [1] = "cpu_utilization", [2] = "mem_utilization", [6] = "rps_fractional", [7] = "eps",
    [9] = "application_utilization",
}
local MAPS = { [5] = "utilization.", [8] = "named_metrics." }

local KEY, VALUE = 1, 2

local eight_octets = ffi.new("double[1]")

local _M = {}


--- Return the varint at a position, and the position after it; nil if there is none. No number of interest has more
-- than 32 bits; the rest of a longer one is ignored.
local function varint(text, at)
    local value = 0
    for i = 0, 9 do
        local octet = byte(text, at + i)
        if not octet then
            return nil
        end
        if i < 5 then
            value = value + band(octet, 0x7f) * 2 ^ (7 * i)
        end
        if octet < 0x80 then
            return value, at + i + 1
        end
    end
end


--- Call visit(number, kind, value) for each field: value is a string of eight bytes or of a length, or nil.
-- @return false if the text is no message
local function each_field(text, visit)
    local at = 1
    while at <= #text do
        local tag, value
        tag, at = varint(text, at)
        if not tag or tag < 8 then
            return false
        end
        local kind, length = tag % 8, nil
        if kind == 0 then
            value, at = varint(text, at)
            length = value and 0
        elseif kind == 1 then
            length = 8
        elseif kind == 2 then
            length, at = varint(text, at)
        elseif kind == 5 then
            length = 4
        end
        if not length or at + length - 1 > #text then
            return false
        end
        if visit((tag - kind) / 8, kind, sub(text, at, at + length - 1)) == false then
            return false
        end
        at = at + length
    end
    return true
end


local function double(octets)
    ffi.copy(eight_octets, octets, 8) -- little endian, like every machine with LuaJIT and nginx in practice
    return eight_octets[0]
end


--- Read a load report.
-- @param decode_base64 text -> bytes, or nil; the padding may be left out
-- @return { field = number }, those of maps as named_metrics.NAME and utilization.NAME; nil if it is none
function _M.pairs_of(text, decode_base64)
    local message = decode_base64(text)
    if not message then
        return nil
    end
    local fields = {}
    local whole = each_field(message, function(number, kind, value)
        if DOUBLES[number] and kind == 1 then
            fields[DOUBLES[number]] = double(value)
        elseif MAPS[number] and kind == 2 then
            local name, inner = "", 0
            local read = each_field(value, function(field, inner_kind, octets)
                if field == KEY and inner_kind == 2 then
                    name = octets
                elseif field == VALUE and inner_kind == 1 then
                    inner = double(octets)
                end
            end)
            fields[MAPS[number] .. name] = inner
            return read
        end
    end)
    return whole and fields or nil
end


return _M
