--- Retries: how many tries a request is given, and which of them may be used.
--
-- With one server there is none beyond the first. But some nginx do not give a try back when a pooled connection turns
-- out closed (io/platform). For that alone they get a spare one. Whether a request's second try is a spare one is
-- decided at its first, because servers may come and go meanwhile. Pure.

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

local _M = {}


--- Return how many tries a request is given beyond the first, and whether that is a spare one.
-- @param more_tries as the number of servers allows
-- @param retries    the option
-- @param with_spare whether this nginx needs a spare one
function _M.given(more_tries, retries, with_spare)
    if more_tries == 0 and with_spare and retries > 0 then
        return 1, true
    end
    return more_tries, false
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
