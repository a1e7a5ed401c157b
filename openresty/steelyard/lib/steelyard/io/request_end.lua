--- The end of an HTTP request: have nginx write to a word of memory when it comes, in any location.
--
-- nginx runs a request's cleanup handlers when the request ends, before its log phase, and after any internal redirect.
-- No Lua can run in them. So the handler is a C function of every process with one pointer as its argument: libc's
-- time(). It writes the seconds since 1970, which are never 0, to that address.

local base = require "resty.core.base"
local ffi = require "ffi"

ffi.cdef[[
typedef struct { void (*handler)(void *); void *data; void *next; } steelyard_http_cleanup_t; // ngx_http_cleanup_t
steelyard_http_cleanup_t *ngx_http_cleanup_add(void *request, size_t size);
long steelyard_time(void *written_to) asm("time");
]]

local C, get_request = ffi.C, base.get_request

-- In the guard word's place after a test run of the handler: any other value means that time() wrote beyond a `long`.
local GUARD = 42

local mark_ended -- the handler; nil if watch() can do nothing

local _M = {}


--- Find the C functions and try the handler once; raise an error if one is missing, or time() does not do as above.
local function find_handler()
    local handler = ffi.cast("void (*)(void *)", C.steelyard_time)
    assert(C.ngx_http_cleanup_add ~= nil)
    local words = ffi.new("long[2]", 0, GUARD)
    handler(words)
    assert(words[0] ~= 0 and words[1] == GUARD, "time() does not write one `long`")
    return handler
end


--- Look, once per process, whether nginx can be made to write.
-- @return true, or nil and why not
function _M.available()
    if mark_ended then
        return true
    end
    local ok, result = pcall(find_handler)
    if not ok then
        return nil, tostring(result)
    end
    mark_ended = result
    return true
end


--- Have nginx write a value other than 0 to a `long` when the current request ends. Does nothing if the handler is not
-- available(), or nginx has no memory left.
function _M.watch(word)
    local cleanup = mark_ended and C.ngx_http_cleanup_add(get_request(), 0)
    if cleanup and cleanup ~= nil then
        cleanup.handler, cleanup.data = mark_ended, word
    end
end


return _M
