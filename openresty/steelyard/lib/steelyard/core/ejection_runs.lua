--- Consecutive failures: all recent tries of a peer failed, while those of other peers did not. This module judges the
-- run; core/outlier_detection ejects the peer.
--
-- Envoy's consecutive_5xx and HAProxy's error-limit count the same. Here the other peers are asked, too: if a database
-- is down, all peers fail, and none is at fault. For a run of n failed tries,
--
--   share = sum(s_k) / n          s_k: the failed share of the other peers' tries about this peer's try k
--   F     = N share               N: those tries
--   P     = product, j = 0 .. n - 1, of (F + n - j) / (N + n - j)
--
--   bad when  n >= consecutive,  1 - share >= MIN_DIFFERENCE,  P <= the chance
--
-- P is the chance that this peer has n of n + F failures among n + N tries if it is like the others (Fisher's exact
-- test). The shares are by try, so an outage of all counts as that even if the others have many good tries after it.
-- The others' tries about try k are those since the last turn that was compared; the try waits if there are none yet.
--
-- Counts are by turn. A turn with a completed try ends the run, whatever the order of its tries. Pure. A run is a plain
-- table, and survives as JSON:
--
--   failed, others_completed, others_failed   tries that were compared
--   expected                                  the sum of s_k
--   waiting                                   failed tries to compare
--   completed_since, failed_since             tries of the others to compare them with
--   turns                                     its age

-- Turns of a second: a peer with a try a minute or more is judged. Rarer tries say nothing about now.
local MAX_TURNS = 600

-- The least difference of failure rates, as for a window.
local MIN_DIFFERENCE = 0.2

-- Five failures beside ten good tries at others have 1 / 3003. On probation, when a failure is likely, two beside two
-- have 1 / 6.
local CHANCE, CHANCE_ON_PROBATION = 5e-4, 0.2

local _M = {}


--- Return a peer's run after a turn, nil if it has none; and whether there is news to judge.
-- @param completed, failed the peer's tries in this turn
-- @param others_completed, others_failed those of the others
function _M.after(run, completed, failed, others_completed, others_failed)
    if completed > 0 then
        return nil, false
    elseif not run or run.turns >= MAX_TURNS then
        if failed == 0 then
            return nil, false
        end
        run = {
            failed = 0, others_completed = 0, others_failed = 0, expected = 0,
            waiting = 0, completed_since = 0, failed_since = 0, turns = 0,
        }
    end
    run.turns, run.waiting = run.turns + 1, run.waiting + failed
    run.completed_since, run.failed_since = run.completed_since + others_completed, run.failed_since + others_failed
    local tries = run.completed_since + run.failed_since
    if run.waiting == 0 or tries == 0 then
        return run, false
    end
    run.failed, run.expected = run.failed + run.waiting, run.expected + run.waiting * run.failed_since / tries
    run.others_completed = run.others_completed + run.completed_since
    run.others_failed = run.others_failed + run.failed_since
    run.waiting, run.completed_since, run.failed_since = 0, 0, 0
    return run, true
end


--- Whether a run shows that its peer is bad.
-- @param needed       failures in a row, at least
-- @param on_probation whether it was ejected a moment ago
function _M.is_bad(run, needed, on_probation)
    local n, tries = run.failed, run.others_completed + run.others_failed
    local share = run.expected / n
    if n < needed or 1 - share < MIN_DIFFERENCE then
        return false
    end
    local chance, most = 1, on_probation and CHANCE_ON_PROBATION or CHANCE
    for j = 0, n - 1 do
        chance = chance * (tries * share + n - j) / (tries + n - j)
    end
    return chance <= most
end


return _M
