--- The lua_shared_dict, without eviction, and with lifetimes by the monotonic clock.
--
-- nginx's own `set`, `add` and `incr` make room by evicting the least recently used values: marks of health, versions,
-- and whole tables of other upstreams. Here a write that finds no room changes nothing else: it returns nil and
-- FULL, is counted, and is logged once a minute.
--
-- A sixteenth of the dict is a reserve, filled with blocks of a page each. A write that finds no room takes one, so
-- marks, locks and versions can be written while tables and counts fill the rest. Writes by `bulk` leave the reserve
-- alone: the tables, and the values that grow with the number of servers.
--
-- A value of another length than the last one is removed before the new one is written, and is lost if that finds no
-- room. A number, or a text of the same length, is written in place and always finds room.
--
-- nginx's own TTL goes by the time of day: after a clock is set back by an hour, a value of a second would live for an
-- hour. So the end of a value is in its user flags, in hundredths of a second by the monotonic clock, modulo 2^32 (497
-- days). nginx's TTL is longer. It removes values that nobody reads any more, and a clock that is set forward by less
-- than the difference ends no value. If two workers find one expired value within microseconds, `add` may succeed in
-- both.

local bit = require "bit"
local clock = require "steelyard.io.clock"

-- nginx's slab allocator gives out whole pages to values of more than half a page. A block and its key fill one, so a
-- block makes room for a value of less than that.
local PAGE, BLOCK, MAX_BYTES = 4096, string.rep("-", 3800), 1800

-- 4 MB: the marks of 30,000 servers.
local MAX_BLOCKS = 1024

-- To remove expired values, nginx walks over all values under the dict's lock: 1 ms for 10,000.
local CLEAN_EVERY_S = 1

local LOG_EVERY_S = 60

-- How much longer nginx's TTL is: more than time servers set a clock forward in operation.
local SPARE_S = 60

-- Units of the flags in a second. A longer lifetime has none: its end would look like one in the past.
local PER_S, MAX_S = 100, 1e7

-- The dict's own keys, all numbers: the writes that found no room, the time of the last walk, and blocks in reserve.
local REFUSED, CLEANED_AT, BLOCKS = "full/refused", "full/cleaned_at", "full/blocks"

local _M = { FULL = "no memory" }
local mt = { __index = _M }


--- The arguments of a write for a lifetime: nginx's TTL and the flags, which must not be 0. None without a lifetime.
local function lasting(ttl_s, spare_s)
    if ttl_s and ttl_s > MAX_S then
        return ttl_s
    elseif ttl_s then
        -- nginx's flags are an int; what becomes of a larger number is undefined.
        local flags = bit.tobit(math.floor((clock.now() + ttl_s) * PER_S) % 2 ^ 32)
        return ttl_s + (spare_s or SPARE_S), flags == 0 and 1 or flags
    end
end


--- The rest of a lifetime, in hundredths of a second.
local function left(flags)
    return bit.tobit(flags - math.floor(clock.now() * PER_S) % 2 ^ 32)
end


--- Whether the lifetime of a value is over.
local function is_over(flags)
    return flags ~= nil and left(flags) <= 0
end


--- The number of blocks that the reserve should have.
local function wanted_blocks(dict)
    return math.max(2, math.min(MAX_BLOCKS, math.floor(dict:capacity() / 16 / PAGE)))
end


--- Fill the reserve up, as far as there is room. Call it now and then.
function _M:fill_reserve()
    local dict, wanted = self.dict, wanted_blocks(self.dict)
    if dict:get(BLOCKS) == wanted then
        return
    end
    for i = 1, wanted do
        local added, err = dict:safe_add("reserve/" .. i, BLOCK)
        if not added and err == _M.FULL then
            wanted = i - 1
            break
        end
    end
    dict:safe_set(BLOCKS, wanted)
end


--- Open the dict of that name; nil if nginx.conf has none.
function _M.open(name)
    local dict = ngx.shared[name]
    if not dict then
        return nil
    end
    for _, key in ipairs({ REFUSED, CLEANED_AT, BLOCKS }) do
        dict:safe_add(key, 0)
    end
    local self = setmetatable({ dict = dict, name = name, has_reserve = true, seldom = {} }, mt)
    self.bulk = setmetatable({ dict = dict, name = name, has_reserve = false, seldom = self.seldom }, mt)
    self:fill_reserve()
    return self
end


--- Remove expired values; return whether that may have made room.
local function clean(dict)
    local now = clock.monotonic()
    if now - (dict:get(CLEANED_AT) or 0) < CLEAN_EVERY_S then
        return false
    end
    dict:safe_set(CLEANED_AT, now)
    return dict:flush_expired() > 0
end


--- Give a block of the reserve back; return whether there was one.
local function take_block(dict)
    local last = (dict:incr(BLOCKS, -1) or -1) + 1 -- no other worker gets the same number
    if last < 1 then
        dict:incr(BLOCKS, 1)
        return false
    end
    dict:delete("reserve/" .. last)
    return true
end


--- Return what to do when the dict is full, for an error.
function _M:remedy()
    return string.format("raise `lua_shared_dict %s` (now %.0fk) in %s {}", self.name, self.dict:capacity() / 1024,
                         ngx.config.subsystem)
end


--- As `add` without the reserve. A value whose lifetime is over does not count.
local function add_if_absent(dict, key, value, ttl_s, spare_s)
    local ok, err = dict:safe_add(key, value, lasting(ttl_s, spare_s))
    if err == "exists" then
        local before, flags = dict:get(key)
        if before ~= nil and is_over(flags) then
            dict:delete(key)
            ok, err = dict:safe_add(key, value, lasting(ttl_s, spare_s))
        end
    end
    return ok, err
end


--- Whether something that all workers do seldom may be done now: once in `seconds`. If the dict cannot note that, each
-- worker does it once in `seconds`.
function _M:once(key, seconds)
    local now, next_at = clock.monotonic(), self.seldom[key]
    if next_at and now < next_at then
        return false
    end
    local added, err = add_if_absent(self.dict, key, true, seconds)
    if err == _M.FULL then
        self.seldom[key] = now + seconds
        return true
    end
    self.seldom[key] = nil
    return added == true
end


--- Write again after a write that found no room. Make some before, if that is possible.
local function again(self, write, key, value, ttl_s, spare_s)
    local dict, ok, err = self.dict, false, _M.FULL
    if clean(dict) then
        ok, err = dict[write](dict, key, value, lasting(ttl_s, spare_s))
    end
    local is_small = type(value) ~= "string" or #value <= MAX_BYTES
    while err == _M.FULL and is_small and self.has_reserve and take_block(dict) do
        ok, err = dict[write](dict, key, value, lasting(ttl_s, spare_s))
    end
    if err == _M.FULL then
        dict:incr(REFUSED, 1)
        if self:once("full/logged", LOG_EVERY_S) then
            ngx.log(ngx.ERR, "steelyard: the shared dict is full, no room for `", key, "`: ", self:remedy())
        end
    end
    return ok, err
end


--- Return a value; nil if there is none, or its lifetime is over.
function _M:get(key)
    local value, flags = self.dict:get(key)
    if value ~= nil and is_over(flags) then
        return nil
    end
    return value
end


--- Return a value, and how many seconds it has left, nil without a lifetime. Nil if there is none, or its lifetime is
-- over.
function _M:get_lasting(key)
    local value, flags = self.dict:get(key)
    if value == nil or is_over(flags) then
        return nil
    elseif flags then
        return value, left(flags) / PER_S
    end
    local left_s = self.dict:ttl(key) -- a long lifetime has no flags
    return value, left_s and left_s > 0 and left_s or nil
end


--- Set a value; nil removes it. Return true; false and FULL if it is not set, and has no value any more.
-- @param spare_s a clock that is set forward by less than this ends no value; by default SPARE_S
function _M:set(key, value, ttl_s, spare_s)
    local ok, err = self.dict:safe_set(key, value, lasting(ttl_s, spare_s))
    if err == _M.FULL then
        return again(self, "safe_set", key, value, ttl_s, spare_s)
    end
    return ok, err
end


--- Set a value if there is none. Return true; false and "exists"; false and FULL.
function _M:add(key, value, ttl_s, spare_s)
    local ok, err = add_if_absent(self.dict, key, value, ttl_s, spare_s)
    if err == _M.FULL then
        return again(self, "safe_add", key, value, ttl_s, spare_s)
    end
    return ok, err
end


--- Add to a number. If there is none it begins at `init`, and expires after `ttl_s`. Return the sum; nil and the reason
-- if there is none.
function _M:incr(key, by, init, ttl_s)
    local dict = self.dict
    if ttl_s and self:get(key) == nil then
        dict:delete(key) -- its lifetime may be over
    end
    local sum, err = dict:incr(key, by)
    if sum or not init then
        return sum, err
    end
    local added, why = self:add(key, init + by, ttl_s)
    if added then
        return init + by
    elseif why == _M.FULL then
        return nil, why
    end
    return dict:incr(key, by) -- another worker was faster
end


--- The number of writes that found no room, since nginx started.
function _M:refused()
    return self.dict:get(REFUSED) or 0
end


for _, name in ipairs({ "delete", "capacity", "free_space" }) do
    _M[name] = function(self, ...)
        return self.dict[name](self.dict, ...)
    end
end


return _M
