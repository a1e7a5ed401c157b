--- Eligibility: which peers of a table may get a request.
--
-- `up` peers may; `backup` peers when no other is left; `drain` and `down`
-- never. Health takes peers out of both; when it has taken out all of them, it
-- is more likely wrong than right, and all are used (fail open). Health never
-- edits a weight. Peers carry id, address, weight, state and are in id order.
-- Pure.

local _M = {}


--- The peers that are picked among, those kept for when all of them failed, and
-- whether health had to be ignored.
-- @param unhealthy id -> anything, for peers that are out
function _M.eligible(peers, unhealthy)
    local up, backup, sick_up, sick_backup = {}, {}, {}, {}
    for i = 1, #peers do
        local peer = peers[i]
        local sick = unhealthy[peer.id]
        if peer.state == "up" then
            local list = sick and sick_up or up
            list[#list + 1] = peer
        elseif peer.state == "backup" then
            local list = sick and sick_backup or backup
            list[#list + 1] = peer
        end
    end
    if #up > 0 then
        return up, backup, false
    elseif #backup > 0 then
        return backup, {}, false
    elseif #sick_up > 0 then
        return sick_up, sick_backup, true
    end
    return sick_backup, {}, #sick_backup > 0
end


--- Tell whether two sets have the same ids.
function _M.same_ids(a, b)
    for id in pairs(a) do
        if b[id] == nil then
            return false
        end
    end
    for id in pairs(b) do
        if a[id] == nil then
            return false
        end
    end
    return true
end


local function was_tried(peer, tries, from)
    for i = from, tries.n do
        -- By address: one server under two ids is still one server.
        if tries[i].address == peer.address then
            return true
        end
    end
    return false
end


--- Draw by weight among those not in tries[from..tries.n]; nil when none is left.
-- O(peers), for retries only: it leaves the picker's own order undisturbed.
function _M.draw_untried(peers, tries, from, random)
    local total = 0
    for i = 1, #peers do
        if not was_tried(peers[i], tries, from) then
            total = total + peers[i].weight
        end
    end
    if total == 0 then
        return nil
    end
    local ticket = random(total)
    for i = 1, #peers do
        if not was_tried(peers[i], tries, from) then
            ticket = ticket - peers[i].weight
            if ticket <= 0 then
                return peers[i]
            end
        end
    end
end


return _M
