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


-- As of a lua_shared_dict: what throws nothing out, and what may.

for _, name in ipairs({ "get", "expire", "delete", "capacity", "free_space" }) do
    _M[name] = function(self, ...)
        return self.dict[name](self.dict, ...)
    end
end

for _, name in ipairs({ "set", "add", "incr" }) do
    _M[name] = function(self, ...)
        return noted(self, self.dict[name](self.dict, ...))
    end
end


return _M
