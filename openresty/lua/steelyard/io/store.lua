--- What workers share: the table of each upstream, and what fetching it met.
--
--   table/<upstream>     the raw JSON of the last good table
--   version/<upstream>   raised at each change; workers compare it
--   seen/<upstream>      when the last new table arrived (this machine's clock)
--   outcome/<upstream>   what the last fetch came to: ok, absent, or why refused
--   refused/<upstream>/<reason>   how often; `refusal/<upstream>` the last detail
--
-- The dict outlives a reload, so a table does too.

local _M = {}
local mt = { __index = _M }

-- The reasons of a decoder, and the two of ours.
_M.REASONS = {
    "too_large", "not_json", "not_object", "version", "missing", "type", "range", "name",
    "upstream", -- a table of another upstream under this one's key
    "older",    -- in the order (term, generation)
}


--- Open the store in a lua_shared_dict.
function _M.new(dict)
    return setmetatable({ dict = dict }, mt)
end


--- The raw table (nil: none yet) and its version.
function _M:table_text(upstream)
    return self.dict:get("table/" .. upstream)
end


function _M:version(upstream)
    return self.dict:get("version/" .. upstream) or 0
end


--- Publish a table to all workers; text first, so that whoever sees the new
-- version also finds the new text (or an even newer one).
function _M:publish(upstream, text, now)
    local ok, err = self.dict:set("table/" .. upstream, text)
    if not ok then
        return nil, err
    end
    self.dict:set("seen/" .. upstream, now)
    self.dict:incr("version/" .. upstream, 1, 0)
    return true
end


--- When the last new table arrived; nil when none ever did.
function _M:seen(upstream)
    return self.dict:get("seen/" .. upstream)
end


--- Note what a fetch came to; tell whether that is news.
function _M:outcome_changed(upstream, outcome)
    local key = "outcome/" .. upstream
    local news = self.dict:get(key) ~= outcome
    if news then
        self.dict:set(key, outcome)
    end
    return news
end


--- Count a refused value.
function _M:count_refused(upstream, reason, detail)
    self.dict:incr("refused/" .. upstream .. "/" .. reason, 1, 0)
    self.dict:set("refusal/" .. upstream, reason .. ": " .. detail)
end


--- Count a fetch that reached no Memcached.
function _M:count_fetch_error(err)
    self.dict:incr("fetch_errors", 1, 0)
    self.dict:set("fetch_error", err)
end


--- What was refused of an upstream, for the status page.
function _M:refusals(upstream)
    local counts = {}
    for _, reason in ipairs(_M.REASONS) do
        counts[reason] = self.dict:get("refused/" .. upstream .. "/" .. reason) or 0
    end
    return counts, self.dict:get("refusal/" .. upstream), self.dict:get("outcome/" .. upstream)
end


--- How many fetches failed, and the last error.
function _M:fetch_errors()
    return self.dict:get("fetch_errors") or 0, self.dict:get("fetch_error")
end


return _M
