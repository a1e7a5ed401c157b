--- Ejection: peers with far more failures than the others are left out for a while.
--
-- Not here: `max_fails` and its half-open probe, which are in io/peer_health and phase/request.
--
-- This is Envoy's idea. Each turn adds the tries since the last one to a window. A peer with c completed and f failed
-- tries, n = c + f, is compared with the N tries of all the others, F of them failed:
--
--   bad when  n >= requests,  f/n >= error_rate,
--             f/n - F/N >= MIN_DIFFERENCE,                 no peer of an app that answers 500 everywhere
--             f/n - F/N >= Z sqrt(p (1 - p) (1/n + 1/N))   p = (f + F)/(n + N): no chance
--
-- A window too thin for a verdict stays open, for up to MAX_TURNS: pickers send a failing peer few requests. Beside it,
-- failures in a row are counted for longer (core/ejection_runs): windows of a peer with a try each three seconds
-- are always too thin. The worst
-- are ejected first, as long as at most `share` of the peers (at least one, never all) are out at one moment. An
-- ejection lasts base_s times its number of repetitions, at most max_s. After an equal time without being bad, one
-- repetition is forgiven. A returned peer is on probation: PROBATION_TRIES tries are enough for a verdict, until one
-- window was good.
--
-- With reports of other load balancers (core/failure_report), a thin window in which most tries failed is judged by
-- the sum of all. Each of the others counts for at most half of the tries needed. So a load balancer that lies, or has
-- lost its own way to a server, cannot eject a server that works here.
--
-- Pure. `memory` is a plain table, id -> row, and survives as JSON: the worker of the next turn reads it. It holds no
-- row for a peer without trouble.
--   row: address, times, out_s of the last ejection; until_s while it is out;
--        good_from_s since when it is good; probation;
--        window { completed, failed, others_completed, others_failed, turns }; while it is out, the reason
--        run: its failures in a row (core/ejection_runs)

local ejection_runs = require "steelyard.core.ejection_runs"

-- The least difference of failure rates, and its least number of standard deviations.
local MIN_DIFFERENCE, Z = 0.2, 4

-- With turns of a second: older tries say nothing about the peer now.
local MAX_TURNS = 10

-- Tries that are enough for a verdict on probation.
local PROBATION_TRIES = 2

-- A peer on probation has had few tries: forgiving takes this many times as long.
local PROBATION_FORGIVES_SLOWER = 10

local COUNTS = { "completed", "failed", "others_completed", "others_failed" }

local _M = {}


local function share_of(completed, failed)
    local tries = completed + failed
    return tries > 0 and failed / tries or 0, tries
end


--- Tell whether the peer fails clearly more often than the others in a window.
local function stands_out(window)
    local share, tries = share_of(window.completed, window.failed)
    local others, others_tries = share_of(window.others_completed, window.others_failed)
    if others_tries == 0 then
        return false -- there is no other peer to compare with
    end
    local mean = share_of(window.completed + window.others_completed, window.failed + window.others_failed)
    local chance = math.sqrt(mean * (1 - mean) * (1 / tries + 1 / others_tries))
    return share - others >= MIN_DIFFERENCE and share - others >= Z * chance
end


local function words(window)
    local tries = window.completed + window.failed
    return string.format("%s failed, and %d of %d at the others%s",
                         window.in_a_row and tries .. " tries in a row"
                         or string.format("%d of %d tries", window.failed, tries),
                         window.others_failed, window.others_completed + window.others_failed,
                         window.balancers and ", of " .. window.balancers .. " load balancers" or "")
end


--- Add this turn's tries to the peer's window, or begin a new one.
local function widen(window, figure, pool)
    if not window or window.turns >= MAX_TURNS then
        window = { completed = 0, failed = 0, others_completed = 0, others_failed = 0, turns = 0 }
    end
    window.completed = window.completed + figure.completed
    window.failed = window.failed + figure.failed
    window.others_completed = window.others_completed + pool.completed - figure.completed
    window.others_failed = window.others_failed + pool.failed - figure.failed
    window.turns = window.turns + 1
    return window
end


--- Return the sum of a window and those of other load balancers.
-- @param most tries that one of them may count for
local function with_others(window, reports, most)
    local sum = { balancers = 1 }
    for _, count in ipairs(COUNTS) do
        sum[count] = window[count]
    end
    for i = 1, #reports do
        local theirs = reports[i]
        local part = math.min(1, most / (theirs.completed + theirs.failed))
        for _, count in ipairs(COUNTS) do
            sum[count] = sum[count] + part * theirs[count]
        end
        sum.balancers = sum.balancers + 1
    end
    return sum
end


--- Judge the failures in a row of a peer in use; return them as a window if they show it is bad, or nil.
local function judge_run(row, figure, pool, settings)
    local run, is_news = ejection_runs.after(row.run, figure.completed, figure.failed,
                                                    pool.completed - figure.completed, pool.failed - figure.failed)
    row.run = run
    local needed = row.probation and math.min(PROBATION_TRIES, settings.consecutive) or settings.consecutive
    if needed > 0 and is_news and ejection_runs.is_bad(run, needed, row.probation) then
        return {
            completed = 0, failed = run.failed,
            others_completed = run.others_completed, others_failed = run.others_failed,
            turns = run.turns, in_a_row = true,
        }
    end
end


--- Judge the window of a peer in use; return the window that shows it is bad, or nil.
local function judge_window(row, figure, pool, settings, now)
    local window, reports = widen(row.window, figure, pool), figure.others
    local share, tries = share_of(window.completed, window.failed)
    local needed = row.probation and PROBATION_TRIES or settings.requests
    row.window = window
    if tries >= needed and share < settings.error_rate then
        row.window, row.probation = nil, nil
        return nil
    elseif tries > 0 and share >= settings.error_rate then
        row.good_from_s = now
        local shown = tries < needed and reports and with_others(window, reports, math.floor(needed / 2)) or window
        if shown.completed + shown.failed >= needed and stands_out(shown) then
            return shown
        end
    end
    if window.failed == 0 and not row.probation then
        row.window = nil
    end
end


local function forgive(row, now)
    row.good_from_s = math.min(row.good_from_s or now, now) -- the clock may be set back
    if row.times > 0 and now - row.good_from_s >= row.out_s * (row.probation and PROBATION_FORGIVES_SLOWER or 1) then
        row.times, row.good_from_s = row.times - 1, now
    end
    if row.times == 0 then
        row.probation = nil -- it had no requests to judge it by in that time
    end
end


local function worse(a, b)
    local a_share, a_tries = share_of(a.shown.completed, a.shown.failed)
    local b_share, b_tries = share_of(b.shown.completed, b.shown.failed)
    if a_share ~= b_share then
        return a_share > b_share
    elseif a_tries ~= b_tries then
        return a_tries > b_tries
    end
    return a.figure.id < b.figure.id
end


local function eject(candidate, settings, now)
    local row, figure = candidate.row, candidate.figure
    row.times = row.times + 1
    row.out_s = math.min(settings.base_s * row.times, settings.max_s)
    row.until_s, row.run = now + row.out_s, nil
    row.window = candidate.shown.balancers and row.window or candidate.shown
    local decision = {
        action = "eject", id = figure.id, address = figure.address, out_s = row.out_s, reason = words(candidate.shown),
    }
    row.probation = nil
    return decision
end


--- Judge the peers: one turn.
-- @param memory  as returned by the last turn; {} at first
-- @param figures of the peers that failed or are in memory, if they are still there: { id, address, completed, failed
--        } since the last turn; `others` lists the windows of other load balancers with failures at the peer, nil
--        without any; `pool` is the one to compare with, nil for the common one
-- @param pool    peers (how many may be picked), and completed, failed of all of them
-- @param settings error_rate, requests, consecutive, base_s, max_s, share
-- @return memory, and decisions: { action = "eject" | "return", id, address, out_s, reason }
function _M.judge(memory, figures, pool, settings, now)
    local after, decisions, candidates, out = {}, {}, {}, 0
    for i = 1, #figures do
        local figure = figures[i]
        local row = memory[figure.id]
        if not row or row.address ~= figure.address then
            row = { address = figure.address, times = 0, out_s = 0 }
        end
        if row.until_s and now < row.until_s and row.until_s - now <= row.out_s then
            out = out + 1
        else
            if row.until_s then
                row.until_s, row.probation, row.good_from_s, row.window, row.run = nil, true, now, nil, nil
                decisions[#decisions + 1] = { action = "return", id = figure.id, address = figure.address }
            end
            local compared_with = figure.pool or pool
            local by_run = judge_run(row, figure, compared_with, settings)
            local shown = judge_window(row, figure, compared_with, settings, now) or by_run
            if shown then
                candidates[#candidates + 1] = { row = row, figure = figure, shown = shown }
            else
                forgive(row, now)
            end
        end
        if row.until_s or row.times > 0 or row.window or row.run then
            after[figure.id] = row
        end
    end
    table.sort(candidates, worse)
    local most = math.min(math.max(1, math.floor(settings.share * pool.peers)), pool.peers - 1)
    for i = 1, math.min(#candidates, math.max(0, most - out)) do
        decisions[#decisions + 1] = eject(candidates[i], settings, now)
    end
    return after, decisions
end


return _M
