--- The retry budget of an upstream in one worker: it keeps retries few beside the requests, so that they do not double
-- an outage.
--
--   R = R f + r (1 - f) / x      requests of the last TAU_S or so; x = t / TAU_S, f = e^-x, r of them
--   T = T f                      came within t, evenly; and retries, each of which adds 1
--   a retry is made when         T + 1 <= max(floor, share R)
--
-- In any time of length l there are at most share (requests + R at its start) + floor (1 + l / TAU_S) retries. That is
-- a share of the requests, after the savings of ten seconds. One failing server is out of use long before the savings
-- are gone; an outage uses them up within seconds. Finagle's budget has the same share and reserve, and a window of
-- the same length.
--
-- Each worker has a budget of its own. Counting a request then raises a number that no other worker reads; a shared
-- number would be a cache line that all of them write. The workers' shares of their requests add up to the same share
-- of all requests, however unevenly connections are spread. The floor is divided among workers, and an unused part of
-- it is lost. Pure: the time is passed in.

local validate = require "steelyard.core.validate"

local exp, max, min = math.exp, math.max, math.min

-- Finagle's defaults; the share is Envoy's, too.
local NUMBERS = {
    { "share", validate.NUMBER, 0, 1, 0.2 },
    { "min_per_s", "a number of retries", 0, 1000000, 10 },
}

-- Finagle's window.
local TAU_S = 10

-- Retries of a worker within TAU_S, at least, as Envoy's min_retry_concurrency: many workers with little to do would
-- have less than one retry each.
local MIN_FLOOR = 3

-- Requests between two looks at the clock.
local REQUESTS_PER_LOOK = 64

local _M = {}
local mt = { __index = _M }


--- Check the option `retry_budget`: { share, min_per_s }, with defaults; nil if it is false.
-- @param option its full name
function _M.of_option(given, option)
    if given == false then
        return nil
    end
    return validate.table_of_numbers(given, NUMBERS, option, "must be a table, or false for none",
                                     "write it as retry_budget = { share = 0.2, min_per_s = 10 }")
end


--- Make an unused budget.
-- @param settings share: of the requests; min_per_s: retries that all workers together may always make
-- @param workers  how many workers there are
-- @param now      function: the time in s
function _M.new(settings, workers, now)
    local floor = settings.min_per_s * TAU_S
    return setmetatable({
        share = settings.share, floor = max(floor / workers, min(MIN_FLOOR, floor)), now = now,
        requests = 0, retries = 0, -- R and T at the time `at`
        fresh = 0, at = now(),     -- requests since
        spent = false,             -- whether the last look found no room
    }, mt)
end


--- Bring R and T up to now. A clock set back counts as stopped.
local function look(self)
    local now = self.now()
    local x = max(0, now - self.at) / TAU_S
    local f = exp(-x)
    self.requests = self.requests * f + self.fresh * (x > 0 and (1 - f) / x or 1)
    self.retries = self.retries * f
    self.fresh, self.at = 0, now
    self.spent = self.retries + 1 > max(self.floor, self.share * self.requests)
end


--- Count a request; not for its retries.
function _M:count()
    local fresh = self.fresh + 1
    self.fresh = fresh
    if fresh >= REQUESTS_PER_LOOK then
        look(self)
    end
end


--- Whether a retry would be refused now.
function _M:is_spent()
    if self.spent then
        look(self)
    end
    return self.spent
end


--- Take a retry; return false if none is left.
function _M:take()
    look(self)
    if self.spent then
        return false
    end
    self.retries = self.retries + 1
    self.spent = self.retries + 1 > max(self.floor, self.share * self.requests)
    return true
end


return _M
