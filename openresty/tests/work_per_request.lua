--- The work of each request in Steelyard's phases, counted and not timed: for test_work_per_request.
--
-- A hook distinguishes functions as they are called, so only the phases are wrapped. Two functions of the FFI read
-- and write words of memory outside Lua (shared by workers, or filled in by nginx), and a third one calls C functions.
-- Compiled code calls no hook, so nothing is compiled.
--
-- In the phases a request comes a millisecond after the previous one, however busy the machine is. Otherwise what fades
-- within some milliseconds (a server's report of its requests in flight) would be read in one run and not in another.
--
-- A request's argument `count` chooses the count: `work`, or `bytes` (the hook makes garbage of its own).

local cjson = require "cjson"

local getinfo, getlocal, sethook = debug.getinfo, debug.getlocal, debug.sethook
local PHASES = { "shard", "limit", "balance", "header", "release", "sticky", "log" }

local _M = {}

local msec             -- nginx's milliseconds, lower half first (steelyard.io.clock)
local real, counting_ms -- the lower half outside of a phase; and in one: nil before the first request
local kinds = {}       -- function -> the kind that a call counts as
local counted, began   -- of the current request; the memory in use at the start of its phase
local done = {}        -- the work of each counted request, in order


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
    real = msec[0]
    counting_ms = counting_ms or real
    msec[0] = counting_ms
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
    msec[0] = real
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
        done[#done + 1], counted, counting_ms = counted, nil, counting_ms + 1
    end
end


--- init_by_lua: start counting.
function _M.start()
    math.randomseed(1)
    math.randomseed = function() end -- workers seed themselves; here the draws are the same each time
    jit.off()
    for ms = 0, 1000 do
        _M[ms] = string.format("%.3f", ms / 1000) -- nginx's form of a latency: a new string takes memory, too
    end
    local ffi = require "ffi"
    local word, var = debug.getmetatable(ffi.new("int")), getmetatable(ngx.var)
    kinds[word.__index], kinds[word.__newindex], kinds[word.__call] = "words read", "words written", "C calls"
    kinds[var.__index], kinds[var.__newindex] = "variable", "variable"
    for name, call in pairs(getmetatable(ngx.shared.steelyard).__index) do
        kinds[call] = type(call) == "function" and "dict " .. name or nil
    end
    local steelyard = require "steelyard"
    msec = ffi.C.steelyard_current_msec
    for _, name in ipairs(PHASES) do
        steelyard[name] = phase_of(steelyard[name], name == "log")
    end
end


--- content_by_lua: the counts since the last call.
function _M.show()
    ngx.say(cjson.encode(done))
    done = {}
end


return _M
