--- nginx's variables of the current request, for those that are read at the end of each one.
--
-- `ngx.var` hashes a name at each read, and copies the value into a string. Here the name is hashed once, and the value
-- is read where it is: by the same C function of nginx that `ngx.var` calls. Without that function (an nginx that hides
-- its symbols) the values come from `ngx.var`.

local base = require "resty.core.base"
local bit = require "bit"
local ffi = require "ffi"
local number_bytes = require "steelyard.core.number_bytes"

ffi.cdef[[
typedef struct { size_t length; const unsigned char *bytes; } steelyard_str_t; // ngx_str_t
typedef struct { uint32_t bits; const unsigned char *bytes; } steelyard_variable_t; // ngx_variable_value_t
uintptr_t steelyard_hash(const char *name, size_t length) asm("ngx_hash_key");
steelyard_variable_t *steelyard_variable(void *request, steelyard_str_t *name, uintptr_t hash)
    asm("ngx_http_get_variable");
int memcmp(const void *a, const void *b, size_t length);
]]

local C, band, get_request = ffi.C, bit.band, base.get_request
local bytes_of, new_name = ffi.typeof("const unsigned char *"), ffi.typeof("steelyard_str_t")

-- The bit fields of an ngx_variable_value_t: `len`, and `not_found`.
local LENGTH, NOT_FOUND = 0x0fffffff, 0x40000000

local _M = {}


local function has_function()
    return C.steelyard_hash ~= nil and C.steelyard_variable ~= nil and ffi.abi("le")
end


local found, usable = pcall(has_function)

--- Return what the functions below take for the variable of this name, in lower case.
function _M.named(name)
    return {
        name = name, -- the bytes of `key`
        key = new_name(#name, ffi.cast(bytes_of, name)),
        hash = found and usable and C.steelyard_hash(name, #name) or nil,
        text = nil, -- the last value, if it came as a string
    }
end


--- Read a variable: its bytes, valid until the request ends, and their number. Nil if it has no value.
local function read(variable)
    local value = C.steelyard_variable(get_request(), variable.key, variable.hash)
    if value == nil then
        return nil, 0
    end
    local bits = value.bits
    if band(bits, NOT_FOUND) ~= 0 then
        return nil, 0
    end
    return value.bytes, band(bits, LENGTH)
end


local function read_text(variable)
    local text = ngx.var[variable.name]
    variable.text = text -- so that it is not collected
    if not text then
        return nil, 0
    end
    return ffi.cast(bytes_of, text), #text
end


if not (found and usable) then
    read = read_text
end

local status_of, milliseconds_of = number_bytes.status, number_bytes.milliseconds


--- Return a status of three digits; nil for anything else, such as a list or no value.
function _M.status(variable)
    local bytes, length = read(variable)
    local status = status_of(bytes, length)
    return status
end


--- Return the milliseconds of a time under ten seconds; nil for anything else, such as a list or no value.
function _M.milliseconds(variable)
    local bytes, length = read(variable)
    local ms = milliseconds_of(bytes, length)
    return ms
end


--- Tell whether the first has no value, or both are the same text.
function _M.is_absent_or_same(first, second)
    local bytes, length = read(first)
    if bytes == nil then
        return true
    end
    local others, other_length = read(second)
    return others ~= nil and length == other_length and C.memcmp(bytes, others, length) == 0
end


return _M
