--- Find connections of this worker by their ends, and shut them down.
--
-- nginx does not give Lua its connections, but the worker has one thread. Between two system calls of one turn, no
-- descriptor is closed or goes to another connection. shutdown() touches no memory of nginx. nginx then reads the end
-- of the connection, as if the other side had hung up, and ends the request or the idle connection as usual.

local address = require "steelyard.core.address"
local clock = require "steelyard.io.clock"
local ffi = require "ffi"
local number = require "steelyard.core.number"

ffi.cdef[[
int getpeername(int fd, void *name, unsigned int *length);
int getsockname(int fd, void *name, unsigned int *length);
int shutdown(int fd, int how);
]]

-- Linux's numbers. The descriptors below FIRST are the standard streams.
local INET, INET6, BOTH, FIRST = 2, 10, 2, 3

-- A turn looks at descriptors for this long: a few thousand of them. The next turn goes on from there.
local SLICE_S, ROWS = 0.001, 64

local ADDRESS_BYTES = 128 -- the largest address of a socket

-- Descriptors, if the system does not report how many there may be.
local DEFAULT_DESCRIPTORS = 65536

local C = ffi.C
local name, length = ffi.new("uint8_t[?]", ADDRESS_BYTES), ffi.new("unsigned int[1]", ADDRESS_BYTES)
local next_fd, last_fd = FIRST, nil

local _M = {}


--- The key (core/address) of the end that a system call has written to `name`; nil unless it is an IP address.
local function end_of(status)
    local family = status == 0 and ffi.cast("uint16_t *", name)[0]
    length[0] = ADDRESS_BYTES
    if family == INET then
        return address.key(ffi.string(name + 2, 2), name + 4, 4)
    elseif family == INET6 then
        return address.key(ffi.string(name + 2, 2), name + 8, 16)
    end
end


--- The highest descriptor of this process: the size of its descriptor table, less one.
local function highest()
    local file = io.open("/proc/self/status")
    local text = file and file:read("*a")
    if file then
        file:close()
    end
    return (number.trusted(string.match(text or "", "FDSize:%s*(%d+)")) or DEFAULT_DESCRIPTORS) - 1
end


--- Whether a connection to a target is one that may be shut down.
local function is_wanted(target, fd)
    if target.closed >= target.count then
        return false
    end
    return not target.locals or target.locals[end_of(C.getsockname(fd, name, length))]
end


--- Shut down connections among those that this turn looks at.
-- @param targets key of the other end -> { count: how many, locals: keys of this worker's end (left out: any) };
--                `closed` in each is raised for each connection that was shut down
function _M.shut(targets)
    local began = clock.monotonic()
    if next_fd == FIRST then
        last_fd = highest()
    end
    for fd = next_fd, last_fd do
        local target = targets[end_of(C.getpeername(fd, name, length))]
        if target and is_wanted(target, fd) then
            local is_shut = C.shutdown(fd, BOTH) == 0
            if is_shut then
                target.closed = target.closed + 1
            end
        end
        if fd % ROWS == 0 and clock.monotonic() - began > SLICE_S then
            next_fd = fd + 1
            return
        end
    end
    next_fd = FIRST
end


return _M
