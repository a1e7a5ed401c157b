--- Retries: how many tries a request may have beyond its first, which of them may be used, and why there are no
-- more. phase/retries asks nginx for them.
--
-- nginx's own count is no bound: it gives a try back when a pooled connection turns out closed, and a server that dies
-- of the request closes it just so. Therefore each pass counts its tries, and those beyond its allowance are refused.
--
-- With one server there is none to retry at, but its pooled connection may have been closed while it was idle. For that
-- alone the request gets a spare try at the same server, if there may be retries. Some nginx have to be asked for it
-- (io/platform). Whether a request's second try is a spare one is decided at its first, because servers may come and go
-- meanwhile. Pure.

local validate = require "steelyard.core.validate"

local function set_of(words)
    local set = {}
    for word in string.gmatch(words, "%S+") do
        set[word] = true
    end
    return set
end

-- IANA's registry of HTTP methods lists these as idempotent.
local IDEMPOTENT = set_of([[
    GET HEAD PUT DELETE OPTIONS TRACE QUERY
    ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK MERGE MKACTIVITY MKCALENDAR MKCOL
    MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT
    UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL
]])

-- These are not idempotent, and nginx itself decides about them: it asks for another server only if nginx.conf has
-- `proxy_next_upstream ... non_idempotent`. It sends every other method again, even one that it does not know.
local DECIDED_BY_NGINX = set_of("POST LOCK PATCH")

local _M = { LIMITED_BY_NGINX = "nginx.conf's limit of tries allows no more" }


--- Return the tries that a request may have beyond its first: one for each further server, up to the option.
-- @param retries the option
-- @param further the number of servers beside the one of the first try
function _M.allowed(retries, further)
    return math.max(0, math.min(retries, further))
end


--- Return in words why a request has had all its tries.
-- @param retry   what its first try was granted (core/request_entry)
-- @param made    its tries beyond the first
-- @param retries the option
-- @param untried the number of servers that were not tried
function _M.why_no_more(retry, made, retries, untried)
    if retry.over_budget then
        return "the retry budget is spent"
    elseif made >= retries then
        return "retries = " .. retries .. " allows no more tries"
    end
    return untried > 0 and _M.LIMITED_BY_NGINX or "every server was tried"
end


--- Return the status to answer with if the spare try may not be used: the server timed out, was unreachable, or did
-- answer. Nil if it may be used.
-- @param last how the previous try ended (core/try_outcomes)
function _M.refusal(last)
    return (last.status ~= 502 or not last.connected or last.answered) and (last.status or 502) or nil
end


--- Check the option `idempotent_methods`, a list of further methods; return their set.
-- @param option its full name
function _M.methods_of_option(given, option)
    local problem, remedy = "must be a list of methods", 'write it as idempotent_methods = { "PURGE" }'
    if type(given) ~= "table" then
        validate.bad(option, problem, remedy)
    end
    local methods = {}
    for _, method in ipairs(given) do
        if type(method) ~= "string" or not string.find(method, "^[A-Z_-]+$") then
            validate.bad(option, problem, remedy)
        end
        methods[method] = true
    end
    return methods
end


--- Tell whether a request that nginx wants to send again may be sent again: nothing of it went out, or its method
-- allows it.
-- @param last       how its previous try ended (core/try_outcomes)
-- @param configured method -> true for further idempotent methods (methods_of_option), or nil
function _M.may_be_sent_again(method, last, configured)
    return not last.sent or IDEMPOTENT[method] or DECIDED_BY_NGINX[method] or (configured and configured[method])
           or false
end


return _M
