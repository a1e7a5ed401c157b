--- Failures by an upstream's own rules: its `failure_statuses`, and gRPC's status.
--
-- A server may be in several upstreams, and counts are kept per address (core/open_requests). No connection, no answer,
-- a cut body and 5xx are failures there, for all upstreams. Any other answer counts as completed there, and if this
-- upstream calls it a failure, it counts as failed here alone:
--
--   completed here = completed at the address - own failures
--   failed here    = failed at the address    + own failures
--
-- Such an answer has no latency and no cost. Ejection compares this upstream's own tries, too, because among the good
-- answers to other upstreams its failures would be few. An upstream without such rules has none of this. Pure.

local peer_stats = require "steelyard.core.peer_stats"
local try_outcomes = require "steelyard.core.try_outcomes"

local max, min = math.max, math.min

local _M = {}
local mt = { __index = _M }


--- For each count: address -> tries through this upstream. All failures, of either kind, are in `failed`.
local function no_counts()
    return { own_failed = {}, completed = {}, failed = {} }
end


local function add(counts, address)
    counts[address] = (counts[address] or 0) + 1
end


--- Make the rules of an upstream; nil if it has none.
-- @param settings its options (core/upstream_options)
function _M.new(settings)
    local statuses = settings.failure_statuses or {}
    if next(statuses) == nil and not settings.grpc then
        return nil
    end
    return setmetatable({
        statuses = statuses, grpc = settings.grpc,
        counts = no_counts(), -- since the last take()
        shares = {}, at = {}, -- cell -> recent share of failed tries, of either kind, and when the last one ended
    }, mt)
end


--- Judge a try, and note its outcome.
-- @param verdict     of the try at the address (core/try_outcomes)
-- @param grpc_status as it came; nil without one
-- @return whether it is an own failure
function _M:judge(peer, verdict, status, grpc_status, now)
    if verdict == "aborted" then
        return false
    end
    local cell, address, counts = peer.cell, peer.address, self.counts
    local fails = verdict == "completed" and (self.statuses[status] or grpc_status ~= nil
                                              and try_outcomes.grpc_verdict(grpc_status) == "failed")
    local is_good = verdict == "completed" and not fails
    add(is_good and counts.completed or counts.failed, address)
    if is_good and not self.shares[cell] then
        return false -- the usual case: nothing has failed
    elseif fails then
        add(counts.own_failed, address)
    end
    local failing = self:failing(cell, now)
    self.shares[cell] = failing + peer_stats.ALPHA * ((is_good and 0 or 1) - failing)
    self.at[cell] = now
    return fails
end


--- Return the recent share of failed tries that this worker sent to a server for this upstream, 0..1.
function _M:failing(cell, now)
    local share = self.shares[cell]
    return share and share * peer_stats.faded(now - self.at[cell]) or 0
end


--- Return peer stats for this upstream's pickers: a server fails if it does at its address, or here. A worker learns
-- of own failures by itself.
function _M:over(stats)
    local own = self
    local over = setmetatable({}, { __index = stats })
    function over.failing(_, cell, now)
        return max(stats:failing(cell, now), own:failing(cell, now))
    end
    function over.keep_levels() -- for the phases, which have the address's stats
        stats:keep_levels()
    end
    function over.note_reported(_, ...)
        stats:note_reported(...)
    end
    return over
end


--- Return whether an own failure is among the counts to take.
function _M:has_failures()
    return next(self.counts.own_failed) ~= nil
end


--- Return the counts since the last call.
function _M:take()
    local counts = self.counts
    self.counts = no_counts()
    return counts
end


--- Return this upstream's completed and failed tries in an interval, of those at the address.
-- @param own its own failures; another worker may add them a moment after the tries
function _M.of_upstream(completed, failed, own)
    own = max(0, min(own, completed))
    return completed - own, failed + own
end


return _M
