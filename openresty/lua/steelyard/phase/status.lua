--- GET /steelyard/status: what this load balancer serves, and why, as JSON.

local document = require "steelyard.phase.document"
local json = require "steelyard.core.json"
local page = require "steelyard.phase.page"

-- About 0.5 ms of encoding.
local ROWS = 100


--- The object's JSON without its closing brace: another member may follow.
local function opened(object)
    return string.sub(assert(json.encode(object)), 1, -2)
end


local function send_peers(send, rows)
    local comma = ""
    for first = 1, #rows, ROWS do
        local chunk = {}
        for i = first, math.min(first + ROWS - 1, #rows) do
            chunk[#chunk + 1] = rows[i]
        end
        send(comma .. string.sub(assert(json.encode(chunk)), 2, -2))
        comma = ","
    end
end


--- Answer with the status document; 403 to whom `allow` does not name.
return page("application/json", function(send, breathe)
    local whole = document(breathe)
    local upstreams = whole.upstreams
    whole.upstreams, whole.workers = nil, json.array(whole.workers)
    send(opened(whole) .. ',"upstreams":{')
    local comma = ""
    for name, upstream in pairs(upstreams) do
        local rows = upstream.peers
        upstream.peers = nil
        send(comma .. '"' .. name .. '":' .. opened(upstream) .. ',"peers":[')
        send_peers(send, rows)
        send("]}")
        comma = ","
    end
    send("}}\n")
end)
