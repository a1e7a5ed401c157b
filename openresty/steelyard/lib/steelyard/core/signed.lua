--- Signed values: someone who can write to Memcached, but has no key, cannot steer traffic.
--
--   <64 lower-case hex digits of HMAC-SHA256(key, text)>.<text>        RFC 2104
--
-- There is one form only, so a value either is signed or is not. Without a key a signed value is refused as well: a
-- reader that stripped an unchecked signature would look safe without being so. Both ends are tested on
-- docs/contract/signed.json.
--
-- A signature proves the writer of a text. The table itself identifies its upstream and its age: its name and (term,
-- generation). Pure; the digest is passed in.

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


--- Compare two digests in constant time: the time taken must not show how far a guess is right.
local function equal(a, b)
    local difference = bit.bxor(#a, #b)
    for i = 1, DIGITS do
        difference = bit.bor(difference, bit.bxor(string.byte(a, i) or 0, string.byte(b, i) or 0))
    end
    return difference == 0
end


--- Return the two keys in the output of `steelyard keys lb NAME`, `lb.TABLES.REPORTS`: the first opens weight tables,
-- the second signs this load balancer's traffic reports. Nil for any other key.
function _M.load_balancer_keys(key)
    local tables, reports = string.match(key, "^lb%.([0-9a-f]+)%.([0-9a-f]+)$")
    if tables and #tables == DIGITS and #reports == DIGITS then
        return tables, reports
    end
end


--- Return the signed value for a text and its digest.
function _M.value(digest, text)
    return digest .. "." .. text
end


--- Return the text of a value; nil and { reason, detail } if it is refused.
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
