--- A picker that is not Steelyard's own, guarded: the default picker takes its place whenever it raises an error.
--
-- After an error in update() the default picker has the peers until an update succeeds. After an error in pick() it
-- chooses for that request alone. It is made, and gets the peers, at the first error. Pure.

local no_pause = require("resty.vnswrr").no_pause

local MAX_ERROR = 300

local _M = {}
local mt = { __index = _M }


--- Guard a picker.
-- @param make_default function() that returns the default picker, and its name
-- @param report       function(method, problem), called for each error
function _M.new(picker, name, make_default, report)
    local self = setmetatable({
        picker = picker, name = name, make_default = make_default, report = report,
        wants_key = picker.wants_key, by_in_flight = picker.by_in_flight,
        default = nil, default_name = nil, peers = {}, known = {},
        in_force = name, problem = nil, -- after the last update: the name of the picker that took it, and the error
    }, mt)
    if picker.note_reported then
        self.note_reported = _M.pass_reported
    end
    return self
end


--- Call a method of the picker. Return whether it raised no error, and its values or the problem.
local function try(self, method, ...)
    local ok, value, place = pcall(self.picker[method], self.picker, ...)
    if ok then
        return true, value, place
    end
    local problem = "picker " .. self.name .. ": " .. method .. ": " .. string.sub(tostring(value), 1, MAX_ERROR)
    self.report(method, problem)
    return false, problem
end


--- The default picker, with the peers of the last update.
local function default_of(self)
    if not self.default then
        self.default, self.default_name = self.make_default()
        self.default:update(self.peers, no_pause, self.known)
    end
    return self.default
end


--- Take the peers, as core/pickers says.
function _M:update(peers, breathe, known)
    local ok, problem = try(self, "update", peers, breathe, known)
    self.peers, self.known = peers, known
    if self.default then
        self.default:update(peers, no_pause, known) -- both change together
    end
    self.problem, self.in_force = nil, self.name
    if not ok then
        default_of(self)
        self.problem, self.in_force = problem, self.default_name
    end
end


--- Return the next peer, and its place on the ring if the picker has one; nil if there is none.
function _M:pick(key)
    if self.problem then
        return default_of(self):pick(key)
    end
    local ok, peer, place = try(self, "pick", key)
    if ok and (peer == nil or type(peer) == "table" and peer.address) then
        return peer, place
    elseif ok then
        self.report("pick", "picker " .. self.name .. ": pick: it returned no server: " .. tostring(peer))
    end
    return default_of(self):pick(key)
end


--- Return the next peer on the ring, and its place; nil if there is none.
function _M:following(place)
    local ok, peer, next_place = try(self, "following", place)
    if ok then
        return peer, next_place
    end
end


--- Do up to n steps of work ahead; return how many are left.
function _M:grow(n)
    local left = self.default and self.default:grow(n) or 0
    if self.problem or not self.picker.grow then
        return left
    end
    local ok, steps = try(self, "grow", n)
    return left + (ok and type(steps) == "number" and steps or 0)
end


--- Pass a server's report of its requests in flight to the picker. It is `note_reported` if the picker has that.
function _M:pass_reported(peer, in_flight, at)
    try(self, "note_reported", peer, in_flight, at)
end


return _M
