--- The pickers, by the name that a weight table asks for.
--
-- A picker is a module with new(random), and objects with
--
--   update(peers)  eligible peers, in id order, each with id and weight
--   pick()         the next peer, or nil when there is none
--   grow(n)        do up to n steps of work ahead of picks; returns what is left
--
-- Pure, like the pickers themselves.

local FALLBACK = "vnswrr"

local PICKERS = {
    vnswrr = require "steelyard.core.pickers.vnswrr",
}

local _M = {}


--- Make the picker of that name, or of the fallback's; returns it and the name that it has.
function _M.make(name, random)
    local used = PICKERS[name] and name or FALLBACK
    return PICKERS[used].new(random), used
end


return _M
