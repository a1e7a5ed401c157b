--- Eligibility: which peers of a table may get a request.
--
-- `up` peers may; `backup` peers when no other is left; `drain` and `down`
-- never. Peers carry id, address, weight, state and are in id order. Pure.

local _M = {}


--- The peers that are picked among, and those kept for when all of them failed.
function _M.eligible(peers)
    local up, backup = {}, {}
    for i = 1, #peers do
        local state = peers[i].state
        if state == "up" then
            up[#up + 1] = peers[i]
        elseif state == "backup" then
            backup[#backup + 1] = peers[i]
        end
    end
    if #up == 0 then
        return backup, {}
    end
    return up, backup
end


--- The addresses of all peers, as a set.
function _M.addresses(peers)
    local set = {}
    for i = 1, #peers do
        set[peers[i].address] = true
    end
    return set
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
