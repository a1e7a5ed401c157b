--- Eligible peers: the choice by state and health, with the panic threshold (fail open).
--
-- Peers with the state `up` are eligible. `backup` peers are eligible if no other is left; `drain` and `down` never
-- are. Health takes peers out of both groups. If it takes out all of them, or more than `panic_threshold` allows,
-- health is more likely wrong than right, and all are used (fail open).
--
-- Runs when the table or health changes, not for each request. Pure.

local _M = {}


--- Return the peers to pick from, the reserve for retries after all of those failed, and whether health is ignored
-- (fail open).
-- @param unhealthy id -> anything, for peers taken out
-- @param threshold share of the `up` peers below which health is ignored
function _M.of(peers, unhealthy, threshold)
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
    if #sick_up > 0 and #up < threshold * (#up + #sick_up) then
        table.move(sick_up, 1, #sick_up, #up + 1, up)
        table.move(sick_backup, 1, #sick_backup, #backup + 1, backup)
        return up, backup, true
    elseif #up > 0 then
        return up, backup, false
    elseif #backup > 0 then
        return backup, {}, false
    elseif #sick_up > 0 then
        return sick_up, sick_backup, true
    end
    return sick_backup, {}, #sick_backup > 0
end


return _M
