--- Whose turn it is: of all workers one does a job, once an interval.
--
-- The time that the job is next due stands in the shared dict, and `add` of a
-- lock with a TTL decides between two workers that both see it pass. A worker
-- that is killed in its turn leaves a lock that expires; the job is then done
-- by another at most LOCK_S late.

local LOCK_S = 2

local _M = {}


--- Take the turn if it is due and nobody else has it; give it back with `done`.
-- A job that is due later than in an interval is due now: the clock was set back.
function _M.take(dict, job, interval_s, now)
    local wait_s = (dict:get("due/" .. job) or 0) - now
    if wait_s > 0 and wait_s <= interval_s then
        return false
    end
    return (dict:add("turn/" .. job, ngx.worker.pid(), math.max(LOCK_S, 2 * interval_s))) == true
end


--- Give the turn back; the job is due again an interval after it was due, so
-- that lateness does not add up, unless it is later than that already.
function _M.done(dict, job, interval_s, now)
    local due = (dict:get("due/" .. job) or 0) + interval_s
    dict:set("due/" .. job, math.min(math.max(due, now + interval_s / 2), now + interval_s))
    dict:delete("turn/" .. job)
end


return _M
