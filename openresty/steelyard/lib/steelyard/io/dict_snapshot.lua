--- A copy of values of the shared dict, for a dict of another size after a reload.
--
-- If the size of a lua_shared_dict changes, nginx makes a new dict at the reload: its workers would begin with nothing,
-- while the workers before still have tables. So one worker writes the values worth keeping into a file in memory,
-- once a second. At the reload, init_by_lua runs in the master, before the new workers start. It finds the file among
-- the master's open ones, and puts the values into the dict if that is new.
--
-- There are two files, written in turn. A header is written last, so a file is whole or is not used. Each reload makes
-- new files: workers that leave may still write to theirs.
--
--   header    "steelyard 1 <time, by the monotonic clock> <bytes of the records>\n", 64 bytes
--   record    "<bytes of the key> <bytes of the value> <type> <seconds to live> <group>\n", then key and value
--
-- The first record is the dict's name. The records of one group are kept together, or not at all. Without init_by_lua
-- there are no files.

local clock = require "steelyard.io.clock"
local ffi = require "ffi"
local number = require "steelyard.core.number"
local shared_dict = require "steelyard.io.shared_dict"

local trusted = number.trusted

ffi.cdef[[
int memfd_create(const char *name, unsigned int flags);
int lockf(int fd, int command, long length);
int close(int fd);
int ftruncate(int fd, long length);
long pread(int fd, void *buffer, size_t bytes, long offset);
long pwrite(int fd, const void *buffer, size_t bytes, long offset);
long readlink(const char *path, char *buffer, size_t bytes);
long lseek(int fd, long offset, int from);
]]

-- Linux's numbers, the same on x86-64 and arm64.
local CLOSE_ON_EXEC, UNLOCK, TRY_LOCK, FROM_END = 1, 0, 2, 2

local HEADER_BYTES, HEADER = 64, "steelyard 1 %020.6f %020.0f"
local HEADER_PATTERN = "^steelyard 1 (%d+%.%d+) (%d+) *\n$"
local RECORD, RECORD_PATTERN = "%d %d %s %.3f %s\n", "^(%d+) (%d+) (%l+) ([%d.]+) (%S*)\n"

-- The greatest file. Workers may write to the files, and the master must not take any amount of memory for them.
local MAX_BYTES = 256 * 2 ^ 20

-- Larger values leave the dict's reserve alone.
local SMALL_BYTES = 1000

local NAME = "steelyard-" .. ngx.config.subsystem

local _M = {}

local files -- two open files; nil: there are none


local function close(file)
    ffi.C.close(file[0])
end


local function new_file()
    local fd = ffi.C.memfd_create(NAME, CLOSE_ON_EXEC)
    return fd >= 0 and ffi.gc(ffi.new("int[1]", fd), close) or nil
end


--- Read bytes of a file; nil if it has fewer.
local function read(fd, from, bytes)
    local buffer, at = ffi.new("char[?]", math.max(1, bytes)), 0
    while at < bytes do
        local n = trusted(ffi.C.pread(fd, buffer + at, bytes - at, from + at))
        if n <= 0 then
            return nil
        end
        at = at + n
    end
    return ffi.string(buffer, bytes)
end


local function write(fd, text, from)
    local at, bytes = 0, #text
    local data = ffi.cast("const char *", text)
    while at < bytes do
        local n = trusted(ffi.C.pwrite(fd, data + at, bytes - at, from + at))
        if n <= 0 then
            return nil, "no memory for a copy of the shared dict, errno " .. ffi.errno()
        end
        at = at + n
    end
    return true
end


--- When a file was written, and the bytes of its records; nil if it is not whole, or too large.
local function header_of(fd)
    local written_at, bytes = string.match(read(fd, 0, HEADER_BYTES) or "", HEADER_PATTERN)
    local file_bytes = trusted(ffi.C.lseek(fd, 0, FROM_END))
    if written_at and trusted(bytes) + HEADER_BYTES == file_bytes and file_bytes <= MAX_BYTES then
        return trusted(written_at), trusted(bytes)
    end
end


--- Write the header of a file, and make it whole.
local function finish(fd, written_at, bytes)
    local header = string.format(HEADER, written_at, bytes)
    return write(fd, header .. string.rep(" ", HEADER_BYTES - 1 - #header) .. "\n", 0)
end


--- Write a copy of the values of these keys.
-- @param dict    io/shared_dict
-- @param groups  a list of lists of keys
-- @param breathe called now and then; may yield
-- @return true; false if another worker writes, or this one leaves; nil and the reason
function _M.save(dict, groups, breathe)
    if not files then
        return false
    end
    local first, second = header_of(files[1][0]) or 0, header_of(files[2][0]) or 0
    local fd = files[first <= second and 1 or 2][0]
    if ffi.C.lockf(fd, TRY_LOCK, 0) ~= 0 then
        return false
    end
    local at = HEADER_BYTES
    local function record(key, value, ttl_s, group)
        local kind, text = type(value), tostring(value)
        if kind == "number" then
            text = string.format("%.17g", value)
        end
        local whole, from = string.format(RECORD, #key, #text, kind, ttl_s, group) .. key, at
        at = at + #whole + #text
        if at > MAX_BYTES then
            return nil, "tables and marks take over 256 MB, so a shared dict of another size would begin without them"
        end
        if #text <= SMALL_BYTES then
            return write(fd, whole .. text, from)
        end
        local written, why = write(fd, whole, from)
        if not written then
            return nil, why
        end
        return write(fd, text, from + #whole) -- a copy of a table would be garbage
    end
    ffi.C.ftruncate(fd, 0)
    local ok, err = record("dict", dict.name, 0, "")
    for group = 1, #groups do
        for _, key in ipairs(groups[group]) do
            local value, left_s = dict:get_lasting(key)
            if ok and value ~= nil then
                ok, err = record(key, value, left_s or 0, group)
            end
            breathe()
        end
        if ngx.worker.exiting() then
            ok = false
            break
        end
    end
    if ok then
        ok, err = finish(fd, clock.monotonic(), at - HEADER_BYTES)
    end
    ffi.C.lockf(fd, UNLOCK, 0)
    return ok, err
end


local function typed(text, kind)
    if kind == "number" then
        return trusted(text)
    elseif kind == "boolean" then
        return text == "true"
    end
    return text
end


--- Split records: a list of { key, value, ttl_s, group }; nil if they are not written as expected.
local function parsed(text)
    local records, at = {}, 1
    while at <= #text do
        -- The line is short; a pattern with a position must not search the values.
        local key_bytes, value_bytes, kind, ttl_s, group = string.match(string.sub(text, at, at + 100), RECORD_PATTERN)
        if not key_bytes then
            return nil
        end
        at = string.find(text, "\n", at, true) + 1
        local key_end = at + trusted(key_bytes) - 1
        local value_end = key_end + trusted(value_bytes)
        records[#records + 1] = {
            key = string.sub(text, at, key_end), value = typed(string.sub(text, key_end + 1, value_end), kind),
            ttl_s = trusted(ttl_s) > 0 and trusted(ttl_s) or nil, group = group,
        }
        at = value_end + 1
    end
    return records
end


--- Put the records into a new dict. Return how many groups it has taken, and how many found no room.
local function put(dict, records)
    local taken, left_out, at = 0, 0, 2
    while at <= #records do
        local group, fits, first = records[at].group, true, at
        while at <= #records and records[at].group == group do
            local one = records[at]
            local to = type(one.value) == "string" and #one.value > SMALL_BYTES and dict.bulk or dict
            fits = fits and to:add(one.key, one.value, one.ttl_s)
            at = at + 1
        end
        if fits then
            taken = taken + 1
        else
            left_out = left_out + 1
            for i = first, at - 1 do
                dict:delete(records[i].key)
            end
        end
    end
    return taken, left_out
end


--- The open files of an earlier init_by_lua in this process, by the links of /proc.
local function earlier_files()
    local status = io.open("/proc/self/status", "r")
    local slots = status and trusted(string.match(status:read(4096) or "", "\nFDSize:%s*(%d+)")) or 0
    if status then
        status:close()
    end
    local found, buffer, wanted = {}, ffi.new("char[?]", 64), "/memfd:" .. NAME .. " (deleted)"
    for fd = 0, slots - 1 do
        local n = trusted(ffi.C.readlink("/proc/self/fd/" .. fd, buffer, 64))
        if n == #wanted and ffi.string(buffer, n) == wanted then
            found[#found + 1] = fd
        end
    end
    return found
end


--- The records of the newest whole file, as text; nil if there is none.
local function newest(fds)
    local last, last_bytes, last_fd = 0, nil, nil
    for _, fd in ipairs(fds) do
        local written_at, bytes = header_of(fd)
        if written_at and written_at > last then
            last, last_bytes, last_fd = written_at, bytes, fd
        end
    end
    return last_fd and read(last_fd, HEADER_BYTES, last_bytes), last
end


--- Take over the values that the workers before have saved, if the dict is a new one.
-- @param is_new function(dict): whether no worker has used it
function _M.restore(is_new)
    local earlier = earlier_files()
    files = { new_file(), new_file() } -- first, because an error may end this function
    local text, written_at = newest(earlier)
    if #files < 2 then
        files = nil
    elseif text and write(files[1][0], text, HEADER_BYTES) then
        finish(files[1][0], written_at, #text) -- for another reload within the next second
    end
    local records = text and parsed(text)
    local dict = records and records[1] and shared_dict.open(records[1].value)
    if not dict or not is_new(dict) then
        return
    end
    local taken, left_out = put(dict, records)
    ngx.log(ngx.NOTICE, "steelyard: the shared dict ", dict.name, " is a new one, and begins with what the last one ",
            "had of ", taken, " upstreams")
    if left_out > 0 then
        ngx.log(ngx.ERR, "steelyard: the new shared dict has no room for ", left_out, " upstreams: ", dict:remedy())
    end
end


return _M
