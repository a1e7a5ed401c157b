--- The connections of this worker, found by their ends and shut down.
--
-- nginx gives Lua no hold of them, but the worker has one thread: between two system calls of one turn no descriptor
-- is closed, and none goes to another connection. shutdown() touches no memory of nginx. It reads the end of what was
-- to come, as if the other side had hung up, and ends the request or the idle connection by its ordinary way.

local address = require "steelyard.core.address"
local clock = require "steelyard.io.clock"
local ffi = require "ffi"

ffi.cdef[[
int getpeername(int fd, void *name, unsigned int *length);
int getsockname(int fd, void *name, unsigned int *length);
int shutdown(int fd, int how);
]]

-- Linux's numbers. Before FIRST are the standard streams.
local INET, INET6, BOTH, FIRST = 2, 10, 2, 3

-- A turn looks at descriptors for so long, which is some thousands, and the next goes on there.
local SLICE_S, ROWS = 0.001, 64

local SIZE = 128 -- of any address of a socket

-- Where the system does not say how many there may be.
local MANY = 65536

local C = ffi.C
local name, length = ffi.new("uint8_t[?]", SIZE), ffi.new("unsigned int[1]", SIZE)
local next_fd, last_fd = FIRST, nil

local _M = {}


--- The end of a connection that a call has written to `name`, as core/address' key has it; nil where it is no address
-- of IP.
local function end_of(status)
    local family = status == 0 and ffi.cast("uint16_t *", name)[0]
    length[0] = SIZE
    if family == INET then
        return address.key(ffi.string(name + 2, 2), name + 4, 4)
    elseif family == INET6 then
        return address.key(ffi.string(name + 2, 2), name + 8, 16)
    end
end


--- The highest descriptor that this process may have: as many as it has had room for.
local function highest()
    local file = io.open("/proc/self/status")
    local text = file and file:read("*a")
    if file then
        file:close()
    end
    return (tonumber(string.match(text or "", "FDSize:%s*(%d+)")) or MANY) - 1
end


--- Shut down connections, of those that this turn comes to.
-- @param targets key of the other end -> { count: how many, locals: keys of this worker's end (left out: any) };
--                each is told how many were `closed`
function _M.shut(targets)
    local began = clock.monotonic()
    last_fd = next_fd == FIRST and highest() or last_fd
    for fd = next_fd, last_fd do
        local target = targets[end_of(C.getpeername(fd, name, length))]
        if target and target.closed < target.count
           and (not target.locals or target.locals[end_of(C.getsockname(fd, name, length))])
           and C.shutdown(fd, BOTH) == 0 then
            target.closed = target.closed + 1
        end
        if fd % ROWS == 0 and clock.monotonic() - began > SLICE_S then
            next_fd = fd + 1
            return
        end
    end
    next_fd = FIRST
end


return _M
