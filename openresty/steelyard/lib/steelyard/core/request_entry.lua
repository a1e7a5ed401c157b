--- The entry of one request: Steelyard's notes about it, from its first phase to its log.
--
--   started      when it began: with its key (its address in nginx's memory) that names one request
--   upstream     the name of the upstream that balance() was called for last; nil before
--   tries        the peers that it was sent to
--     [1..n]       in the order of the tries
--     from         the first try of the running pass; an internal redirect begins another pass
--     earlier      [i]: the earlier pass that try i was in; nil for tries of the running pass, or if there is no other
--       upstream     the name of its upstream
--       cost         of the request there; nil if it was not priced
--       over_budget  whether it had no further try, because the retry budget was spent
--     in_flight    [i]: requests in flight at the peer when try i came; nil while the peer stats keep no levels
--     stuck_after  [i]: true if no peer was found for the try after try i; nil if that never happened
--   held_cell    the cell of the peer at which it is in flight; nil while it is nowhere
--   held_extra   its weight beyond 1 there (core/request_cost), or nil
--   reservation  the peer that shard() or limit() chose ahead of balance()
--     peer         nil if there is none
--     upstream     the upstream that it was chosen for
--     changes      that upstream's `changes` then: a peer chosen before a later change is not used
--     waited       whether the request waited for it, so that its room is certain
--   price        what it weighs in an upstream with the option `cost` or `cost_at_end`
--     upstream     that upstream; nil if it was not priced
--     weight, cost as core/request_cost returned them; nil if the cost is known at the end only
--   place        its place in the queue of an upstream whose servers are full (phase/limit)
--     queue        nil while it does not wait; its leave(entry) takes the request out
--     class, turn  its urgency, and the semaphore that wakes it
--   retry        what its first try was granted
--     allowed      its tries beyond the first
--     is_spare     whether its second try is a spare one (core/retries)
--     over_budget  whether it may have no further try, because the retry budget was spent
--   failure      why it got no answer from a peer
--     why          in words, for the problem document; nil if there was no failure
--     status       to answer with; nil: nginx's own
--     is_full      whether all servers were at max_conns
--   explained    the reasons of its picks in words, if the upstream has the option `explain`
--   client       the keys of both ends of its client's connection, if sessions are closed (core/long_sessions)
--   event_ms     ms from a stream's header to its first event, 0 before that event; nil if it is no stream
--   unfinished   whether a part of the response's body has passed, and its end has not; false or nil if not, or unknown
--   context      the ngx.ctx of the internal location that it was sent to a server from
--   server       where nginx notes that it is done with the server of its running pass; false: nowhere (io/request_end)
--   probe        the half-open peer whose probe it claimed, or nil
--   watched      whether its end is found if it is never closed (core/open_requests)
--   ended        a `long`, not 0 once the request has ended; only the open requests' entries have it
--
-- The groups are tables of their own that stay with the entry when it is reused, so a request allocates none. Pure.

local _M = {}


--- Make a table with room for some fields. LuaJIT makes room even to assign nil; a table without room for a field is
-- built anew when the field is set, which would then happen for each request.
local function with_room_for(fields)
    for field in pairs(fields) do
        fields[field] = nil
    end
    return fields
end


--- Make an entry that has noted nothing, with room for three tries.
function _M.new()
    local entry = with_room_for({
        started = 0, upstream = 0, tries = 0, held_cell = 0, held_extra = 0, reservation = 0, price = 0, place = 0,
        retry = 0, failure = 0, explained = 0, client = 0, event_ms = 0, context = 0, server = 0, probe = 0,
        watched = 0, ended = 0, unfinished = 0,
    })
    entry.tries = with_room_for({ 0, 0, 0, n = 0, from = 0, in_flight = 0, stuck_after = 0, earlier = 0 })
    entry.tries.n, entry.tries.from = 0, 1
    entry.reservation = with_room_for({ peer = 0, upstream = 0, changes = 0, waited = 0 })
    entry.price = with_room_for({ upstream = 0, weight = 0, cost = 0 })
    entry.place = with_room_for({ queue = 0, class = 0, turn = 0 })
    entry.retry = with_room_for({ allowed = 0, is_spare = 0, over_budget = 0 })
    entry.failure = with_room_for({ why = 0, status = 0, is_full = 0 })
    return entry
end


--- Note the peer that was chosen ahead of balance().
-- @param waited whether the request waited for it
function _M.reserve(entry, peer, upstream, waited)
    local reservation = entry.reservation
    reservation.peer, reservation.upstream, reservation.changes = peer, upstream, upstream.changes
    reservation.waited = waited
end


--- Forget the failure: the request goes on.
function _M.forget_failure(entry)
    local failure = entry.failure
    failure.why, failure.status, failure.is_full = nil, nil, nil
end


--- Begin another pass, after an internal redirect: the tries of the previous one keep what they are judged by. Its
-- servers' headers are gone, so a cost that is known at the end only counts as the mean.
function _M.begin_pass(entry)
    local tries, price, retry = entry.tries, entry.price, entry.retry
    if tries.from <= tries.n then
        local costs = price.upstream and price.upstream.costs
        local pass = {
            upstream = entry.upstream, cost = costs and (price.cost or costs.mean), over_budget = retry.over_budget,
        }
        local earlier = tries.earlier or {}
        for i = tries.from, tries.n do
            earlier[i] = pass
        end
        tries.earlier, tries.from, retry.over_budget = earlier, tries.n + 1, false
        entry.server = nil
    end
    _M.forget_failure(entry)
end


--- The name of the upstream that try i was at.
function _M.upstream_of(entry, i)
    local earlier = entry.tries.earlier
    local pass = earlier and earlier[i]
    return pass and pass.upstream or entry.upstream
end


--- Forget the request's price: it goes to an upstream without costs.
function _M.forget_price(entry)
    local price = entry.price
    price.upstream, price.weight, price.cost = nil, nil, nil
end


--- Empty an entry for the next request. It must hold nothing in flight and have no place in a queue.
function _M.clear(entry)
    local tries, reservation, price, failure = entry.tries, entry.reservation, entry.price, entry.failure
    local in_flight = tries.in_flight
    for i = 1, tries.n do
        tries[i] = nil
        if in_flight then
            in_flight[i] = nil
        end
    end
    tries.n, tries.from, tries.stuck_after, tries.earlier = 0, 1, nil, nil
    reservation.peer, reservation.upstream, reservation.waited = nil, nil, nil
    price.upstream, price.weight, price.cost = nil, nil, nil
    if failure.why then
        failure.why, failure.status, failure.is_full = nil, nil, nil
    end
    entry.upstream, entry.explained, entry.client, entry.event_ms = nil, nil, nil, nil
    entry.context, entry.server, entry.probe, entry.watched, entry.unfinished = nil, nil, nil, nil, nil
end


return _M
