--- Signed values: who can write to Memcached, but has no key, cannot steer traffic.
--
--   <64 lower-case hex digits of HMAC-SHA256(key, text)>.<text>        RFC 2104
--
-- One form only, so that a value either is signed or is not. Without a key a
-- signed value is refused as well: a reader that strips what it cannot check
-- would look safe and not be. Both ends are tested on docs/contract/signed.json.
--
-- A signature says who wrote a text. That it is this upstream's, and not an old
-- one, the table itself tells: its name and (term, generation). Pure; the digest
-- is passed in.

local bit = require "bit"

local DIGITS = 64

local UNSIGNED = {
    reason = "unsigned",
    detail = "it is not signed with the shared key; set the key where it is written (the controller's)",
}

local FORGED = {
    reason = "signature",
    detail = "it is signed with another key, or was changed on the way",
}

local KEYLESS = {
    reason = "signed",
    detail = "it is signed, and no key is set here: set the option `key` of init_worker",
}

local _M = {}


local function is_signed(value)
    local digits = string.match(value, "^([0-9a-f]+)%.")
    return digits ~= nil and #digits == DIGITS
end


--- Compare two digests in constant time: how far a guess is right must not show
-- in how long it took.
local function equal(a, b)
    local difference = bit.bxor(#a, #b)
    for i = 1, DIGITS do
        difference = bit.bor(difference, bit.bxor(string.byte(a, i) or 0, string.byte(b, i) or 0))
    end
    return difference == 0
end


--- The two keys in what `steelyard keys lb NAME` prints, `lb.TABLES.REPORTS`: that which
-- opens weight tables, and that which signs this load balancer's traffic reports; nil
-- where it is another key.
function _M.load_balancer_keys(key)
    local tables, reports = string.match(key, "^lb%.([0-9a-f]+)%.([0-9a-f]+)$")
    if tables and #tables == DIGITS and #reports == DIGITS then
        return tables, reports
    end
end


--- The value for a text, given its digest.
function _M.value(digest, text)
    return digest .. "." .. text
end


--- The text of a value; nil and { reason, detail } when it is refused.
-- @param digest text -> hex digits; nil without a key
function _M.open(value, digest)
    if not is_signed(value) then
        if digest then
            return nil, UNSIGNED
        end
        return value
    end
    if not digest then
        return nil, KEYLESS
    end
    local text = string.sub(value, DIGITS + 2)
    if not equal(digest(text), string.sub(value, 1, DIGITS)) then
        return nil, FORGED
    end
    return text
end


return _M
