--- Sticky sessions: a cookie names the server of a client's session.
--
-- Its value is a hash of the server's id, keyed with the secret if there is one. It reveals neither id nor address,
-- and all workers and load balancers with one secret agree on it. A request goes to the server in its cookie while
-- that is eligible, or drained and healthy: a drained server keeps its sessions and gets no new ones. Any other value
-- counts as none: the picker chooses, by weight, and the cookie then names that server.
--
-- A client may send several cookies of the name, for example an older one of another path or domain, and in any order.
-- nginx's $cookie_NAME is the first. So if that names no server, the others in the header are looked at.
--
-- Pure: the hash comes in.

local hash_key = require "steelyard.core.hash_key"
local validate = require "steelyard.core.validate"

local KNOWN = "cookie, secret, path, domain, max_age_s, same_site, secure"

-- 64 bits: two of 10,000 servers get the same value with a chance of 3e-12, and would share sessions.
local DIGITS = 16

-- Browsers keep a cookie for at most this long (RFC 6265bis).
local MAX_AGE_S = 400 * 86400

-- Shorter secrets can be guessed.
local MIN_SECRET_BYTES = 16

-- The part of a Cookie header in which further cookies of the name are looked for. Browsers send up to 4 kB a cookie.
local MAX_HEADER_BYTES = 16384

-- Peers between two calls of breathe(): 0.2 ms if all have to be hashed.
local PEERS_PER_BREATH = 50

local bad = validate.bad

local _M = {}
local mt = { __index = _M }


--- Check the option `sticky` of an upstream; raises with option and remedy.
-- @param option its full name
function _M.of_option(given, option)
    local remedy = 'write it as sticky = { cookie = "route" }'
    if type(given) ~= "table" then
        bad(option, "must be a table", remedy)
    end
    local where = option .. "."
    validate.only_known(given, KNOWN, where)
    local variable = type(given.cookie) == "string" and hash_key.variable("cookie:" .. given.cookie)
    if not variable then
        bad(where .. "cookie", "must be a name of letters, digits, _ and -", remedy)
    end
    local secret = given.secret
    if secret ~= nil and (type(secret) ~= "string" or #secret < MIN_SECRET_BYTES) then
        bad(where .. "secret", "must be a string of at least " .. MIN_SECRET_BYTES .. " bytes",
            "give the same to all load balancers: `openssl rand -hex 32` prints one")
    end
    local secure = validate.right(where, given, "secure", "boolean", "must be true or false",
                                  "leave it out for: where the client came by https")
    local same_site = given.same_site == nil and "Lax" or given.same_site
    if same_site ~= "Lax" and same_site ~= "Strict" and same_site ~= "None" then
        bad(where .. "same_site", "is " .. tostring(same_site), 'it may be "Lax", "Strict" or "None"')
    elseif same_site == "None" and not secure then
        bad(where .. "same_site", "is None", "browsers then want secure = true, too")
    end
    -- Parts of the cookie; nothing in them may end it.
    local path = validate.right(where, given, "path", validate.text("^/[^%c%s;,]*$"), "is %s",
                                'write it as path = "/shop"') or "/"
    local domain = validate.right(where, given, "domain", validate.text("^[%w.-]+$"), "is %s",
                                  'write it as domain = "example.com"')
    local max_age_s = validate.optional(where, given, "max_age_s", validate.WHOLE, 1, MAX_AGE_S,
                                        "until the browser is closed")
    return {
        cookie = given.cookie, variable = variable, secret = secret or "", secure = secure,
        attributes = "; Path=" .. path .. (domain and "; Domain=" .. domain or "")
                     .. (max_age_s and string.format("; Max-Age=%d", max_age_s) or "")
                     .. "; HttpOnly; SameSite=" .. same_site,
    }
end


--- Make the sessions of an upstream without peers.
-- @param settings of_option
-- @param digest   function(secret, text): hex digits
function _M.new(settings, digest)
    return setmetatable({
        cookie = settings.cookie, variable = settings.variable, settings = settings, digest = digest,
        values = {}, -- id -> the cookie's value, for all peers
        by_value = {}, -- value -> peer, for those that keep their sessions
    }, mt)
end


--- Return the sessions of new peers, for use(). May call breathe(); the previous ones go on meanwhile.
-- @param peers     all of them
-- @param eligible  those that the picker picks among
-- @param unhealthy id -> anything, for peers that health has taken out
function _M:prepared(peers, eligible, unhealthy, breathe)
    local values, by_value = {}, {}
    for i = 1, #peers do
        local peer = peers[i]
        local id = peer.id
        values[id] = self.values[id] or string.sub(self.digest(self.settings.secret, id), 1, DIGITS)
        if peer.state == "drain" and not unhealthy[id] then
            by_value[values[id]] = peer
        end
        breathe(i, PEERS_PER_BREATH)
    end
    for i = 1, #eligible do
        by_value[values[eligible[i].id]] = eligible[i]
        breathe(i, PEERS_PER_BREATH)
    end
    return { values = values, by_value = by_value }
end


--- Take the peers that were prepared().
function _M:use(sessions)
    self.values, self.by_value = sessions.values, sessions.by_value
end


--- The peer that a cookie's value names, nil when that may have no requests; nil without a value.
function _M:peer(value)
    return value and self.by_value[value]
end


--- Return the value of the next cookie of the name in a Cookie header, and a position in it; nil if there is none.
-- @param at the position to begin at
local function next_value(name, header, at)
    local sign = name .. "="
    while at <= MAX_HEADER_BYTES do
        local first, last = string.find(header, sign, at, true)
        if not first then
            return nil
        end
        if first == 1 or string.find(header, "^[;, ]", first - 1) then
            return string.match(header, "^[^;, ]*", last + 1), last + 1
        end
        at = last + 1
    end
end


--- The peer that any cookie in a Cookie header names; nil if none does.
function _M:peer_in(header)
    local value, at = next_value(self.cookie, header, 1)
    while value do
        if self.by_value[value] then
            return self.by_value[value]
        end
        value, at = next_value(self.cookie, header, at)
    end
end


--- Whether a cookie in a Cookie header names `peer`.
function _M:names(header, peer)
    local named, value, at = self.values[peer.id], next_value(self.cookie, header, 1)
    while value and value ~= named do
        value, at = next_value(self.cookie, header, at)
    end
    return value ~= nil
end


--- The header Set-Cookie with which a session is at `peer`; nil where the cookie says so already.
-- @param value    of the request's cookie, or nil
-- @param is_https whether the client's connection is encrypted
function _M:set_cookie(peer, value, is_https)
    local named = self.values[peer.id]
    if not named or named == value then
        return nil
    end
    local secure = self.settings.secure
    if secure == nil then
        secure = is_https
    end
    return self.cookie .. "=" .. named .. self.settings.attributes .. (secure and "; Secure" or "")
end


return _M
