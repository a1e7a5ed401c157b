--- The weight table of each upstream in the shared dict, and how fetching it went.
--
--   table/<upstream>     the JSON of the last good table, without its signature
--   order/<upstream>     its term.generation
--   source/<upstream>    where it came from: `memcached host:port`, `controller URL`, `saved`
--   version/<upstream>   raised at each change; workers compare it
--   seen/<upstream>      when the last new table arrived, by the monotonic clock: the time of day may be stepped
--   outcome/<upstream>   what the last fetch came to: ok, absent, or why refused
--   refused/<upstream>/<reason>   how often; `refusal/<upstream>` the last detail
--   doubtful/<upstream>  the table is the first of all, and no controller was asked for its own yet
--   unsaved/<upstream>   the table on disk is to be replaced by this one
--
-- The dict outlives a reload, so a table does too. A table of 10,000 peers has
-- 1 MB, and a new one is written beside it: 10m holds two such upstreams.

local weight_table = require "steelyard.core.weight_table"

local _M = {}
local mt = { __index = _M }


-- The reasons of a decoder, and those of ours.
_M.REASONS = {
    "too_large", "not_json", "not_object", "version", "missing", "type", "range", "name",
    "upstream",  -- a table of another upstream under this one's key
    "older",     -- in the order (term, generation)
    "unsigned",  -- a key is set, and the value has no signature
    "signature", -- or a wrong one
    "signed",    -- it has one, and no key is set
    "replayed",  -- signed long ago, and there is no other to compare it with
}

-- What `source` says of the table on disk.
_M.SAVED = "saved"


-- Of each upstream; and `refused/`.
local KEPT = {
    "table/", "order/", "source/", "version/", "seen/", "refusal/", "doubtful/", "unsaved/",
    "outcome/", "outcome/!rung/", "outcome/!check/", "outcome/!cells/",
}


--- Open the store in a lua_shared_dict.
function _M.new(dict)
    return setmetatable({ dict = dict, decoded = {} }, mt)
end


--- The JSON of the table; nil when there is none yet.
function _M:table_text(upstream)
    return self.dict:get("table/" .. upstream)
end


--- The decoded table; nil when there is none yet. Each worker decodes a text
-- once; `breathe` is called meanwhile.
function _M:table(upstream, breathe)
    local text = self:table_text(upstream)
    local last = self.decoded[upstream]
    if not text or last and last.text == text then
        return text and last.table
    end
    return self:keep(upstream, text, weight_table.decode(text, { breathe = breathe, previous = last and last.table }))
end


--- Remember what a text was decoded to; returns it.
function _M:keep(upstream, text, decoded)
    self.decoded[upstream] = decoded and { text = text, table = decoded }
    return decoded
end


--- The term and generation of the table; nil when there is none yet.
function _M:order(upstream)
    local term, generation = string.match(self.dict:get("order/" .. upstream) or "", "^(%d+)%.(%d+)$")
    return term and { term = tonumber(term), generation = tonumber(generation) }
end


function _M:version(upstream)
    return self.dict:get("version/" .. upstream) or 0
end


--- Publish a table to all workers; text first, so that whoever sees the new
-- version also finds the new text (or an even newer one).
-- @param order  anything with term and generation
-- @param source where it came from
-- @param now_s  by the monotonic clock
function _M:publish(upstream, text, order, source, now_s)
    local dict, before = self.dict, self:table_text(upstream)
    local ok, err = dict:set("table/" .. upstream, text)
    if not ok then
        if before then
            dict:set("table/" .. upstream, before) -- a set that fails has thrown it out
        end
        return nil, err
    end
    dict:set("order/" .. upstream, string.format("%.0f.%.0f", order.term, order.generation))
    dict:set("source/" .. upstream, source)
    dict:set("seen/" .. upstream, now_s)
    dict:incr("version/" .. upstream, 1, 0)
    return true
end


--- Forget an upstream that is no longer served.
function _M:forget(upstream)
    self.decoded[upstream] = nil
    for _, what in ipairs(KEPT) do
        self.dict:delete(what .. upstream)
    end
    for _, reason in ipairs(_M.REASONS) do
        self.dict:delete("refused/" .. upstream .. "/" .. reason)
    end
end


--- When the last new table arrived, by the monotonic clock; nil when none ever did.
function _M:arrived_at(upstream)
    return self.dict:get("seen/" .. upstream)
end


--- Where the table came from; nil when there is none yet.
function _M:source(upstream)
    return self.dict:get("source/" .. upstream)
end


--- Whether the table is the one from disk, and none was fetched since nginx started.
function _M:from_disk(upstream)
    return self:source(upstream) == _M.SAVED
end


--- Set a value; return whether it changed. Of workers that start together one gets true.
local function changed(dict, key, value)
    if dict:add(key, value) then
        return true
    end
    local news = dict:get(key) ~= value
    if news then
        dict:set(key, value)
    end
    return news
end


--- Note the outcome of a fetch; return whether it changed.
function _M:outcome_changed(upstream, outcome)
    return changed(self.dict, "outcome/" .. upstream, outcome)
end


--- Count a refused value.
function _M:count_refused(upstream, reason, detail)
    self.dict:incr("refused/" .. upstream .. "/" .. reason, 1, 0)
    self.dict:set("refusal/" .. upstream, reason .. ": " .. detail)
end


--- How many values were refused by reason, the last refusal, and the last outcome, for the status page.
function _M:refusals(upstream)
    local counts = {}
    for _, reason in ipairs(_M.REASONS) do
        counts[reason] = self.dict:get("refused/" .. upstream .. "/" .. reason) or 0
    end
    return counts, self.dict:get("refusal/" .. upstream), self.dict:get("outcome/" .. upstream)
end


--- Count an error of a kind: a `fetch` that reached no Memcached, a `controller` that did not answer when needed.
function _M:count_error(kind, err)
    self.dict:incr(kind .. "_errors", 1, 0)
    self.dict:set(kind .. "_error", err)
end


--- How many of that kind there were, and the last one.
function _M:errors(kind)
    return self.dict:get(kind .. "_errors") or 0, self.dict:get(kind .. "_error")
end


--- Note whether a table is `unsaved`: the one on disk lacks what is served; or `doubtful`: it may be an old one,
-- since there was none to compare it with.
function _M:mark(upstream, what, holds)
    self.dict:set(what .. "/" .. upstream, holds or nil)
end


--- Whether it is.
function _M:is(upstream, what)
    return self.dict:get(what .. "/" .. upstream) == true
end


--- Note why tables cannot be saved, nil when they can; return whether that changed.
function _M:saved_error_changed(err)
    if err then
        return changed(self.dict, "saved_error", err)
    end
    local news = self:saved_error() ~= nil
    self.dict:delete("saved_error")
    return news
end


--- Why tables cannot be saved; nil when they can.
function _M:saved_error()
    return self.dict:get("saved_error")
end


return _M
