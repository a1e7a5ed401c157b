--- Health of the peers, shared by all workers: `max_fails` with its half-open probe, and all marks that
-- take peers out. They are in the shared dict.
--
--   out/<upstream>/<id>/<kind>   a mark: "<until> <gone>\n<address>\n<why>", both by the monotonic clock
--   fails/<upstream>/<id>/<address>   tries without an answer, within fail_timeout_s
--   fails/<upstream>/url/<url>   the id of the peer at which this URL got no answer, "" if there are several
--   fails/<upstream>/<id>/<address>/url/<url>   there if it got none at this peer
--   probe/<upstream>/<id>/<by>   there for fail_timeout_s after a probe was sent, by a request or a subrequest
--   health/<upstream>            raised at each change; workers compare it
--   health/<upstream>/<n>        the id of the peer of change n, for JOURNAL_S
--
-- Kinds: `marked` (by Lua in nginx.conf), `fails` (max_fails), `ejected` (core/outlier_detection), and `check/<about>`
-- for active checks. A check's marks count only while a check with the same <about> is in force.
--
-- A mark is by id and notes the address: a peer that moves begins anew, and one that changes its place in the table
-- keeps its mark. Each mark has a TTL, so nothing is left of a removed peer or check.
--
-- A mark of kind `fails` is half-open from <until> to <gone>: the peer is out except for one request each
-- fail_timeout_s. If that request is answered, the mark is removed, else it is renewed. So a server that accepts and
-- never answers costs one request each fail_timeout_s, and not its share until max_fails time-outs are over.
--
-- Only a try that is sent claims a probe. Subrequests have a probe of their own (phase/request), because the answer to
-- one that nginx does not log stays unknown.
--
-- While nothing changes, a worker looks at no peer. After a change it looks at the peers in the journal and at those
-- that were out. A new worker looks at all peers, and so does one that missed entries of the journal.

local clock = require "steelyard.io.clock"
local shared_dict = require "steelyard.io.shared_dict"
local trusted = require("steelyard.core.number").trusted

-- In the order in which the status page names a peer's marks; a check's comes first.
local KINDS = { "marked", "ejected", "fails" }

-- After this long without a request the peer is simply back.
local HALF_OPEN_S = 3600

-- A clock that is set forward by less than this ends no mark (io/shared_dict).
local SPARE_S = 3600

-- Workers look ten times a second; a worker that paused for longer looks at all peers.
local JOURNAL_S = 60

-- Peers between two calls of breathe(); reading the marks of one takes about 4 us.
local PEERS_PER_BREATH, READ_PEERS_PER_BREATH = 100, 30

local NONE = {}

local _M = {
    MARKED = KINDS[1],
    BY_REQUEST = "request", BY_SUBREQUEST = "subrequest", -- each may send one probe each fail_timeout_s
}
local mt = { __index = _M }


--- Forget an upstream that is no longer served; its marks expire by themselves.
function _M:forget(upstream)
    self.seen[upstream] = nil
    self.dict:delete("health/" .. upstream)
end


--- Open the marks in a lua_shared_dict.
function _M.new(dict)
    return setmetatable({ dict = dict, seen = {} }, mt)
end


--- The kind of an active check's marks.
-- @param settings core/check_settings
function _M.check_kind(settings)
    return "check/" .. settings.about
end


local function mark_key(upstream, id, kind)
    return "out/" .. upstream .. "/" .. id .. "/" .. kind
end


--- Announce a change to all workers, after the mark was written. Return nil if there is no room for that.
local function announce(self, upstream, id)
    local number = self.dict:incr("health/" .. upstream, 1, 0)
    if number then
        -- A worker that looks in between finds no entry, and looks at all peers.
        self.dict:set("health/" .. upstream .. "/" .. number, id, JOURNAL_S)
    end
    return number
end


--- A number that changes when a mark is set, or removed before its end.
function _M:version(upstream)
    return self.dict:get("health/" .. upstream) or 0
end


local function packed(address, why, ttl_s, half_open_s)
    local until_s = clock.monotonic() + ttl_s
    return string.format("%.3f %.3f\n%s\n%s", until_s, until_s + half_open_s, address, why)
end


--- The mark under a key: { address, reason, until_s, gone_s, half_open }; nil if there is none, or it has expired.
local function mark_at(dict, key)
    local until_s, gone_s, address, why = string.match(dict:get(key) or "", "^(%S+) (%S+)\n([^\n]*)\n(.*)$")
    until_s, gone_s = trusted(until_s), trusted(gone_s)
    local now_s = clock.monotonic()
    if gone_s and gone_s > now_s then
        return { address = address, reason = why, until_s = until_s, gone_s = gone_s, half_open = until_s <= now_s }
    end
end


--- Take a peer out for `ttl_s`; return false if a mark of this kind exists, and nil if the shared dict has no room. A
-- half-open mark is replaced, any other one stays as it is.
-- @param half_open_s for how long after `ttl_s` one request at a time probes the peer; left out: it is back at once
function _M:mark(upstream, peer, kind, why, ttl_s, half_open_s)
    half_open_s = half_open_s or 0
    local key, value = mark_key(upstream, peer.id, kind), packed(peer.address, why, ttl_s, half_open_s)
    -- `add` decides between two workers, so that one of them writes the log.
    local marked, err = self.dict:add(key, value, ttl_s + half_open_s, SPARE_S)
    if not marked and err ~= shared_dict.FULL then
        local mark = mark_at(self.dict, key)
        if mark and mark.address == peer.address and not mark.half_open then
            return false
        end
        marked = self.dict:set(key, value, ttl_s + half_open_s, SPARE_S)
    end
    return marked and announce(self, upstream, peer.id) and true or nil
end


--- Let an existing mark last `ttl_s` from now, longer or shorter than before. Return true; nil if there is none, or the
-- shared dict has no room.
-- @param why its new reason; nil: keep the old one
function _M:renew(upstream, peer, kind, why, ttl_s)
    local key = mark_key(upstream, peer.id, kind)
    local mark = mark_at(self.dict, key)
    if not mark then
        return
    end
    why = why or mark.reason
    local ends_s = clock.monotonic() + ttl_s
    local marked = self.dict:set(key, packed(mark.address, why, ttl_s, 0), ttl_s, SPARE_S)
    -- A worker looks again at the end that it has seen, so it finds a later end by itself, and an earlier one too late.
    if why ~= mark.reason or ends_s < mark.until_s then
        announce(self, upstream, peer.id)
    end
    return marked or nil
end


--- Whether this worker found a mark of a kind at its last look.
local function has_seen(self, upstream, id, kind)
    local seen = self.seen[upstream]
    for _, mark in ipairs(seen and seen.marked[id] or NONE) do
        if mark.kind == kind or mark.kind == "check" and string.find(kind, "^check/") then
            return true
        end
    end
    return false
end


--- Remove a mark; return whether there was one.
function _M:clear(upstream, peer, kind)
    local key = mark_key(upstream, peer.id, kind)
    if not self.dict:get(key) then
        if has_seen(self, upstream, peer.id, kind) then
            announce(self, upstream, peer.id) -- the clock was set forward by more than SPARE_S, and the mark is lost
        end
        return false
    end
    self.dict:delete(key)
    announce(self, upstream, peer.id)
    return true
end


--- Note that a URL got no answer at a peer. Return whether that counts: it does not if the peer has failed it before,
-- and another peer has, too. The notes live as long as the count.
local function is_peer_s_fault(dict, upstream, peer, url, ttl_s)
    local prefix, suffix = "fails/" .. upstream, "/url/" .. ngx.crc32_long(url)
    local _, err = dict:add(prefix .. "/" .. peer.id .. "/" .. peer.address .. suffix, true, ttl_s)
    local first = dict:get(prefix .. suffix)
    local elsewhere = first ~= nil and first ~= peer.id
    if first == nil or elsewhere and first ~= "" then
        dict:set(prefix .. suffix, elsewhere and "" or peer.id, ttl_s)
    end
    return err ~= "exists" or not elsewhere
end


--- Why a try without an answer takes a peer out; nil if it does not. One try takes out a half-open peer, max_fails
-- tries within fail_timeout_s any other one. The count then begins anew.
-- @param url that no server has answered, or nil
local function why_out(dict, upstream, peer, settings, url)
    local mark = mark_at(dict, mark_key(upstream, peer.id, "fails"))
    if mark and mark.address == peer.address and mark.half_open then
        return "it did not answer again"
    elseif url and not is_peer_s_fault(dict, upstream, peer, url, settings.fail_timeout_s) then
        return nil
    end
    local max_fails, key = settings.max_fails, "fails/" .. upstream .. "/" .. peer.id .. "/" .. peer.address
    local fails = dict:incr(key, 1, 0, settings.fail_timeout_s)
    if not fails or fails < max_fails then
        return nil
    end
    dict:delete(key)
    return max_fails == 1 and "a try got no answer" or max_fails .. " tries got no answer"
end


--- Remove all marks except those of checks, which go on judging the peer.
function _M:clear_all(upstream, peer)
    for i = 1, #KINDS do
        self:clear(upstream, peer, KINDS[i])
    end
end


--- Count a try that got no answer at all, and take the peer out if that was the last one allowed.
-- @param settings max_fails (0: never), fail_timeout_s; no_half_open: after fail_timeout_s the peer is back at once
-- @param url the request's, if no server has answered it; nil: the server is at fault. A URL that gets no answer at
--        several servers counts once at each
function _M:failed(upstream, peer, settings, url)
    local timeout_s = settings.fail_timeout_s
    local why = settings.max_fails > 0 and why_out(self.dict, upstream, peer, settings, url)
    if why and self:mark(upstream, peer, "fails", why, timeout_s, settings.no_half_open and 0 or HALF_OPEN_S) then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": ", peer.id, " (", peer.address, ") is out for ",
                timeout_s, " s: ", why)
    end
end


local function probe_key(upstream, peer, by)
    return "probe/" .. upstream .. "/" .. peer.id .. "/" .. by
end


--- Whether claim_probe() would succeed now.
-- @param by BY_REQUEST or BY_SUBREQUEST
function _M:is_probe_due(upstream, peer, by)
    return not self.dict:get(probe_key(upstream, peer, by))
end


--- Claim the probe of a half-open peer for a try that is sent now. Return whether that worked: it does once for all
-- workers each fail_timeout_s, unless the probe is given back.
function _M:claim_probe(upstream, peer, by, fail_timeout_s)
    return self.dict:once(probe_key(upstream, peer, by), fail_timeout_s)
end


--- Give the probe of a request back that ended without log(), so that its outcome is unknown: another one may be sent
-- now. Otherwise a busy location with a log_by_lua of its own would take nearly every probe.
function _M:give_back_probe(upstream, peer)
    self.dict:delete(probe_key(upstream, peer, _M.BY_REQUEST))
end


--- Take a half-open peer back: it has answered.
function _M:answered(upstream, peer)
    if self:clear(upstream, peer, "fails") then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": ", peer.id, " (", peer.address, ") answers again")
    end
end


--- The ids whose marks changed after one version, up to another; nil if the journal no longer has all of them.
local function changed_since(self, upstream, from_version, to_version)
    local ids = {}
    for number = from_version + 1, to_version do
        local id = self.dict:get("health/" .. upstream .. "/" .. number)
        if not id then
            return nil
        end
        ids[id] = true
    end
    return ids
end


--- The ids that may have a mark: those with a mark at the last look of this worker, and those that changed since. All
-- ids if that is unknown.
local function suspects(self, upstream, version, peers, check_kind, breathe)
    local before = self.seen[upstream]
    if before and before.check_kind == check_kind and version - before.version <= #peers then
        local ids = changed_since(self, upstream, before.version, version)
        if ids then
            for id in pairs(before.marked) do
                ids[id] = true
            end
            return ids
        end
    end
    local ids = {}
    if version > 0 then
        for i = 1, #peers do
            ids[peers[i].id] = true
            breathe(i, PEERS_PER_BREATH)
        end
    end
    return ids
end


--- Append a peer's mark of one kind to a list, which is made if need be; return the list.
-- @param stored_kind the kind in the mark's key, which has a check's id
local function with_mark(marks, self, upstream, id, stored_kind, kind)
    local mark = mark_at(self.dict, mark_key(upstream, id, stored_kind))
    if mark then
        mark.kind = kind
        marks = marks or {}
        marks[#marks + 1] = mark
    end
    return marks
end


--- The marks of one peer, or nil. A check's comes first.
local function marks_of(self, upstream, id, check_kind)
    local marks = nil
    if check_kind then
        marks = with_mark(marks, self, upstream, id, check_kind, "check")
    end
    for i = 1, #KINDS do
        marks = with_mark(marks, self, upstream, id, KINDS[i], KINDS[i])
    end
    return marks
end


--- Append the keys of an upstream's marks to a list, for a new dict; as of this worker's last look.
function _M:add_keys(keys, upstream)
    local seen = self.seen[upstream] or NONE
    keys[#keys + 1] = "health/" .. upstream
    for id, marks in pairs(seen.marked or NONE) do
        for _, mark in ipairs(marks) do
            keys[#keys + 1] = mark_key(upstream, id, mark.kind == "check" and seen.check_kind or mark.kind)
        end
    end
end


--- The peers that are out: id -> { kind, reason, until_s, half_open }; and the time at which the first mark changes by
-- itself, or nil. Both times are by the monotonic clock. until_s is nil if a check or the next request decides.
-- @param check   the check in force (core/check_settings), or nil
-- @param breathe called now and then; requests may be served meanwhile
function _M:unhealthy(upstream, peers, check, breathe)
    local version, check_kind = self:version(upstream), check and _M.check_kind(check)
    local ids = suspects(self, upstream, version, peers, check_kind, breathe)
    local marked, looked = {}, 0
    for id in pairs(ids) do
        marked[id] = marks_of(self, upstream, id, check_kind)
        looked = looked + 1
        breathe(looked, READ_PEERS_PER_BREATH)
    end
    self.seen[upstream] = { version = version, marked = marked, check_kind = check_kind }
    if next(marked) == nil then
        return NONE, nil
    end
    local out, next_change_s = {}, nil
    for i = 1, #peers do
        local peer = peers[i]
        for _, mark in ipairs(marked[peer.id] or NONE) do
            if mark.address == peer.address then
                local ends_s = mark.half_open and mark.gone_s or mark.until_s
                out[peer.id] = out[peer.id] or {
                    kind = mark.kind, reason = mark.reason, half_open = mark.half_open,
                    until_s = mark.kind ~= "check" and not mark.half_open and mark.until_s or nil,
                }
                next_change_s = math.min(next_change_s or ends_s, ends_s)
            end
        end
        breathe(i, PEERS_PER_BREATH)
    end
    return out, next_change_s
end


return _M
