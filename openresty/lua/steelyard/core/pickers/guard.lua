--- What makes a peer lose a comparison, whatever it has in flight.
--
--   failing  over half of its tries failed lately. A server that answers 500 in
--            a millisecond has nothing in flight and looks like the best one.
--   slower   its latency is over 5 times the other's, both known, and over 5 ms:
--            nginx counts in whole ones. Speaks only when the loads are equal:
--            the weights know how fast a server is, and 5 times is no longer noise.
--   late     it has nothing in flight, is slower, and would still answer after
--            the other has answered all that it has in flight, and one more. A
--            slow server is idle because nobody waits for it: where requests come
--            in bursts it would get one whenever the fast ones are busy.
--
-- Both figures fade within 10 s without requests, so that a peer that lost
-- because of them is tried again. Pure.

local max = math.max

local FAILING = 0.5
local SLOWER, CLOCK_MS = 5, 1

local _M = {}


--- Whether most of the peer's tries failed lately.
function _M.failing(board, peer, now)
    return board:failing(peer.cell, now) > FAILING
end


--- Whether the peer's latency is far above the other's.
function _M.slower(board, peer, other, now)
    local least = board:latency(other.cell, now)
    return least > 0 and board:latency(peer.cell, now) > SLOWER * max(least, CLOCK_MS)
end


--- Whether the peer, with nothing in flight, is later than the other behind its queue.
function _M.late(board, peer, other, now)
    return board:in_flight(peer.cell) == 0
        and _M.slower(board, peer, other, now)
        and board:latency(peer.cell, now)
            > (board:in_flight(other.cell) + 1) * max(board:latency(other.cell, now), CLOCK_MS)
end


return _M
