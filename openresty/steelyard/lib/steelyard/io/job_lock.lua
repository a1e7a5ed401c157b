--- The job lock: one of all workers does a job, once an interval.
--
-- The shared dict has the time at which the job is next due. If two workers see it pass, `add` of a lock with a TTL
-- decides between them. A lock has the number of its taker, which prolongs it during the job. A worker that is killed
-- or hangs in the job leaves a lock that expires. Another worker then does the job, at most LOCK_S late. If the first
-- one wakes up later, it neither takes the lock back nor sets the job's next time. Times are by the monotonic clock.
--
-- nginx may drop the timer of a job (io/timers), or of all jobs that share one. So a lock whose work is not begun in
-- time is given up at the next look.
--
-- If the shared dict has no room for a lock, each worker does the jobs: a fetch too many rather than none.
--
-- nginx runs 256 timers at a time (lua_max_running_timers). So the jobs that run once an upstream, and may wait for a
-- peer, share a timer: all that a worker takes in one look.

local clock = require "steelyard.io.clock"
local clock_phase = require "steelyard.core.clock_phase"
local shared_dict = require "steelyard.io.shared_dict"
local timers = require "steelyard.io.timers"

local LOCK_S = 2

-- The time between two looks of a worker. It takes a job that is due before its next look now, and begins it in time.
local AHEAD_S = 0.1

-- Jobs that may be under way in shared timers of a worker. In the worst case each has a timer of its own.
local TOGETHER = 200

local _M = {}

-- job -> this worker's lock: { number; unstored: whether the dict had no room for it; begun: whether its work has
-- begun; late_at: when it should have begun at the latest; shared: whether it shares a timer }
local held = {}

local own_due = {} -- job -> when it is next due in this worker: the dict had no room for that
local look_at = {} -- job that shares timers -> when to look for it again: to look for each at each tick would cost
local together = 0 -- shared locks in `held`


local function is_ours(dict, job, lock)
    if lock.unstored then
        return held[job] == lock
    end
    return dict:get("turn/" .. job) == lock.number
end


--- Forget this worker's lock, and release it if it is still its own.
local function release(dict, job, lock)
    if is_ours(dict, job, lock) then
        dict:delete("turn/" .. job)
    end
    if held[job] == lock then
        held[job] = nil
        if lock.shared then
            together = together - 1
        end
    end
end


--- Have a lock of this worker last for some seconds.
local function prolong(dict, job, lock, seconds)
    if not lock.unstored and is_ours(dict, job, lock) then
        dict:set("turn/" .. job, lock.number, seconds)
    end
end


--- Prolong the lock of a job under way. Give up a job that should have begun long ago: nginx has dropped its timer.
local function look_after(dict, job, lock, now)
    if lock.begun then
        prolong(dict, job, lock, LOCK_S)
    elseif now > lock.late_at then
        release(dict, job, lock)
        timers.dropped(dict, "the timer for " .. job .. " was not run")
    end
end


--- Take the lock if the job is due and no other worker has it. Return the lock and in how many seconds the job begins;
-- or nil and in how many seconds to look again, if that is known. A job that is due in much more than an interval is
-- due at once: the interval has changed.
local function take(dict, job, interval_s, now)
    local wait_s = (dict:get("due/" .. job) or own_due[job] or 0) - now
    if wait_s > interval_s * 1.6 then
        wait_s = 0
    end
    if wait_s > AHEAD_S then
        return nil, wait_s - AHEAD_S
    elseif dict:get("turn/" .. job) then
        return nil
    end
    wait_s = math.max(0, wait_s)
    local lock = { number = dict:incr("turns", 1, 0), begun = false, late_at = now + wait_s + LOCK_S }
    local taken, err = dict:add("turn/" .. job, lock.number, wait_s + LOCK_S)
    if not taken and err ~= shared_dict.FULL then
        return nil
    end
    lock.unstored = not taken
    held[job] = lock
    return lock, wait_s
end


--- Set when the job is next due: one interval after it was due, so that lateness does not add up, or in half an
-- interval if that is later. With an instant, it is next due at that instant of the common phase.
local function set_due(dict, job, interval_s, instant_s, now)
    local due
    if instant_s then
        local time_of_day = ngx.now()
        due = now + clock_phase.after(time_of_day, interval_s, instant_s) - time_of_day
    else
        due = (dict:get("due/" .. job) or 0) + interval_s
        due = math.min(math.max(due, now + interval_s / 2), now + interval_s)
    end
    own_due[job] = not dict:set("due/" .. job, due) and due or nil
end


--- Do the work of a lock that this worker still has.
local function begin(dict, job, lock, interval_s, instant_s, work, about)
    lock.begun = true
    timers.guarded(job .. " failed: ", work, about)
    if is_ours(dict, job, lock) then
        set_due(dict, job, interval_s, instant_s, clock.now())
    end
    release(dict, job, lock)
end


--- Do work() in a timer of its own if the job is due and no other worker has it. Call it every AHEAD_S or so.
-- @param instant_s an instant of the common phase (core/clock_phase), or nil
function _M.run(dict, job, interval_s, instant_s, work)
    local now = clock.now()
    if held[job] then
        return look_after(dict, job, held[job], now)
    end
    local lock, wait_s = take(dict, job, interval_s, now)
    if not lock then
        return
    end
    local is_set = timers.at(dict, wait_s, function(premature)
        if premature or not is_ours(dict, job, lock) then
            return release(dict, job, lock) -- this worker leaves, or was late: the job is due for another one
        end
        begin(dict, job, lock, interval_s, instant_s, work)
    end)
    if not is_set then
        release(dict, job, lock) -- the next look tries again
    end
end


--- Have one worker do work(is_ours) over and over, each time in a timer of its own. Call it every AHEAD_S or so.
-- When is_ours() is false, another worker has the job, and work() has to return soon.
function _M.hold(dict, job, work)
    local now = clock.now()
    if held[job] then
        return look_after(dict, job, held[job], now)
    end
    local lock = take(dict, job, 0, now)
    if not lock then
        return
    end
    local again
    function again(premature)
        if premature or ngx.worker.exiting() or not is_ours(dict, job, lock) then
            return release(dict, job, lock)
        end
        lock.begun = true
        local ok = timers.guarded(job .. " failed: ", work, function() return is_ours(dict, job, lock) end)
        -- After an error, wait: it may come again.
        local wait_s = ok and 0 or LOCK_S
        lock.begun, lock.late_at = false, clock.now() + wait_s + LOCK_S
        prolong(dict, job, lock, wait_s + LOCK_S)
        if ngx.worker.exiting() or not timers.at(dict, wait_s, again) then
            release(dict, job, lock)
        end
    end
    if not timers.at(dict, 0, again) then
        release(dict, job, lock)
    end
end


--- Add the job work(about) to `taken` if it is due and no other worker has it; for run_together. Call it every
-- AHEAD_S or so.
-- @return false if this worker can take no more jobs now
function _M.take_together(dict, taken, job, interval_s, work, about)
    local now, at = clock.now(), look_at[job]
    if held[job] then
        look_after(dict, job, held[job], now)
        return true
    end
    -- A time beyond the interval does not hold: the interval has changed.
    if at and now < at and at <= now + interval_s then
        return true
    end
    if together >= TOGETHER then
        return false
    end
    local lock, wait_s = take(dict, job, interval_s, now)
    look_at[job] = nil
    if lock then
        lock.shared = true
        together = together + 1
        taken[#taken + 1] = { job = job, lock = lock, interval_s = interval_s, work = work, about = about }
    elseif wait_s then
        look_at[job] = now + wait_s
    end
    return true
end


local function begin_together(premature, dict, taken)
    local breathe = clock.breather()
    for i = 1, #taken do
        local one = taken[i]
        if premature or not is_ours(dict, one.job, one.lock) then
            release(dict, one.job, one.lock)
        else
            -- A thread of its own, so that no upstream waits for the servers of another.
            ngx.thread.spawn(begin, dict, one.job, one.lock, one.interval_s, nil, one.work, one.about)
            breathe()
        end
    end
end


--- Do the work of all jobs that were taken, in one timer.
function _M.run_together(dict, taken)
    if together > 0 then -- nobody looks for the jobs of an upstream that was removed
        local now = clock.now()
        for job, lock in pairs(held) do
            if lock.shared and not lock.begun then
                look_after(dict, job, lock, now)
            end
        end
    end
    if #taken > 0 and not timers.at(dict, 0, begin_together, dict, taken) then
        begin_together(true, dict, taken)
    end
end


return _M
