--- The problem document (RFC 9457) of a request without an answer. Pure.
--
-- It names servers by id, because clients must not see addresses.

local json = require "steelyard.core.json"
local request_entry = require "steelyard.core.request_entry"
local try_outcomes = require "steelyard.core.try_outcomes"

local TITLES = {
    [400] = "Bad Request", [403] = "Forbidden", [404] = "Not Found", [405] = "Method Not Allowed",
    [429] = "Too Many Requests", [500] = "Internal Server Error", [502] = "Bad Gateway", [503] = "Service Unavailable",
    [504] = "Gateway Timeout",
}

local _M = { CONTENT_TYPE = "application/problem+json", TITLES = TITLES }


--- The JSON text of a problem.
-- @param extra further members, or nil
function _M.encode(status, detail, extra)
    local document = extra or {}
    document.type = "about:blank"
    document.title = TITLES[status] or "Error"
    document.status = status
    document.detail = detail
    return json.encode(document)
end


--- Describe why a request failed: its upstream, its servers, the outcome at each.
-- @param entry    of the open requests; nil if none of our upstreams was involved
-- @param outcomes of its tries
-- @param asked    whether any server was asked
-- @return the detail in words, and further members of the document. A try names its upstream if it is another one
function _M.of_request(entry, outcomes, asked)
    if not entry or not entry.upstream then -- opened by shard() alone: it was not proxied
        return asked and "the server gave no valid answer" or "no server was asked: nginx itself answers this", nil
    end
    local reasons, rows, named = {}, {}, nil
    local tries, why = entry.tries, entry.failure.why
    local function add(upstream, reason)
        reasons[#reasons + 1] = (upstream ~= named and "upstream " .. upstream .. ": " or "") .. reason
        named = upstream
    end
    for i = 1, tries.n do
        local words, upstream = try_outcomes.words(outcomes[i]), request_entry.upstream_of(entry, i)
        add(upstream, tries[i].id .. " " .. words)
        rows[i] = {
            peer = tries[i].id, status = outcomes[i].status or json.null, what = words,
            upstream = upstream ~= entry.upstream and upstream or nil,
        }
    end
    if why and not (why == "every server was tried" and tries.n > 0) then
        add(entry.upstream, why)
    end
    return table.concat(reasons, "; "), { upstream = entry.upstream, tries = json.array(rows) }
end


return _M
