--- What each request does in Steelyard's phases, counted and not timed: for test_work_per_request.
--
-- Functions are told apart as they are called, so nothing is wrapped but the phases. A word of memory that is not
-- Lua's (what workers share, and what nginx fills in) is read and written by two functions of the FFI, and C is
-- called by a third. Compiled code calls no hook, so nothing is compiled.
--
-- The argument `count` of a request says what of it is counted: `work`, or `bytes` (the hook makes garbage of its own).

local cjson = require "cjson"

local getinfo, getlocal, sethook = debug.getinfo, debug.getlocal, debug.sethook
local PHASES = { "shard", "limit", "balance", "header", "release", "sticky", "log" }

local _M = {}

local kinds = {}       -- function -> what a call of it counts as
local counted, began   -- of the request that is served; the memory in use when its phase began
local done = {}        -- what each counted request did, in order


local function add(kind, amount)
    counted[kind] = (counted[kind] or 0) + amount
end


local function on_event(event)
    if event == "count" then
        return add("instructions", 1)
    end
    local kind = kinds[getinfo(2, "f").func]
    if kind == "variable" then
        local _, name = getlocal(2, 2)
        kind = "variable " .. name
    end
    if kind then
        add(kind, 1)
    end
end


local function enter(what)
    counted = counted or {}
    if what == "bytes" then
        collectgarbage("stop")
        began = collectgarbage("count") * 1024
    else
        sethook(on_event, "c", 1)
    end
end


local function leave(what, ...)
    if what == "bytes" then
        add("bytes", collectgarbage("count") * 1024 - began)
    else
        sethook()
    end
    return ...
end


local function phase_of(run, is_last)
    return function(...)
        local what = ngx.var.arg_count
        enter(what)
        if not is_last then
            return leave(what, run(...))
        end
        run(...)
        leave(what)
        done[#done + 1], counted = counted, nil
    end
end


--- init_by_lua: from here on count what is asked for.
function _M.start()
    math.randomseed(1)
    math.randomseed = function() end -- workers seed themselves: here what is drawn is the same each time
    jit.off()
    for ms = 0, 1000 do
        _M[ms] = string.format("%.3f", ms / 1000) -- as nginx writes a latency: a new string is memory, too
    end
    local word, var = debug.getmetatable(require("ffi").new("int")), getmetatable(ngx.var)
    kinds[word.__index], kinds[word.__newindex], kinds[word.__call] = "words read", "words written", "C calls"
    kinds[var.__index], kinds[var.__newindex] = "variable", "variable"
    for name, call in pairs(getmetatable(ngx.shared.steelyard).__index) do
        kinds[call] = type(call) == "function" and "dict " .. name or nil
    end
    local steelyard = require "steelyard"
    for _, name in ipairs(PHASES) do
        steelyard[name] = phase_of(steelyard[name], name == "log")
    end
end


--- content_by_lua: what was counted since the last call.
function _M.show()
    ngx.say(cjson.encode(done))
    done = {}
end


return _M
