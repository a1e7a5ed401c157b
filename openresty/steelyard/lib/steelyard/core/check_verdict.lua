--- The verdict of active health checks: the meaning of an answer, and when a peer falls and rises. Pure.
--
-- A peer is eligible until its first check, which decides at once, because there is nothing else to go by. After that
-- `fall` failed checks in a row take it out, and `rise` good ones in a row bring it back.

local number = require "steelyard.core.number"

-- OpenSSL's verification results for an unknown issuer: X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
-- _SELF_SIGNED_CERT_IN_CHAIN, _UNABLE_TO_GET_ISSUER_CERT (2) and _LOCALLY (20), _UNABLE_TO_VERIFY_LEAF_SIGNATURE,
-- _CERT_CHAIN_TOO_LONG.
local UNTRUSTED = { [2] = true, [18] = true, [19] = true, [20] = true, [21] = true, [22] = true }

local _M = {}


--- Judge an answer: return whether it is good, and if not the reason in words.
-- @param status of the answer; nil without one, and then `err` is the reason
-- @param settings statuses, statuses_words
function _M.judge(status, err, settings)
    if status == nil then
        return false, tostring(err)
    elseif settings.statuses[status] then
        return true
    end
    return false, "answered " .. status .. ", wants " .. settings.statuses_words
end


--- Return the operator's remedy for a failure of TLS itself; nil for any other failure.
-- @param why the reason, as judged
function _M.remedy(why)
    if why == "TLS: certificate host mismatch" then
        return "the certificate is for another name: set tls_server_name of the check to one that it has, or "
               .. "tls_verify = false"
    elseif why == "TLS: handshake failed" then
        return "if it lasts, the server has no TLS there, or no version of it in common: set lua_ssl_protocols "
               .. "TLSv1.2 TLSv1.3 in http {} (ngx_lua may leave out the latter), or check without tls"
    end
    local code = string.match(why, "^TLS: (%d+): ")
    if code and UNTRUSTED[number.trusted(code)] then
        return "nginx knows no CA that vouches for the certificate: set lua_ssl_trusted_certificate in http {} to the "
               .. "file of the CA, and lua_ssl_verify_depth where there are certificates between it and the server's; "
               .. "or tls_verify = false"
    end
end


--- Return the state after a check, and "up" or "down" if that is a change.
-- @param state { up, streak }: how many checks in a row contradicted it; nil before the first
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


--- Write a state as text, with the address it is about.
function _M.write(state, address)
    return address .. (state.up and " up " or " down ") .. state.streak
end


--- Return the state in a text; nil if there is none, or it is about another address.
function _M.read(text, address)
    local about, word, streak = string.match(text or "", "^(%S+) (%l+) (%d+)$")
    if about ~= address then
        return nil
    end
    return { up = word == "up", streak = number.trusted(streak) }
end


--- Tell whether a peer's check fell due within (from, now]. Each peer has a moment of its own in the interval. So
-- checks are spread over it, and differently from each load balancer.
-- @param phase 0..1, the peer's own
function _M.due(phase, from, now, interval_s)
    local shift_s = phase * interval_s
    return math.floor((now - shift_s) / interval_s) > math.floor((from - shift_s) / interval_s)
end


return _M
