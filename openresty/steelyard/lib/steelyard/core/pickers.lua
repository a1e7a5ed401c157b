--- The pickers, by their names in a weight table.
--
-- A picker is made of a context { random = f(n) -> 1..n, stats =, now = f() -> s } and has
--
--   update(peers, breathe, known)  take the eligible peers, in id order, each with id, weight and cell; picks while it
--                           breathes still see the previous ones. known: all peers of the table
--   pick(key)               return the next peer, or nil; a hash picker also returns the peer's place on the ring
--   note_others(are_there)  note whether the table names other load balancers; a picker may have none
--   following(place)        of a hash picker: return the next peer on the ring and its place, or nil
--   grow(n)                 do up to n steps of work ahead of picks; return the number of steps left
--   wants_key               true if pick uses a key (chash, bounded_hash)
--
-- A picker's module has `new`, and describes itself. Specs, tests and the simulator read the description from here,
-- the lab reads it as text (steelyard_loadtest's machine/picker_list.py):
--
--   by_in_flight  true: it goes by the requests in flight at each peer
--   by_key        true: it hashes a key, and picks as the default without one
--   library       the library that must be installed for it
--
-- Pure, like the pickers themselves.

local bounded_hash = require "steelyard.core.pickers.bounded_hash"
local guarded = require "steelyard.core.pickers.guarded"
local resty_balancer = require "steelyard.core.pickers.resty_balancer"

local FALLBACK = "vnswrr2"

local PICKERS = {
    vnswrr = require "steelyard.core.pickers.vnswrr",
    vnswrr2 = require "steelyard.core.pickers.vnswrr2",
    least_conn = require "steelyard.core.pickers.least_conn",
    peak_ewma = require "steelyard.core.pickers.peak_ewma",
    hcl = require "steelyard.core.pickers.hcl",
    bounded_hash = bounded_hash.bounded,
    chash = bounded_hash.unbounded,
    roundrobin = resty_balancer.roundrobin,
    swrr = resty_balancer.swrr,
}

local _M = {}


--- Return all of them, by name, each with its name, new and description.
function _M.all()
    local all = {}
    for name, picker in pairs(PICKERS) do
        all[#all + 1] = {
            name = name, new = picker.new, by_in_flight = picker.by_in_flight or false,
            by_key = picker.by_key or false, library = picker.library,
        }
    end
    table.sort(all, function(a, b) return a.name < b.name end)
    return all
end


local function names()
    local all = _M.all()
    for i = 1, #all do
        all[i] = all[i].name
    end
    return table.concat(all, ", ")
end


local function ignore() end


--- Make the picker of that name (nil: the default), or of a module from nginx.conf with `name` and `new`. A picker of
-- nginx.conf or of a library is guarded (core/pickers/guarded).
-- @param report function(method, problem) for the errors of such a picker, or nil
-- @return the picker, its name, and why it is another than the one asked for
function _M.make(asked, context, report)
    local function fallback()
        return PICKERS[FALLBACK].new(context), FALLBACK
    end
    local module = type(asked) == "table" and asked or PICKERS[asked or FALLBACK]
    if not module then
        local err = "there is no picker " .. tostring(asked) .. "; there are: " .. names()
        local picker, name = fallback()
        return picker, name, err
    end
    local name = module.name or asked or FALLBACK
    local ok, picker, err = pcall(module.new, context)
    if ok and type(picker) == "table" then
        local is_own = module == PICKERS[asked or FALLBACK] and not module.library
        return is_own and picker or guarded.new(picker, name, fallback, report or ignore), name
    end
    err = ok and not picker and err or "picker " .. name .. ": " .. tostring(picker)
    picker, name = fallback()
    return picker, name, err
end


return _M
