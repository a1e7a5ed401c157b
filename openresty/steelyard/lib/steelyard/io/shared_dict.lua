--- The lua_shared_dict, with a count of evicted values.
--
-- nginx evicts silently, the least recently used first: counts, marks of health, and at last tables. The count is in
-- the dict too, under `evictions`; it is always too recent to be evicted itself.

local LOG_EVERY_S = 60

local _M = {}
local mt = { __index = _M }


--- Open the dict of that name; nil if nginx.conf has none.
function _M.open(name)
    local dict = ngx.shared[name]
    return dict and setmetatable({ dict = dict, name = name }, mt)
end


--- Return the result of a write, and count whether it evicted other values.
local function noted(self, result, err, evicted)
    if evicted then
        self.dict:incr("evictions", 1, 0)
        if self.dict:add("evicting", true, LOG_EVERY_S) then
            ngx.log(ngx.ERR, "steelyard: the shared dict is full and evicts values in use: ",
                    "raise `lua_shared_dict ", self.name, "` in ", ngx.config.subsystem, " {}")
        end
    end
    return result, err
end


-- The methods of a lua_shared_dict: first those that evict nothing, then those that may.

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
