--- Which request is being served: a key that lasts from its first phase to its log.

local base = require "resty.core.base"
local ffi = require "ffi"

local cast, tonumber, get_request = ffi.cast, tonumber, base.get_request
local uintptr = ffi.typeof("uintptr_t")

--- The request's address. nginx uses it again after the log phase; together
-- with the start time it names one request.
return function()
    -- Pointers have 47 bits here, so the double is exact. (A tail call would
    -- keep LuaJIT from compiling this.)
    local key = tonumber(cast(uintptr, get_request()))
    return key
end
