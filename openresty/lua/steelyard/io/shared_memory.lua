--- Memory that nginx's workers share, without a lock and without a copy.
--
-- An anonymous shared mapping, made in init_by_lua: the workers inherit it when
-- nginx forks them. A reload runs init_by_lua again and makes a new one; the
-- workers of before keep theirs until they are gone. Nothing is left on disk.

local ffi = require "ffi"

ffi.cdef[[
void *mmap(void *addr, size_t length, int prot, int flags, int fd, long offset);
int munmap(void *addr, size_t length);
]]

-- Linux's numbers, the same on x86-64 and arm64.
local PROT_READ_WRITE, MAP_SHARED_ANONYMOUS = 3, 0x21

local _M = {}


--- Map so many zeroed bytes; nil and the reason when the system has none. Each
-- page is taken only when it is first written.
function _M.map(bytes)
    local address = ffi.C.mmap(nil, bytes, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS, -1, 0)
    if ffi.cast("intptr_t", address) == -1 then
        return nil, "mmap of " .. bytes .. " bytes failed, errno " .. ffi.errno()
    end
    return ffi.gc(ffi.cast("uint8_t *", address), function(memory) ffi.C.munmap(memory, bytes) end)
end


return _M
