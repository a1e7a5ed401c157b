--- The end of an HTTP request, in any location; and the end of nginx's reading from its server.
--
-- nginx runs a request's cleanup handlers when the request ends, before its log phase, and after any internal redirect.
-- No Lua can run in them. So the handler is a C function of every process with one pointer as its argument: libc's
-- time(). It writes the seconds since 1970, which are never 0, to that address.
--
-- nginx adds a cleanup handler of its own when it begins to send a request to a server, with the request as its data.
-- It clears that handler as soon as it is done with the server: it has the whole answer, or goes on to other content
-- (X-Accel-Redirect, error_page). The client may still be reading.

local base = require "resty.core.base"
local ffi = require "ffi"

ffi.cdef[[
typedef struct steelyard_http_cleanup_s steelyard_http_cleanup_t; // ngx_http_cleanup_t
struct steelyard_http_cleanup_s { void (*handler)(void *); void *data; steelyard_http_cleanup_t *next; };
steelyard_http_cleanup_t *ngx_http_cleanup_add(void *request, size_t size);
long steelyard_time(void *written_to) asm("time");
]]

local C, cast, get_request = ffi.C, ffi.cast, base.get_request
local pointer, uintptr = ffi.typeof("void *"), ffi.typeof("uintptr_t")

-- In the guard word's place after a test run of the handler: any other value means that time() wrote beyond a `long`.
local GUARD = 42

local mark_ended -- the handler; nil if watch() can do nothing
local unwatched = false -- whether a request has ever been left without the handler, for want of memory

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
    else
        unwatched = true
    end
end


--- Find nginx's cleanup handler for the server that a request is in flight at; false if there is none.
--
-- The newest handlers come first. If balance() has called watch(), our handler comes just before nginx's for that
-- server. Otherwise the newest is taken. It may be that of an upstream of nginx itself, after a redirect: the server
-- then stays in flight for longer. An empty handler is added to get at the list, 24 bytes of the request's memory.
local function find_server(entry, key)
    local request, word = cast(pointer, cast(uintptr, key)), cast(pointer, entry.ended)
    local is_watched_here = entry.tries.from > 1 or entry.reservation.upstream == nil
    local cleanup, newest = C.ngx_http_cleanup_add(request, 0), false
    while cleanup ~= nil do
        local following = cleanup.next
        if cleanup.data == word and is_watched_here and following ~= nil and following.data == request then
            return following
        elseif cleanup.data == request then
            newest = newest or cleanup
        end
        cleanup = following
    end
    return newest
end


--- Whether nginx is done with the server of a request that is in flight and has not ended.
-- @param entry its entry (core/request_entry), not of a subrequest
-- @param key   its key (phase/request)
function _M.is_over_at_server(entry, key)
    if unwatched then
        return false -- it may have ended, and its memory be gone
    elseif entry.server == nil then
        entry.server = find_server(entry, key)
    end
    local server = entry.server
    return server and server.handler == nil
end


return _M
