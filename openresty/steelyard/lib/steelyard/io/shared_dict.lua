--- The lua_shared_dict, with a count of the values that were thrown out to make room for others.
--
-- nginx does that without a word, the least recently used first: counts, marks of
-- health, and at last tables. The count is in the dict too, under `evictions`; it
-- is used too recently to be thrown out itself.

local LOG_EVERY_S = 60

local _M = {}
local mt = { __index = _M }


--- Open the dict of that name; nil when nginx.conf has none.
function _M.open(name)
    local dict = ngx.shared[name]
    return dict and setmetatable({ dict = dict, name = name }, mt)
end


--- Pass on what a write returned, and count whether it threw out others.
local function noted(self, result, err, evicted)
    if evicted then
        self.dict:incr("evictions", 1, 0)
        if self.dict:add("evicting", true, LOG_EVERY_S) then
            ngx.log(ngx.ERR, "steelyard: the shared dict is full, and what was in use is thrown out: ",
                    "raise `lua_shared_dict ", self.name, "` in ", ngx.config.subsystem, " {}")
        end
    end
    return result, err
end


-- As of a lua_shared_dict:

function _M:get(key)
    return self.dict:get(key)
end


function _M:set(key, value, ttl_s)
    return noted(self, self.dict:set(key, value, ttl_s))
end


function _M:add(key, value, ttl_s)
    return noted(self, self.dict:add(key, value, ttl_s))
end


function _M:incr(key, by, begin, ttl_s)
    return noted(self, self.dict:incr(key, by, begin, ttl_s))
end


function _M:expire(key, ttl_s)
    return self.dict:expire(key, ttl_s)
end


function _M:delete(key)
    return self.dict:delete(key)
end


function _M:capacity()
    return self.dict:capacity()
end


function _M:free_space()
    return self.dict:free_space()
end


return _M
