--- Active checks: what an answer means, and when a peer falls and rises. Pure.
--
-- A peer that was never checked is eligible; its first check decides at once,
-- because there is nothing else to go by. After that `fall` failed checks in a
-- row take it out, and `rise` good ones in a row bring it back.

local _M = {}


--- A set of statuses in words: "200, 204-206".
function _M.words_of(statuses)
    local words, status = {}, 100
    while status < 600 do
        if statuses[status] then
            local first = status
            while statuses[status + 1] do
                status = status + 1
            end
            words[#words + 1] = first == status and tostring(first) or first .. "-" .. status
        end
        status = status + 1
    end
    return table.concat(words, ", ")
end


--- Judge an answer: ok, and in words why not.
-- @param answer { status } or nil, and then `err` says why there is none
-- @param statuses the set of good ones
function _M.verdict(answer, err, statuses)
    if not answer then
        return false, tostring(err)
    elseif statuses[answer.status] then
        return true
    end
    return false, "answered " .. answer.status .. ", wants " .. _M.words_of(statuses)
end


--- One check: the state after it, and "up" or "down" when that is a change.
-- @param state { up, streak }: how many checks in a row spoke against it; nil before the first
-- @param settings rise, fall
function _M.step(state, ok, settings)
    if not state then
        return { up = ok, streak = 0 }, not ok and "down" or nil
    elseif ok == state.up then
        return { up = ok, streak = 0 }
    end
    local streak = state.streak + 1
    if streak < (ok and settings.rise or settings.fall) then
        return { up = state.up, streak = streak }
    end
    return { up = ok, streak = 0 }, ok and "up" or "down"
end


--- A state as text, for the address that it is about.
function _M.write(state, address)
    return address .. (state.up and " up " or " down ") .. state.streak
end


--- The state in a text; nil when there is none, or it is about another address.
function _M.read(text, address)
    local about, word, streak = string.match(text or "", "^(%S+) (%l+) (%d+)$")
    if about ~= address then
        return nil
    end
    return { up = word == "up", streak = tonumber(streak) }
end


--- Tell whether a peer's check fell due within (from, now]. Each peer has a moment
-- of its own in the interval, so that checks are spread over it, and differently
-- from each load balancer.
-- @param phase 0..1, the peer's own
function _M.due(phase, from, now, interval_s)
    local shift_s = phase * interval_s
    return math.floor((now - shift_s) / interval_s) > math.floor((from - shift_s) / interval_s)
end


return _M
