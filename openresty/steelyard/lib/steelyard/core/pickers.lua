--- The pickers, by the name that a weight table asks for.
--
-- A picker is made of a context { random = f(n) -> 1..n, stats =, now = f() -> s } and has
--
--   update(peers, breathe, known)  take the eligible peers, in id order, each with id, weight and
--                           cell; picks that come while it breathes still see the old ones. known: all there are
--   pick(key)               the next peer, or nil when there is none; of one that hashes, its place on the ring too
--   following(place)        of one that hashes: the next peer on the ring, and its place; nil when it knows none
--   grow(n)                 do up to n steps of work ahead of picks; returns what is left
--   wants_key               true when pick uses a key (chash, bounded_hash)
--
-- A picker's module has `new`, and says of itself what the lists of others would have to know (specs, tests,
-- simulator and lab read them from here, the lab as text: steelyard_loadtest's machine/picker_list.py):
--
--   by_in_flight  true: it goes by what is in flight at each peer
--   by_key        true: it hashes a key, and picks as the default does where there is none
--   library       what must be installed for it
--
-- Pure, like the pickers themselves.

local bounded_hash = require "steelyard.core.pickers.bounded_hash"
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


--- All of them, each with its name, new and what it says of itself; by name.
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


--- Make the picker of that name (nil: the default), or of a module of nginx.conf's own, which has `name` and `new`.
-- @return the picker, the name that it has, and why it is not the one asked for
function _M.make(asked, context)
    local module = type(asked) == "table" and asked or PICKERS[asked or FALLBACK]
    if not module then
        local err = "there is no picker " .. tostring(asked) .. "; there are: " .. names()
        return PICKERS[FALLBACK].new(context), FALLBACK, err
    end
    local name = module.name or asked or FALLBACK
    local ok, picker, err = pcall(module.new, context)
    if ok and picker then
        return picker, name
    end
    err = ok and err or "picker " .. name .. ": " .. tostring(picker)
    return PICKERS[FALLBACK].new(context), FALLBACK, err
end


return _M
